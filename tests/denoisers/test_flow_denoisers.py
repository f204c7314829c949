"""Denoisers of SD3, FLUX.1 and Qwen-Image against their pipelines and against the formulas of flow matching."""

import copy
import shutil
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import pytest
import torch
from torch import Tensor

import bigain
from bigain.denoisers.base import Condition, share_weights
from bigain.denoisers.flow import pack, unpack
from bigain.denoisers.pipelines import from_pipeline
from bigain.generation import Sampling, generate, image_generator
from helpers.models import noise
from helpers.pipeline_parts import flow_dpm
from helpers.pipelines import BUILDERS, FLUX_SHIFT, JOINT, Shelf, network_arguments, save

# diffusers' schedulers give numpy 2 tensors
pytestmark = pytest.mark.filterwarnings("ignore:__array_:DeprecationWarning")

PROMPTS = ["a cat", "the quick fox"]
DYNAMIC = diffusers.FlowMatchEulerDiscreteScheduler(**FLUX_SHIFT)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return Shelf(tmp_path_factory.mktemp("shelf"))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save("sd3", tmp_path_factory.mktemp("sd3"))


def images(count: int) -> Tensor:
    return noise(count, 3, 32, 32, seed=0).clamp(-1, 1)


@torch.no_grad()
def velocity(name: str, pipe: Any, noisy: Tensor, t: float, arguments: dict[str, Any]) -> Tensor:
    """What the network of a pipeline for pictures of 32 pixels says of one row, by the pipeline's own means."""
    network = pipe.transformer
    rows = noisy[None].to(network.dtype)
    if name.startswith("sd3"):
        return network(rows, timestep=torch.tensor([t]), **arguments).sample[0].float()
    if name == "qwen-image":
        arguments = arguments | {"img_shapes": [[(1, 8, 8)]]}
    else:
        positions = pipe._prepare_latent_image_ids(1, 8, 8, "cpu", torch.float32)
        arguments = arguments | {"img_ids": positions, "txt_ids": torch.zeros(512, 3)}
    tokens = pipe._pack_latents(rows, 1, 4, 16, 16)
    found = network(tokens, timestep=torch.tensor([t]) / 1000, **arguments).sample
    return pipe._unpack_latents(found, 32, 32, 2).reshape(4, 16, 16).float()


@pytest.mark.parametrize("name", JOINT)
def test_encode_and_decode_are_those_of_the_vae(name: str, shelf: Shelf) -> None:
    denoiser = shelf.get(name)
    vae = denoiser.pipeline.vae
    assert denoiser.image_spec == (32, 3, 0)
    assert denoiser.latent_shape == (4, 16, 16)
    with torch.no_grad():
        if name == "qwen-image":
            mean = vae.encode(images(2)[:, :, None]).latent_dist.mode()
            picture = vae.decode(mean).sample[:, :, 0]
            expected = mean[:, :, 0].clone()
            for channel, (centre, spread) in enumerate(
                zip(vae.config.latents_mean, vae.config.latents_std, strict=True)
            ):
                expected[:, channel] = (expected[:, channel] - centre) / spread
        else:
            mean = vae.encode(images(2)).latent_dist.mode()
            picture = vae.decode(mean).sample
            expected = (mean - vae.config.shift_factor) * vae.config.scaling_factor
    latents = denoiser.encode(images(2))
    torch.testing.assert_close(latents, expected)
    torch.testing.assert_close(denoiser.decode(latents), picture.clamp(-1, 1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, torch.float32) for name in JOINT),
        *((name, torch.float16) for name in ("sd3", "flux-schnell")),
        *((name, torch.bfloat16) for name in ("sd3-two-encoders", "flux", "qwen-image")),
    ],
)
def test_errors_are_those_of_the_formulas(name: str, dtype: torch.dtype, shelf: Shelf) -> None:
    """In half precision only the network and the text encoders round."""
    denoiser = shelf.get(name, dtype=dtype)
    latents, eps = noise(2, 1, 4, 16, 16, seed=1)
    for label, t in zip(PROMPTS, (40, 900), strict=True):
        error = denoiser.error(latents, denoiser.conditions([label]), torch.tensor([t]), eps)
        level = t / 1000
        noisy = (1 - level) * latents[0] + level * eps[0]
        output = velocity(name, denoiser.pipeline, noisy, t, network_arguments(name, denoiser.pipeline, label))
        clean = noisy - level * output
        expected = float(((clean + output - eps[0]) ** 2).mean())
        assert error.dtype == torch.float32
        assert float(error) == pytest.approx(expected, rel=1e-3 if dtype == torch.bfloat16 else 1e-4)
        # which is the error of the velocity, but for a factor that all classes share
        assert expected == pytest.approx(float(((output - eps + latents) ** 2).mean()) * (1 - level) ** 2, rel=1e-3)


