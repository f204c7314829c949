"""Operators that act in some timesteps only: each row of a batch as its own timestep says."""

from typing import Any

import pytest
import torch
from torch import Tensor

import bigain
from bigain import Compression
from bigain.models.rows import RowGroups, same_input
from bigain.models.windows import holds
from helpers.denoisers import CLASSES, tiny
from helpers.models import BACKBONES, call, run, traces

SD = BACKBONES["sd"]
MERGE, POOL = "gated_merge(ratio=0.6)", "kv_downsample(factor=2)"
T = torch.tensor([700, 100, 500, 499])
INSIDE = T >= 500
UPPER, LOWER = (500, 999), (0, 499)


@pytest.fixture(scope="module")
def unet() -> Any:
    return SD.build()


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-4)


def each_row(inside: Tensor, outside: Tensor) -> Tensor:
    return torch.where(INSIDE.view(-1, *[1] * (inside.ndim - 1)), inside, outside)


@pytest.mark.parametrize("name", [name for name in BACKBONES if name != "controlnet"])
def test_each_row_of_a_batch_acts_by_its_own_timestep(name: str) -> None:
    backbone = BACKBONES[name]
    model, everywhere = backbone.build(), ("self", "mlp")
    dense = run(backbone, model, batch=4, t=T)
    for operator in (MERGE, POOL):
        where = bigain.Where(module="self" if operator == POOL else everywhere)
        try:
            with bigain.compress(model, operator, where=where):
                compressed = run(backbone, model, batch=4, t=T)
        except ValueError:  # a model that cannot do it says so without when, too
            continue
        with bigain.compress(model, operator, where=where, when=UPPER):
            close(run(backbone, model, batch=4, t=T), each_row(compressed, dense))


def test_a_pass_of_one_timestep_is_compressed_or_dense_to_the_bit(unet: Any) -> None:
    dense, low = run(SD, unet, t=torch.tensor(600)), run(SD, unet, t=torch.tensor(499))
    with bigain.compress(unet, MERGE):
        compressed = run(SD, unet, t=torch.tensor(600))
    before = traces(unet)
    with bigain.compress(unet, MERGE, when=UPPER):
        assert torch.equal(run(SD, unet, t=torch.tensor(600)), compressed)
        assert torch.equal(run(SD, unet, t=torch.tensor(499)), low)
    assert torch.equal(run(SD, unet, t=torch.tensor(600)), dense)
    assert traces(unet) == before


def test_operators_share_sites_in_different_windows(unet: Any) -> None:
    outputs = []
    for operator in (MERGE, POOL):
        with bigain.compress(unet, operator):
            outputs.append(run(SD, unet, batch=4, t=T))
    with bigain.compress(unet, MERGE, when=UPPER) as first, bigain.compress(unet, POOL, when=(200, 499)) as second:
        found = run(SD, unet, batch=4, t=T)
        rows = first.status()[0], second.status()[0]
        assert [(row.queries, row.keys) for row in rows] == [(103, 103), (256, 64)]
    dense = run(SD, unet, batch=4, t=T)
    close(found, torch.stack([outputs[0][0], dense[1], outputs[0][2], outputs[1][3]]))


def test_windows_on_one_site_must_not_overlap(unet: Any) -> None:
    with bigain.compress(unet, MERGE, when=UPPER), pytest.raises(ValueError, match="already compressed") as raised:
        bigain.compress(unet, POOL, when=(0, 500))
    assert "gated_merge(ratio=0.6), when=(500, 999)" in str(raised.value)


@pytest.mark.parametrize("correct", [False, True])
@pytest.mark.parametrize("operator", [MERGE, "tome(ratio=0.6, pattern='per_row')"])
def test_groups_in_a_batch_of_several_timesteps(unet: Any, operator: str, correct: bool) -> None:
    """Two noisy inputs under two texts each: shared plans and corrections are those of the input alone."""
    t = torch.tensor([700, 100, 700, 100])
    inputs = SD.inputs(batch=4, t=t)
    latents, _, text = inputs.args
    inputs = inputs._replace(args=(latents[:2].repeat(2, 1, 1, 1), t, text))
    keys, members = torch.tensor([5, 6]), torch.tensor([0, 0, 1, 1])
    both = RowGroups(torch.tensor([0, 1, 0, 1]), 2, keys=keys, members=members, cache={})
    options: Any = {"groups": "input", "correct": correct}
    with torch.no_grad():
        dense = call(unet, inputs)
        with bigain.compress(unet, operator, **options), same_input(both):
            compressed = call(unet, inputs)
        with bigain.compress(unet, operator, **options, when=UPPER), same_input(both._replace(cache={})):
            close(call(unet, inputs), torch.where((t >= 500).view(-1, 1, 1, 1), compressed, dense))


