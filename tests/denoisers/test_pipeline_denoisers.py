"""Denoisers of tiny real pipelines against the pipelines themselves and against the formulas."""

import copy
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import pytest
import torch
from torch import Tensor

import bigain
from bigain.classify.classifier import DiffusionClassifier
from bigain.denoisers.base import Condition
from bigain.denoisers.pipelines import from_pipeline
from bigain.denoisers.sampling import SHORT, make_scheduler, scheduler_names
from bigain.denoisers.schedule import Schedule
from bigain.denoisers.stable_diffusion import PROMPTS_AT_ONCE
from bigain.generation import Sampling, generate, image_generator
from helpers.models import noise
from helpers.pipeline_parts import vae
from helpers.pipelines import BUILDERS, JOINT, PUBLISHED, Shelf, network_arguments
from helpers.sampling import sample
from helpers.toys import PointDenoiser, points

# diffusers' schedulers give numpy 2 tensors
pytestmark = pytest.mark.filterwarnings("ignore:__array_:DeprecationWarning")

PROMPTS = ["a cat", "the quick brown fox jumps"]
LABELS = [207, "tabby cat"]
NAMES = [name for name in BUILDERS if name not in ("pixart-sized", *JOINT)]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return Shelf(tmp_path_factory.mktemp("shelf"))


def classes(name: str) -> list[Any]:
    return LABELS if name == "dit" else PROMPTS


def images(count: int, seed: int = 0) -> Tensor:
    return noise(count, 3, 32, 32, seed=seed).clamp(-1, 1)


def same(a: Any, b: Any) -> None:
    """Nested arguments of the network, equal to 1e-5."""
    if isinstance(b, dict):
        assert a.keys() == b.keys()
        for key in b:
            same(a[key], b[key])
    elif isinstance(b, Tensor):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
    else:
        assert a == b


def cut(values: dict[str, Any]) -> dict[str, Any]:
    """Arguments for one prompt of Qwen-Image, without the padding that the longest prompt asks for."""
    mask = values.get("encoder_hidden_states_mask")
    if mask is None:
        return values
    length = int(mask.sum())
    assert not values["encoder_hidden_states"][:, length:].any()
    return {key: value[:, :length] for key, value in values.items()}


@torch.no_grad()
def slow_error(name: str, denoiser: Any, latents: Tensor, label: Any, t: int, eps: Tensor) -> float:
    """The error of one row from the formulas, with a loop over the betas."""
    pipe, network = denoiser.pipeline, denoiser.network
    config = pipe.scheduler.config
    kept = 1.0
    for s in range(t + 1):
        share = s / (config.num_train_timesteps - 1)
        if config.beta_schedule == "scaled_linear":
            beta = (config.beta_start**0.5 + share * (config.beta_end**0.5 - config.beta_start**0.5)) ** 2
        else:
            beta = config.beta_start + share * (config.beta_end - config.beta_start)
        kept *= 1 - beta
    signal, spread = kept**0.5, (1 - kept) ** 0.5
    noisy = signal * latents + spread * eps
    arguments = network_arguments(name, pipe, label)
    output = network(noisy[None].to(network.dtype), timestep=torch.tensor([t]), **arguments).sample[0, :4].float()
    if config.prediction_type == "v_prediction":
        output = signal * output + spread * noisy
    elif config.prediction_type == "sample":
        output = (noisy - signal * output) / spread
    return float(((output - eps) ** 2).mean())


@pytest.mark.parametrize("name", NAMES)
def test_encode_and_decode_are_those_of_the_vae(name: str, shelf: Shelf) -> None:
    denoiser = shelf.get(name)
    assert denoiser.image_spec == (32, 3, 0)
    assert denoiser.latent_shape == (4, 16, 16)
    with torch.no_grad():
        mean = denoiser.pipeline.vae.encode(images(2)).latent_dist.mean
        picture = denoiser.pipeline.vae.decode(mean).sample
    latents = denoiser.encode(images(2))
    torch.testing.assert_close(latents, 0.18215 * mean)
    torch.testing.assert_close(denoiser.decode(latents), picture.clamp(-1, 1))


