"""`bigain show` draws what really happens in the model: plans and scores are compared with those of plain passes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from PIL import Image
from torch import Tensor

from bigain.classify.images import to_tensor
from bigain.commands.show import choose_site, look, noisy_pass, show
from bigain.compression import compress
from bigain.data import load_data
from bigain.data.fashion_mnist import CLASSES
from bigain.denoisers.base import Denoiser, ImageSpec
from bigain.denoisers.labelled import LabelledDenoiser, build_labelled
from bigain.denoisers.schedule import Schedule
from bigain.loading import load
from bigain.operators.base import Call, parse
from bigain.plots import save_figure
from bigain.plots.tokens import borders, legend, view_groups, view_pool, view_selection, view_shares
from bigain.tokens.grid import Grid
from bigain.tokens.plans import Pooled, Selected, assign
from bigain.tokens.scores import laplacian_l1
from bigain.zoo.recipes import RECIPES
from helpers.models import traces
from helpers.pipelines import Shelf
from helpers.runs import save_tiny

pytestmark = pytest.mark.slow

OPERATORS = ["gated_merge(ratio=0.5)", "tome(ratio=0.5)"]
FIRST = {"unet": "down_blocks.0.attentions.0.transformer_blocks.0.attn1", "dit": "transformer_blocks.0.attn1"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Denoiser]:
    torch.manual_seed(0)
    recipe = RECIPES["fashion-dit"]
    small = recipe.architecture | {"num_layers": 3, "num_attention_heads": 2, "attention_head_dim": 4}
    labelled = build_labelled("dit", small, len(CLASSES))
    dit = LabelledDenoiser(labelled, Schedule(**recipe.schedule), ImageSpec(28, 1, 2), CLASSES)
    return {"unet": load(save_tiny(tmp_path_factory.mktemp("model"))), "dit": dit}


@pytest.fixture(scope="module")
def image() -> Any:
    return load_data("fashion-sample").examples[0].image


def dense_tokens(denoiser: Denoiser, image: Any, block: str, noise: Tensor, t: int) -> Tensor:
    """What a block's operator would look at, from a plain pass: (B, N, C)."""
    module: Any = denoiser.network.get_submodule(block)
    place = module.attn1 if type(denoiser.network).__name__ == "DiTTransformer2DModel" else module
    found: list[Tensor] = []
    hook = place.register_forward_pre_hook(lambda module, args: found.append(args[0]))
    latents = denoiser.encode(to_tensor(image, denoiser.image_spec)[None]).expand(noise.shape)
    times = torch.full((len(noise),), t)
    with torch.no_grad():
        denoiser.noise(denoiser.schedule.add_noise(latents, noise, times), times, denoiser.unconditional(len(noise)))
    hook.remove()
    return found[0]


def drawn_score(figure: Figure) -> np.ndarray:
    return np.array(figure.axes[1].images[0].get_array())


@pytest.mark.parametrize("name", ["unet", "dit"])
def test_the_score_is_the_mean_over_draws(models: dict[str, Denoiser], image: Any, name: str) -> None:
    figure = show(image, models[name], OPERATORS, draws=3, t=300, seed=5)
    noise = torch.randn((3, 4, 16, 16), generator=torch.Generator().manual_seed(5))
    tokens = dense_tokens(models[name], image, FIRST[name].removesuffix(".attn1"), noise, 300)
    expected = torch.stack([laplacian_l1(row[None], Grid(16, 16))[0] for row in tokens]).mean(0)
    np.testing.assert_allclose(drawn_score(figure), expected.view(16, 16), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["unet", "dit"])
@pytest.mark.parametrize("text", [*OPERATORS, "block_merge(ratio=0.5)", "sito(ratio=0.5)", "kv_select(keep=0.3)"])
def test_the_plan_is_the_one_of_the_pass(models: dict[str, Denoiser], image: Any, name: str, text: str) -> None:
    """At the first site nothing has been compressed yet, so the plan follows from the tokens of a plain pass."""
    noise = torch.randn((2, 4, 16, 16), generator=torch.Generator().manual_seed(0))
    denoiser = models[name]
    site = choose_site(denoiser, [text], None)
    assert site.name == FIRST[name]
    forward = noisy_pass(denoiser, to_tensor(image, denoiser.image_spec), None, 500, noise)
    found = look(denoiser, text, site, forward, everywhere=True).plan
    tokens = dense_tokens(denoiser, image, site.block, noise, 500)
    expected = parse(text).plan(tokens, Call(Grid(16, 16), torch.tensor([500, 500]), torch.tensor([0]), site.index))
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other) if isinstance(one, Tensor) else one == other


