"""Another image size than the pipeline's own."""

from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from rich.console import Console

import bigain
from bigain.bench.flops import count_flops
from bigain.denoisers.pipelines import from_pipeline
from bigain.experiments.report import read_report
from bigain.experiments.run import run_file
from bigain.generation import Sampling, generate
from bigain.models.architectures import meta_copy
from helpers.models import noise
from helpers.pipelines import BUILDERS, save

SIZES = {"sd": 50, "sdxl": 48, "dit": 48, "pixart": 48, "sd3": 48, "flux": 64, "qwen-image": 64}

pytestmark = pytest.mark.filterwarnings("ignore:__array_:DeprecationWarning")


@pytest.mark.parametrize(("name", "size"), SIZES.items())
def test_another_image_size(name: str, size: int, tmp_path: Path) -> None:
    denoiser = bigain.load(save(name, tmp_path), image_size=size)
    classes = [207] if name == "dit" else ["a cat"]
    assert denoiser.image_spec == (size, 3, 0)
    assert denoiser.latent_shape == (4, size // 2, size // 2)
    latents = denoiser.encode(noise(1, 3, size, size, seed=0).clamp(-1, 1))
    assert latents.shape[1:] == denoiser.latent_shape
    error = denoiser.error(latents, denoiser.conditions(classes), torch.tensor([500]), torch.randn_like(latents))
    assert error.isfinite().all()
    assert generate(denoiser, classes, Sampling(2)).shape == (1, 3, size, size)


def test_images_are_those_of_the_pipeline_at_that_size(tmp_path: Path) -> None:
    torch.manual_seed(0)
    pipe = BUILDERS["flux"](tmp_path)
    pipe.set_progress_bar_config(disable=True)
    denoiser = from_pipeline(pipe, 64)
    assert denoiser.mu != from_pipeline(pipe).mu
    found = generate(denoiser, ["a cat"], Sampling(2, 2.0))
    latents = torch.randn(denoiser.latent_shape, generator=bigain.generation.image_generator(0, 0))[None]
    packed = pipe._pack_latents(latents, 1, *denoiser.latent_shape)
    options: dict[str, Any] = {"num_inference_steps": 2, "guidance_scale": 2.0, "output_type": "pt"}
    expected = 2 * pipe("a cat", latents=packed, height=64, width=64, **options).images - 1
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


def test_sdxl_is_told_the_size(tmp_path: Path) -> None:
    denoiser = from_pipeline(BUILDERS["sdxl"](tmp_path), 48)
    sizes = denoiser.conditions(["a cat"]).values["added_cond_kwargs"]["time_ids"]
    assert sizes.tolist() == [[48, 48, 0, 0, 48, 48]]


def test_flux_knows_its_pixels_from_the_pipeline(tmp_path: Path) -> None:
    assert bigain.load(save("flux", tmp_path)).image_spec.size == 2 * 128


def test_an_experiment_of_that_size(tmp_path: Path) -> None:
    """Pictures, tokens and FLOPs are those of the size; another size is another experiment."""
    file = tmp_path / "size.toml"
    text = """
        title = "Another size"
        model = "model"
        data = "fashion-sample"
        n = 2
        policy = "exhaustive(1)"
        tasks = ["classify", "generate"]
        generate = {count = 2, num_inference_steps = 1}
        rows = [{name = "none", operator = "none"}, {name = "todo", operator = "todo(factor=2)"}]
        image_size = 48
    """
    place = save("sd", tmp_path)
    file.write_text(text.replace('"model"', f'"{place}"'))
    run_file(file, tmp_path / "run", "cpu", Console(quiet=True))
    with Image.open(tmp_path / "run" / "images" / "1" / "000000.png") as picture:
        assert picture.size == (48, 48)
    rows = {row.label: row for row in read_report(tmp_path / "run").rows}
    assert rows["todo"].tokens == [[24 * 24, 24 * 24, 12 * 12]]
    denoiser = bigain.load(place)
    words = denoiser.text_tokens
    assert rows["none"].flops == count_flops(meta_copy(denoiser.network), latent=(24, 24), text_tokens=words)
    file.write_text(file.read_text().replace("image_size = 48", "image_size = 32"))
    with pytest.raises(ValueError, match=r'- "image_size": 48,\n\+ "image_size": 32'):
        run_file(file, tmp_path / "run", "cpu", Console(quiet=True))


def test_sizes_that_do_not_fit(tmp_path: Path) -> None:
    pipe = BUILDERS["sd3"](tmp_path)
    for size, text in (
        (34, "image_size must be a multiple of 4 for this StableDiffusion3Pipeline, got 34; use 32$"),
        (3, "image_size must be a multiple of 4 for this StableDiffusion3Pipeline, got 3; use 4$"),
        (52, "image_size must be at most 48 for this StableDiffusion3Pipeline, got 52: .* table of 12x12 positions"),
        (0, "image_size must be an int from 1 to 4096, got 0"),
        (10_000, "image_size must be an int from 1 to 4096, got 10000"),
        (32.0, "image_size must be an int from 1 to 4096, got 32.0"),
        (True, "image_size must be an int from 1 to 4096, got True"),
    ):
        with pytest.raises(ValueError, match=text):
            from_pipeline(pipe, size)


def test_sizes_are_checked_before_anything_is_read() -> None:
    with pytest.raises(ValueError, match="image_size must be an int of at least 1, got '512'"):
        bigain.load("no/such", image_size="512")  # type: ignore[call-overload]


@pytest.mark.parametrize("name", ["fashion-dit", "fashion-features"])
def test_bundled_models_have_one_size(name: str) -> None:
    text = f"image_size is for pipelines, and {name} is a bundled model of one size; leave it out"
    with pytest.raises(ValueError, match=text):
        bigain.load(name, image_size=64)