def test_a_vae_with_a_shift(shelf: Shelf) -> None:
    denoiser = shelf.get("sd", "shifted", vae=vae(scaling_factor=0.5, shift_factor=0.25))
    with torch.no_grad():
        mean = denoiser.vae.encode(images(1)).latent_dist.mean
        picture = denoiser.vae.decode(mean).sample
    torch.testing.assert_close(denoiser.encode(images(1)), 0.5 * (mean - 0.25))
    torch.testing.assert_close(denoiser.decode(0.5 * (mean - 0.25)), picture.clamp(-1, 1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_vae_computes_in_float32(dtype: torch.dtype, shelf: Shelf) -> None:
    """With weights that overflow in float16, as those of SDXL do."""
    large = vae()
    for part in (large.encoder.conv_in, large.decoder.conv_in):
        part.weight.data *= 2e5
    denoiser = shelf.get("sdxl", "overflowing", dtype, vae=large)
    exact = copy.deepcopy(denoiser.vae).float()
    with torch.no_grad():
        if dtype == torch.float16:
            assert not denoiser.vae.encode(images(1).half()).latent_dist.mean.isfinite().all()
        mean = exact.encode(images(1)).latent_dist.mean
        picture = exact.decode(mean).sample.clamp(-1, 1)
    latents = denoiser.encode(images(1))
    torch.testing.assert_close(latents, 0.18215 * mean)
    torch.testing.assert_close(denoiser.decode(latents), picture, rtol=1e-3, atol=1e-3)
    assert denoiser.vae.dtype == dtype
    assert latents.dtype == torch.float32


@pytest.mark.parametrize("name", [*NAMES, *JOINT])
def test_conditions_are_the_arguments_of_the_network(name: str, shelf: Shelf) -> None:
    denoiser = shelf.get(name)
    found = denoiser.conditions(classes(name))
    for row, label in enumerate(classes(name)):
        same(cut(found.take(torch.tensor([row])).values), network_arguments(name, denoiser.pipeline, label))


@pytest.mark.parametrize("name", ["sd", "sdxl", "pixart", "sd3", "flux", "qwen-image"])
def test_many_prompts_are_the_rows_of_single_ones(name: str, shelf: Shelf) -> None:
    denoiser = shelf.get(name)
    letters = "abcdefghijklmnopqrstuvwxyz"
    prompts = [letters[i % 26] * (1 + i % 9) for i in range(PROMPTS_AT_ONCE + 3)]
    found = denoiser.conditions(prompts)
    for row in (0, 7, PROMPTS_AT_ONCE - 1, PROMPTS_AT_ONCE, PROMPTS_AT_ONCE + 2):
        same(cut(found.take(torch.tensor([row])).values), denoiser.conditions([prompts[row]]).values)


@pytest.mark.parametrize("name", [name for name in (*NAMES, *JOINT) if name not in ("dit", "sdxl")])
def test_the_empty_prompt_is_unconditional(name: str, shelf: Shelf) -> None:
    denoiser = shelf.get(name)
    for row in range(3):
        found = denoiser.unconditional(3).take(torch.tensor([row]))
        same(found.values, network_arguments(name, denoiser.pipeline, " " if name == "qwen-image" else ""))


@pytest.mark.parametrize("zeros", [True, False])
def test_the_unconditional_of_sdxl_is_zero_or_the_empty_prompt(zeros: bool, shelf: Shelf) -> None:
    denoiser = shelf.get("sdxl", str(zeros), force_zeros_for_empty_prompt=zeros)
    expected = network_arguments("sdxl", denoiser.pipeline, "")
    if zeros:
        expected["encoder_hidden_states"] = torch.zeros_like(expected["encoder_hidden_states"])
        added = expected["added_cond_kwargs"]
        expected["added_cond_kwargs"] = added | {"text_embeds": torch.zeros_like(added["text_embeds"])}
    same(denoiser.unconditional(1).values, expected)


def test_labels_of_dit(shelf: Shelf) -> None:
    denoiser = shelf.get("dit")
    found = denoiser.conditions(["goldfish", "Carassius auratus", 999, "golden retriever", 0])
    assert found.values["class_labels"].tolist() == [1, 1, 999, 207, 0]
    assert denoiser.unconditional(2).values["class_labels"].tolist() == [1000, 1000]
    for wrong, text in (
        (1000, "no class number 1000; this model has 0..999"),
        (-1, "no class number -1"),
        (True, "no class number True"),
        ("golden retreiver", "Did you mean 'golden retriever'.* Available: 5 names and the numbers 0..999"),
        ("zzz", "unknown class 'zzz'. Available: 5 names"),
    ):
        with pytest.raises(ValueError, match=text):
            denoiser.conditions([wrong])


def test_text_models_take_prompts_only(shelf: Shelf) -> None:
    with pytest.raises(TypeError, match="StableDiffusionPipeline needs text; classes must be prompts, got 3"):
        shelf.get("sd").conditions(["a cat", 3])
    with pytest.raises(TypeError, match="classes must be prompts, got none"):
        shelf.get("sd").conditions([])


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, torch.float32) for name in NAMES),
        *((name, torch.float16) for name in ("sd", "sdxl")),
        *((name, torch.bfloat16) for name in ("sd-v", "dit", "pixart")),
    ],
)
def test_errors_are_those_of_the_formulas(name: str, dtype: torch.dtype, shelf: Shelf) -> None:
    """In half precision only the network rounds: its output, the noise and the mean are float32."""
    denoiser = shelf.get(name, dtype=dtype)
    latents, eps = noise(2, 1, 4, 16, 16, seed=1)
    for label, t in zip(classes(name), (40, 900), strict=True):
        error = denoiser.error(latents, denoiser.conditions([label]), torch.tensor([t]), eps)
        assert error.dtype == torch.float32
        assert float(error) == pytest.approx(slow_error(name, denoiser, latents[0], label, t, eps[0]), rel=1e-4)


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction", "sample"])
def test_errors_of_every_parametrisation(prediction: str, shelf: Shelf) -> None:
    scheduler = diffusers.DDIMScheduler.from_config(PUBLISHED, prediction_type=prediction)
    denoiser = shelf.get("sd", prediction, scheduler=scheduler)
    latents, eps = noise(2, 3, 4, 16, 16, seed=2)
    found = denoiser.error(latents, denoiser.conditions(["a", "b", "c"]), torch.tensor([3, 500, 999]), eps)
    for row, (label, t) in enumerate((("a", 3), ("b", 500), ("c", 999))):
        expected = slow_error("sd", denoiser, latents[row], label, t, eps[row])
        assert float(found[row]) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("name", ["dit", "pixart"])