def test_later_sites_are_seen_in_the_compressed_model(models: dict[str, Denoiser], image: Any) -> None:
    denoiser = models["unet"]
    name = "up_blocks.1.attentions.1.transformer_blocks.0.attn1"
    forward = noisy_pass(denoiser, to_tensor(image, denoiser.image_spec), 3, 200, torch.randn(1, 4, 16, 16))
    site = choose_site(denoiser, OPERATORS, name)
    everywhere = look(denoiser, "gated_merge(ratio=0.7)", site, forward, everywhere=True)
    alone = look(denoiser, "gated_merge(ratio=0.7)", site, forward, everywhere=False)
    assert not torch.equal(everywhere.tokens, alone.tokens)
    assert site.name == name


@pytest.mark.parametrize("name", ["unet", "dit"])
def test_the_figure(models: dict[str, Denoiser], image: Any, name: str, tmp_path: Path) -> None:
    before = traces(models[name].network)
    figure = show(image, models[name], OPERATORS, label="coat")
    assert traces(models[name].network) == before
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == [
        "as the model sees it\n16x16 tokens",
        "Laplacian score\nmean of n = 4 noise draws",
        "gated_merge(ratio=0.5)\n256 tokens to 128",
        "tome(ratio=0.5)\n256 tokens to 128",
        "",
    ]  # the last is the scale of the score
    caption = figure.get_supxlabel().replace("\n", " ")
    assert (
        f"{FIRST[name]} ({'down' if name == 'unet' else 'blocks'}, downsample 1), t = 500, label coat, seed 0."
        in caption
    )
    with Image.open(save_figure(figure, tmp_path / "show.png")) as opened:
        pixels = np.array(opened.convert("RGB"))
    assert pixels.std() > 30
    bounds, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert bounds.x0 > -0.01
    assert bounds.x1 < width + 0.01
    assert bounds.y1 < height + 0.01
    save_figure(show(image, models[name], OPERATORS, label="coat"), tmp_path / "again.png")
    assert (tmp_path / "again.png").read_bytes() == (tmp_path / "show.png").read_bytes()


def test_every_kind_of_plan_can_be_drawn(models: dict[str, Denoiser], image: Any) -> None:
    texts = {
        "sito(ratio=0.5)": "256 tokens to 128",
        "kv_downsample(factor=2)": "16x16 keys to 8x8, alpha 0.9",
        "kv_downsample(factor=3, alpha=(0.0, 2.0))": "16x16 keys to 5x5, alpha 0.999",
        "todo(factor=4)": "16x16 keys to 4x4, alpha 1",
        "kv_select(keep=0.25)": "256 keys to 64",
        "gated_merge(ratio=0)": "all 256 tokens unchanged",
    }
    figure = show(image, models["unet"], list(texts))
    found = [axes.get_title().split("\n")[-1] for axes in figure.axes[2 : 2 + len(texts)]]
    assert found == list(texts.values())


def test_the_first_draw_does_not_depend_on_the_number(models: dict[str, Denoiser], image: Any) -> None:
    fills = [show(image, models["unet"], OPERATORS, draws=draws).axes[2].images[1].get_array() for draws in (1, 3)]
    np.testing.assert_array_equal(*fills)


def test_stable_diffusion(tmp_path: Path) -> None:
    denoiser = Shelf(tmp_path).get("sd")
    picture = Image.effect_noise((40, 50), 60)
    figure = show(picture, denoiser, ["tome(ratio=0.5)", "todo"], label="a cat", draws=2)
    assert figure.axes[2].get_title() == "tome(ratio=0.5)\n256 tokens to 128"
    assert drawn_score(figure).shape == (16, 16)