@pytest.mark.parametrize("name", JOINT)
@pytest.mark.parametrize("operator", [None, "gated_merge(ratio=0.5)"])
def test_classification_whatever_the_batch(name: str, operator: str | None, shelf: Shelf) -> None:
    denoiser = shelf.get(name)
    handle = bigain.compress(denoiser.network, operator) if operator else None
    found = []
    for size in (1, 4, 64):
        classifier = bigain.DiffusionClassifier(denoiser, PROMPTS, policy="exhaustive(3)", batch_size=size)
        found.append(np.stack([decision.errors for decision in classifier(images(2))]))
    if handle:
        assert all(row.ran for row in handle.status())
        handle.remove()
    assert found[0].shape == (2, 2, 3)
    assert np.abs(found[0][:, 0] - found[0][:, 1]).max(-1).min() > 1e-5
    np.testing.assert_allclose(found[0], found[2], atol=1e-5)
    np.testing.assert_allclose(found[1], found[2], atol=1e-5)


# name, the scheduler that the model was saved with, ours by name, and the pipeline's: its own, or another one
PARITY: list[tuple[str, Any, str, Any]] = [
    *((name, None, "flow-euler", None) for name in JOINT),
    ("sd3", None, "flow-heun", diffusers.FlowMatchHeunDiscreteScheduler(shift=3.0)),
    ("sd3", None, "dpm++", flow_dpm(flow_shift=3.0)),
    ("sd3", DYNAMIC, "flow-euler", None),
    ("sd3", flow_dpm(flow_shift=3.0), "dpm++", None),
    ("flux", None, "dpm++", flow_dpm(use_dynamic_shifting=True)),
    ("flux-schnell", None, "FlowMatchEulerDiscreteScheduler", None),
]


def pipeline_images(name: str, pipe: Any, guidance: float, latents: Tensor) -> Tensor:
    """What the pipeline itself makes, in [-1, 1]."""
    options: dict[str, Any] = {"num_inference_steps": 3, "output_type": "pt", "height": 32, "width": 32}
    if not name.startswith("sd3"):
        latents = pipe._pack_latents(latents, 2, 4, 16, 16)
    if name in ("flux-schnell", "qwen-image"):
        empty = " " if name == "qwen-image" else ""
        options |= {"true_cfg_scale": guidance} | ({} if guidance == 1 else {"negative_prompt": [empty] * 2})
    else:
        options |= {"guidance_scale": guidance}
    return 2 * pipe(prompt=PROMPTS, latents=latents, **options).images - 1