def test_learned_sigma_is_not_part_of_the_noise(name: str, shelf: Shelf) -> None:
    denoiser = shelf.get(name)
    noisy, t, condition = noise(1, 4, 16, 16, seed=3), torch.tensor([500]), denoiser.conditions(classes(name)[:1])
    with torch.no_grad():
        output = denoiser.output(noisy, t, condition)
        assert output.shape[1] == 8
        assert torch.equal(denoiser.noise(noisy, t, condition), output[:, :4])


def test_masked_text_of_pixart_has_no_effect(shelf: Shelf) -> None:
    denoiser = shelf.get("pixart")
    condition = denoiser.conditions(PROMPTS[:1])
    text, mask = condition.values["encoder_hidden_states"], condition.values["encoder_attention_mask"]
    assert 0 < mask.sum() < mask.numel()
    noisy, t = noise(1, 4, 16, 16, seed=4), torch.tensor([500])
    with torch.no_grad():
        found = denoiser.noise(noisy, t, condition)
        for masked, equal in ((mask == 0, True), (mask == 1, False)):
            values = condition.values | {"encoder_hidden_states": text + 5 * masked[..., None]}
            assert torch.allclose(denoiser.noise(noisy, t, Condition(values)), found, atol=1e-6) == equal


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("operator", [None, "gated_merge(ratio=0.5)"])
def test_classification_whatever_the_batch(name: str, operator: str | None, shelf: Shelf) -> None:
    denoiser = shelf.get(name)
    handle = bigain.compress(denoiser.network, operator) if operator else None
    found = []
    for size in (1, 4, 64):
        classifier = DiffusionClassifier(denoiser, classes(name), policy="exhaustive(3)", batch_size=size)
        found.append(np.stack([decision.errors for decision in classifier(images(2))]))
    if handle:
        assert all(row.ran for row in handle.status())
        handle.remove()
    assert found[0].shape == (2, 2, 3)
    assert np.abs(found[0][:, 0] - found[0][:, 1]).min() > 1e-6
    np.testing.assert_allclose(found[0], found[2], atol=1e-5)
    np.testing.assert_allclose(found[1], found[2], atol=1e-5)