def test_groups_are_not_torn_apart(unet: Any) -> None:
    with (
        bigain.compress(unet, MERGE, groups=2, when=UPPER),
        pytest.raises(ValueError, match="rows that share a plan must have one timestep"),
    ):
        run(SD, unet, batch=4, t=T)
    with bigain.compress(unet, MERGE, groups="cfg", when=UPPER):
        run(SD, unet, batch=4, t=torch.tensor([700, 100, 700, 100]))


def test_gradients_reach_all_rows(unet: Any) -> None:
    inputs = SD.inputs(batch=4, t=T)
    latents = inputs.args[0].clone().requires_grad_()
    with bigain.compress(unet, MERGE, when=UPPER):
        unet(latents, *inputs.args[1:]).sample.square().sum().backward()
    assert latents.grad is not None
    assert latents.grad.flatten(1).norm(dim=1).gt(0).all()


@pytest.mark.parametrize("options", [{}, {"groups": "classes", "correct": True}], ids=["alone", "corrected"])
def test_decisions_do_not_depend_on_batches(options: dict[str, Any]) -> None:
    denoiser = tiny("unet")
    images = [torch.rand(1, 32, 32, generator=torch.Generator().manual_seed(i)) * 2 - 1 for i in range(2)]

    def errors(batch_size: int) -> Tensor:
        classifier = bigain.DiffusionClassifier(denoiser, CLASSES, "exhaustive(trials=4)", batch_size=batch_size)
        return torch.stack([torch.from_numpy(decision.errors) for decision in classifier(images)])

    dense = errors(24)
    with bigain.compress(denoiser.network, MERGE, when=UPPER, **options):
        many, few = errors(24), errors(6)
    close(many, few)
    close(many[..., :2], dense[..., :2])
    assert not torch.allclose(many[..., 2:], dense[..., 2:], rtol=1e-4)


def test_groups_of_classes_leave_generation_alone() -> None:
    """In generation, the halves of guidance have plans of their own and no correction."""
    denoiser, sampling = tiny("unet"), bigain.Sampling(2)
    with bigain.compress(denoiser.network, MERGE):
        expected = bigain.generate(denoiser, ["a", "b"], sampling)
    with bigain.compress(denoiser.network, MERGE, groups="classes", correct=True):
        assert torch.equal(bigain.generate(denoiser, ["a", "b"], sampling), expected)


@pytest.mark.slow
def test_compiled_blocks_follow_the_timestep(unet: Any) -> None:
    model = SD.build()
    with bigain.compress(model, MERGE, when=UPPER):
        expected = [run(SD, model, t=torch.tensor(t)) for t in (600, 100)]
        model.compile_repeated_blocks(backend="eager")
        for t, output in zip((600, 100), expected, strict=True):
            close(run(SD, model, t=torch.tensor(t)), output)
    torch.compiler.reset()


def test_a_graph_of_the_whole_model_is_refused(unet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    with (
        bigain.compress(unet, MERGE, when=UPPER),
        pytest.raises(RuntimeError, match=r"compile its blocks with compile_repeated_blocks\(\)"),
    ):
        run(SD, unet)


@pytest.mark.parametrize(
    ("when", "text"),
    [
        ((999, 500), r"the smaller one first, got \(999, 500\); did you mean \(500, 999\)\?"),
        ((-1, 5), "two timesteps of at least 0"),
        (500, r"such as \(500, 999\), got 500"),
        ("late", "got 'late'"),
        ((0.5, 1), r"got \(0.5, 1\)"),
        ((1, 2, 3), r"got \(1, 2, 3\)"),
    ],
)
def test_windows_are_checked(when: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Compression(MERGE, when=when)


def test_a_window_is_part_of_the_setting() -> None:
    setting = Compression(MERGE, when=[500, 999])
    assert Compression(**setting.as_dict()) == setting
    assert str(setting) == "gated_merge(ratio=0.6) when=(500, 999)"
    assert "when" not in Compression(MERGE).as_dict()  # as in records from before


def test_timesteps_of_flows_lie_in_one_window() -> None:
    for t in (0.0, 0.3, 499.0, 499.9, 500.0, 999.6, 1000.0):
        assert holds(LOWER, t) + holds(UPPER, t) == 1, t
    assert holds(None, 3)


def test_a_model_without_values_says_so() -> None:
    model = SD.on_meta()
    with bigain.compress(model, MERGE, when=UPPER), pytest.raises(RuntimeError, match="on the meta device have none"):
        call(model, SD.inputs(device="meta"))