@pytest.mark.parametrize("guidance", [1.0, 4.5])
@pytest.mark.parametrize(
    ("name", "own", "ours", "theirs"), PARITY, ids=lambda value: value if isinstance(value, str) else ""
)
def test_images_are_those_of_the_pipeline(
    name: str, own: Any, ours: str, theirs: Any, guidance: float, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = {} if own is None else {"scheduler": own}
    denoiser = shelf.get(name, "" if own is None else type(own).__name__, **parts)
    latents = torch.stack([torch.randn(4, 16, 16, generator=image_generator(0, n)) for n in range(2)])
    found = generate(denoiser, PROMPTS, Sampling(3, guidance, ours))
    if theirs is not None:
        monkeypatch.setattr(denoiser.pipeline, "scheduler", copy.deepcopy(theirs))
    expected = pipeline_images(name, denoiser.pipeline, guidance, latents)
    assert expected.std() > 0.05
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


def test_usual_schedulers_and_guidance(shelf: Shelf) -> None:
    usual = {name: (shelf.get(name).default_scheduler, shelf.get(name).guidance_scale) for name in JOINT}
    scales = {"sd3": 7.0, "sd3-two-encoders": 7.0, "flux": 3.5, "flux-schnell": 1.0, "qwen-image": 4.0}
    assert usual == {name: ("flow-euler", scale) for name, scale in scales.items()}


def test_guidance_is_an_input_of_a_distilled_network(shelf: Shelf) -> None:
    """Generation gives it the wanted scale, classification 1."""
    denoiser = shelf.get("flux")
    condition = denoiser.conditions(PROMPTS)
    assert condition.values["guidance"].tolist() == [1, 1]
    guided, left = denoiser.guided(condition, 3.5)
    assert (guided.values["guidance"].tolist(), left) == ([3.5, 3.5], 1.0)
    assert condition.values["guidance"].tolist() == [1, 1]
    noisy, t = noise(2, 4, 16, 16, seed=3), torch.tensor([500, 500])
    with torch.no_grad():
        assert (denoiser.noise(noisy, t, guided) - denoiser.noise(noisy, t, condition)).abs().max() > 1e-3
    with pytest.raises(ValueError, match=r"at least 1 for this FluxPipeline, got 0; its network takes no guidance"):
        generate(shelf.get("flux-schnell"), PROMPTS, Sampling(1, 0.0))


@pytest.mark.parametrize("name", JOINT)
def test_shared_weights(name: str, shelf: Shelf) -> None:
    denoiser = shelf.get(name)
    noisy, t, condition = noise(1, 4, 16, 16, seed=4), torch.tensor([500]), denoiser.conditions(PROMPTS[:1])
    with torch.no_grad():
        assert torch.equal(share_weights(denoiser).noise(noisy, t, condition), denoiser.noise(noisy, t, condition))


def test_prompts_of_different_lengths_are_padded() -> None:
    short, long = (Condition({"text": torch.ones(1, n, 2), "mask": torch.ones(1, n), "k": 1}) for n in (2, 3))
    for joined in (short.join(long), long.join(short)):
        assert joined.values["text"].shape == (2, 3, 2)
        assert sorted(joined.values["mask"].sum(1).tolist()) == [2, 3]
        assert torch.equal(joined.values["text"], joined.values["mask"][..., None].expand(2, 3, 2))


def test_packing_is_that_of_the_pipelines() -> None:
    latents = noise(2, 4, 6, 10, seed=0)
    for pipeline in (diffusers.FluxPipeline, diffusers.QwenImagePipeline):
        assert torch.equal(pack(latents), pipeline._pack_latents(latents, 2, 4, 6, 10))
    assert torch.equal(unpack(pack(latents), 6, 10), latents)


def test_batches_suit_the_number_of_tokens(shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    denoiser = shelf.get("flux")
    assert denoiser.rows_at_once() == 8192 // (4 * (64 + 512))
    assert from_pipeline(denoiser.pipeline, 256).rows_at_once() == 1
    expected = generate(denoiser, PROMPTS, Sampling(1))
    monkeypatch.setattr(denoiser, "rows_at_once", lambda: 1)
    torch.testing.assert_close(generate(denoiser, PROMPTS, Sampling(1)), expected, rtol=0, atol=1e-4)


def test_pipelines_that_cannot_be_used(shelf: Shelf) -> None:
    pipe = copy.copy(shelf.get("sd3").pipeline)
    pipe.scheduler = diffusers.DDIMScheduler()
    with pytest.raises(ValueError, match=r"StableDiffusion3Pipeline needs a flow-matching scheduler .* DDIMScheduler"):
        from_pipeline(pipe)
    pipe = copy.copy(shelf.get("sd3").pipeline)
    pipe.tokenizer_3 = None
    with pytest.raises(ValueError, match="has text_encoder_3 without tokenizer_3; load both, or neither"):
        from_pipeline(pipe)
    pipe = copy.copy(shelf.get("flux").pipeline)
    pipe.text_encoder_2 = None
    with pytest.raises(ValueError, match="FluxPipeline has no text_encoder_2; to classify or generate it needs"):
        from_pipeline(pipe)
    with pytest.raises(TypeError, match="StableDiffusion3Pipeline needs text; classes must be prompts, got 3"):
        shelf.get("sd3").conditions(["a cat", 3])


@pytest.mark.parametrize("name", ["flux", "qwen-image"])
def test_a_pipeline_in_memory(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    pipe = BUILDERS[name](tmp_path)
    assert generate(pipe, PROMPTS, Sampling(2)).shape == (2, 3, 32, 32)
    assert bigain.DiffusionClassifier(pipe, PROMPTS, policy="exhaustive(1)")(images(1))[0].label in PROMPTS


def test_weights_of_optional_parts_are_checked_too(saved: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(saved, tmp_path / "pipe")
    weights = next((folder / "text_encoder_3").glob("*.safetensors"))
    pickled = weights.rename(weights.with_name("pytorch_model.bin"))
    with pytest.raises(ValueError, match=r"text_encoder_3 holds only pickled weights \(pytorch_model.bin\)"):
        bigain.load(folder)
    pickled.unlink()
    with pytest.raises(ValueError, match="text_encoder_3 holds no weights; download the safetensors files"):
        bigain.load(folder)