# the pipeline of DiT does not scale its latents as Euler's scheduler wants; PNDM adds up outputs, so only of noise
SAMPLERS = {
    "sd": ["PNDMScheduler", "euler", "ddim", "dpm++", "HeunDiscreteScheduler", "UniPCMultistepScheduler"],
    "sd-v": ["ddim", "euler", "dpm++", "KDPM2DiscreteScheduler"],
    "sdxl": ["euler", "ddim", "LMSDiscreteScheduler"],
    "dit": ["ddim", "dpm++"],
    "pixart": ["dpm++", "euler"],
    "pixart-sized": ["dpm++"],
    "pixart-sigma": ["dpm++"],
}


def pipeline_images(name: str, pipe: Any, scheduler: str, guidance: float, latents: Tensor) -> Tensor:
    """What the pipeline itself makes, in [-1, 1]."""
    options: dict[str, Any] = {"num_inference_steps": 3, "guidance_scale": guidance, "output_type": "pt"}
    if name == "dit":
        options |= {"class_labels": pipe.get_label_ids(["golden retriever", "tabby cat"])}
        options |= {"generator": torch.Generator().manual_seed(0)}
    else:
        options |= {"prompt": PROMPTS, "latents": latents}
    if name.startswith("pixart"):
        options |= {"use_resolution_binning": False, "clean_caption": False}
    own = pipe.scheduler
    pipe.scheduler = getattr(diffusers, SHORT.get(scheduler, scheduler)).from_config(own.config)
    try:
        return 2 * pipe(**options).images - 1
    finally:
        pipe.scheduler = own