def test_errors(models: dict[str, Denoiser], image: Any) -> None:
    unet = models["unet"]
    with pytest.raises(ValueError, match=r"no site 'mid' in UNet2DConditionModel\. Available:\n  down_blocks"):
        show(image, unet, OPERATORS, site="mid")
    coarse = "mid_block.attentions.0.transformer_blocks.0.attn1"
    with pytest.raises(ValueError, match=rf"tome\(ratio=0.5\) does not compress {coarse}; by default .*:\n  down"):
        show(image, unet, ["tome(ratio=0.5)"], site=coarse)
    for t in (-1, 1000, 0.5):
        with pytest.raises(ValueError, match=rf"t must be a timestep from 0 \(an image\) to 999 \(noise\), got {t}"):
            show(image, unet, OPERATORS, t=t)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="draws must be an int of at least 1, got 0"):
        show(image, unet, OPERATORS, draws=0)
    for none in ([], "tome(ratio=0.5)"):
        with pytest.raises(ValueError, match="operators must be a list of at least one operator, got "):
            show(image, unet, none)
    with pytest.raises(ValueError, match=r"unknown operator 'tomme'\. Did you mean 'tome'"):
        show(image, unet, ["tomme(ratio=0.5)"])
    with pytest.raises(ValueError, match=r"unknown class 'cot'\. Did you mean 'coat'"):
        show(image, unet, OPERATORS, label="cot")
    with (
        compress(unet.network, "todo"),
        pytest.raises(ValueError, match="the model is already compressed; call bigain"),
    ):
        show(image, unet, OPERATORS)
    with pytest.raises(ValueError, match=r"cannot read nothing\.png as an image"):
        show("nothing.png", unet, OPERATORS)


@given(st.lists(st.integers(0, 11), min_size=12, max_size=12), st.booleans())
def test_groups_are_filled_and_the_rest_is_framed(chosen: list[int], prune: bool) -> None:
    """A token that shares its group has the group's colour; others, and those that stand for pruned ones, a frame."""
    kept = sorted(set(chosen))
    target = [i if i in kept else chosen[i] for i in range(12)]
    plan = assign(torch.tensor([target]), 12 - len(kept), prune=prune)
    view = view_groups(plan, Grid(3, 4))
    filled, framed, cells = (part.ravel() for part in (view.filled, view.framed, view.cells))
    for i in range(12):
        shared = target.count(target[i]) > 1
        assert (filled[i] >= 0) == shared
        assert framed[i] == (not shared or (prune and target[i] == i))
        for j in range(12):
            assert (cells[i] == cells[j]) == (target[i] == target[j])
            if shared:
                assert (filled[i] == filled[j]) == (target[i] == target[j])
    assert not view.greyed.any()
    assert view.words == f"12 tokens to {len(kept)}"


@given(st.integers(2, 9), st.integers(2, 9), st.integers(2, 4), st.sampled_from([0.0, 0.5, 1.0]))
def test_cells_hold_one_nearest_token_each(height: int, width: int, factor: int, alpha: float) -> None:
    grid, coarse = Grid(height, width), Grid(max(1, height // factor), max(1, width // factor))
    view = view_pool(Pooled(grid, coarse, alpha), grid)
    assert sorted(set(view.cells.ravel())) == list(range(coarse.tokens))
    if alpha:
        assert sorted(view.cells[view.framed]) == list(range(coarse.tokens))
    else:
        assert not view.framed.any()
    assert (view.greyed == (~view.framed if alpha == 1 else False)).all()
    if height % coarse.height == 0 and width % coarse.width == 0:
        for y in range(height):
            for x in range(width):
                row, column = y * coarse.height // height, x * coarse.width // width
                assert view.cells[y, x] == row * coarse.width + column


def test_a_selection_frames_what_is_taken() -> None:
    view = view_selection(Selected(torch.tensor([[1, 4]])), Grid(2, 3))
    np.testing.assert_array_equal(view.framed, [[False, True, False], [False, True, False]])
    np.testing.assert_array_equal(view.greyed, ~view.framed)


def test_shares_show_the_nearest_destination_inside_tiles() -> None:
    grid = Grid(4, 9)  # two tiles of 4x4, and a column that is left over
    x = torch.randn(1, grid.tokens, 3, generator=torch.Generator().manual_seed(0))
    plan = parse("toma(ratio=0.5, tiles=4)").plan(x, Call(grid))
    seen = view_shares(plan, grid)
    assert seen.soft
    assert "by shares" in legend([seen])
    assert sorted(np.unique(seen.cells)) == [-1, 0, 1]
    assert (seen.filled[:, -1] == -1).all()
    assert seen.framed.sum() == plan.keep.shape[1]
    for token in plan.keep[0, : plan.share.shape[1] * plan.share.shape[3]].tolist():
        own = seen.filled.flat[token]
        assert (seen.filled == own).sum() >= 1
        assert plan.keep[0, own] == token  # a destination has the colour of its own group


def test_borders_lie_between_different_cells() -> None:
    assert borders(np.array([[1, 1, 2], [1, 3, 2]])) == [
        ((1, 1), (2, 1)),
        ((2, 0), (2, 1)),
        ((1, 1), (1, 2)),
        ((2, 1), (2, 2)),
    ]