@pytest.mark.parametrize(
    ("name", "scheduler", "guidance"),
    [
        *((name, scheduler, 5.0) for name, found in SAMPLERS.items() for scheduler in found),
        *((name, SAMPLERS[name][0], 1.0) for name in NAMES),
    ],
)
def test_images_are_those_of_the_pipeline(name: str, scheduler: str, guidance: float, shelf: Shelf) -> None:
    denoiser, sampling = shelf.get(name), Sampling(3, guidance, scheduler)
    if name == "dit":  # its pipeline draws the latents
        latents = torch.randn(2, 4, 16, 16, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            found = denoiser.decode(sample(denoiser, latents, denoiser.conditions(LABELS), sampling))
    else:
        latents = torch.stack([torch.randn(denoiser.latent_shape, generator=image_generator(0, n)) for n in range(2)])
        found = generate(denoiser, PROMPTS, sampling)
    expected = pipeline_images(name, denoiser.pipeline, scheduler, guidance, latents)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


def test_usual_schedulers(shelf: Shelf) -> None:
    usual = {name: shelf.get(name).default_scheduler for name in NAMES}
    text = {"sd": "euler", "sd-v": "euler", "sdxl": "euler", "pixart": "dpm++", "pixart-sigma": "dpm++"}
    assert usual == text | {"dit": "ddim"}


class Certain(PointDenoiser):
    """Predicts the point mass itself."""

    def output(self, noisy: Tensor, t: Tensor, condition: Condition) -> Tensor:
        return condition.values["points"]


@pytest.mark.parametrize("name", scheduler_names())
def test_every_scheduler_reaches_the_image(name: str) -> None:
    torch.manual_seed(0)
    denoiser = Certain(points(2), Schedule("scaled_linear", 0.00085, 0.012, "sample"))
    found = sample(denoiser, noise(2, 1, 4, 4, seed=0), denoiser.conditions([0, 1]), Sampling(20, 1.0, name))
    assert (found - denoiser.points).abs().max() < 0.1


def test_schedulers_by_name() -> None:
    schedule = Schedule.from_config(
        PUBLISHED
        | {"prediction_type": "v_prediction", "timestep_spacing": "trailing", "variance_type": "learned_range"}
    )
    for name in ("euler", "ddim", "DDPMScheduler", "dpm++"):
        config = make_scheduler(name, schedule).config
        assert (config.prediction_type, config.timestep_spacing) == ("epsilon", "trailing")
        assert (config.beta_schedule, config.beta_end) == ("scaled_linear", 0.012)
        assert "learned" not in str(config.get("variance_type"))
    assert not make_scheduler("ddim", Schedule()).config.clip_sample
    for wrong, text in (
        ("EulerDiscretScheduler", "Did you mean 'EulerDiscreteScheduler'"),
        ("eular", "Did you mean 'euler'.* dpm\\+\\+, "),
        ("FlowMatchEulerDiscreteScheduler", "unknown scheduler 'FlowMatchEulerDiscreteScheduler'"),
        ("flow-euler", "unknown scheduler 'flow-euler'. Did you mean"),
        ("UNet2DConditionModel", "unknown scheduler"),
    ):
        with pytest.raises(ValueError, match=text):
            make_scheduler(wrong, schedule)


def test_levels_between_time_steps_are_those_of_euler() -> None:
    schedule = Schedule("scaled_linear", 0.00085, 0.012)
    scheduler = diffusers.EulerDiscreteScheduler(beta_schedule="scaled_linear", beta_start=0.00085, beta_end=0.012)
    scheduler.set_timesteps(7)
    ones, zeros = torch.ones(7, 1), torch.zeros(7, 1)
    signal = schedule.add_noise(ones, zeros, scheduler.timesteps)
    spread = schedule.add_noise(zeros, ones, scheduler.timesteps)
    torch.testing.assert_close((spread / signal)[:, 0], scheduler.sigmas[:-1], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(signal**2 + spread**2, ones)


def test_flow_between_time_steps() -> None:
    schedule, t = Schedule("flow", prediction_type="flow"), torch.tensor([0.0, 250.5, 1000.0])
    x, eps = noise(2, 3, 5, seed=0)
    noisy = schedule.add_noise(x, eps, t)
    torch.testing.assert_close(noisy[1], 0.7495 * x[1] + 0.2505 * eps[1])
    torch.testing.assert_close(schedule.noise_from(eps - x, noisy, t), eps)


def test_pipelines_that_cannot_be_used(shelf: Shelf) -> None:
    pipe = copy.copy(shelf.get("sd").pipeline)
    pipe.text_encoder = None
    with pytest.raises(ValueError, match="StableDiffusionPipeline has no text_encoder; to classify or generate"):
        from_pipeline(pipe)
    with pytest.raises(TypeError, match=r"DDPMPipeline is not supported\. Supported: DiTPipeline"):
        from_pipeline(diffusers.DDPMPipeline(unet=None, scheduler=None))
    pipe = copy.copy(shelf.get("sdxl").pipeline)
    pipe.scheduler = diffusers.EDMEulerScheduler()
    with pytest.raises(ValueError, match=r"EDMEulerScheduler has no beta_schedule\. Supported: linear"):
        from_pipeline(pipe)
    pipe.scheduler = diffusers.DDIMScheduler(rescale_betas_zero_snr=True)
    with pytest.raises(ValueError, match="DDIMScheduler has trained_betas or rescale_betas_zero_snr"):
        from_pipeline(pipe)


def test_latents_must_be_square(tmp_path: Path) -> None:
    pipe = BUILDERS["sd"](tmp_path)
    pipe.unet.register_to_config(sample_size=(16, 24))
    with pytest.raises(ValueError, match="has latents of 16x24; only square latents"):
        from_pipeline(pipe)


def test_schedulers_that_add_noise_draw_it_for_each_image() -> None:
    denoiser = PointDenoiser(points(3))
    sampling = Sampling(5, 1.0, "DDPMScheduler")
    together = generate(denoiser, [0, 1, 2], sampling)
    torch.manual_seed(5)
    alone = generate(denoiser, [2], sampling, first=2)
    torch.testing.assert_close(together[2:], alone)
