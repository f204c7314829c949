"""Whole pipelines, tiny, written to disk and read back: compressed they differ, restored they give the same bits."""

from typing import Any

import diffusers
import numpy as np
import pytest
import torch
from transformers import CLIPTextModelWithProjection

import bigain
from helpers.models import BACKBONES, EXAMPLES, TEXT_WIDTH, awake, traces
from helpers.pipeline_parts import text_encoder, tokenizer
from helpers.pipelines import flux, qwen_image, sd3, sd3_img2img

PROMPT = "a photo of a cat"
NAMES = ["sd", "sdxl", "controlnet", "dit", "sd3", "flux", "qwen-image"]

# diffusers' Euler scheduler gives numpy 2 a tensor
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")


def vae():
    return diffusers.AutoencoderKL(
        block_out_channels=(8, 8),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=4,
        norm_num_groups=4,
        sample_size=32,
    ).eval()


def sd(folder):
    return diffusers.StableDiffusionPipeline(
        vae=vae(),
        text_encoder=text_encoder(),
        tokenizer=tokenizer(folder / "words"),
        unet=BACKBONES["sd"].build(),
        scheduler=diffusers.DDIMScheduler(steps_offset=1, clip_sample=False),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def sdxl(folder):
    return diffusers.StableDiffusionXLPipeline(
        vae=vae(),
        text_encoder=text_encoder(),
        text_encoder_2=text_encoder(CLIPTextModelWithProjection, projection_dim=TEXT_WIDTH),
        tokenizer=tokenizer(folder / "words"),
        tokenizer_2=tokenizer(folder / "words_2"),
        unet=BACKBONES["sdxl"].build(cross_attention_dim=64),
        scheduler=diffusers.EulerDiscreteScheduler(),
        add_watermarker=False,
    )


def controlnet(folder):
    return diffusers.StableDiffusionControlNetPipeline(
        vae=vae(),
        text_encoder=text_encoder(),
        tokenizer=tokenizer(folder / "words"),
        unet=BACKBONES["sd"].build(),
        controlnet=BACKBONES["controlnet"].build(),
        scheduler=diffusers.DDIMScheduler(steps_offset=1, clip_sample=False),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def dit(folder):
    return diffusers.DiTPipeline(
        transformer=BACKBONES["dit"].build(num_embeds_ada_norm=1000), vae=vae(), scheduler=diffusers.DDIMScheduler()
    )


BUILDERS = {
    "sd": sd,
    "sdxl": sdxl,
    "controlnet": controlnet,
    "dit": dit,
    "sd3": sd3,
    "flux": flux,
    "qwen-image": qwen_image,
}


@pytest.fixture(scope="module", params=NAMES)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def pipe(name, tmp_path_factory):
    """A pipeline that was saved and loaded from disk."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp(name)
    built = BUILDERS[name](folder)
    awake(built.vae)
    built.save_pretrained(folder / "pipe")
    loaded = type(built).from_pretrained(folder / "pipe")
    loaded.set_progress_bar_config(disable=True)
    return loaded


def image(name, pipe):
    generator = torch.Generator().manual_seed(3)
    settings: dict[str, Any] = {"num_inference_steps": 2, "generator": generator, "output_type": "np"}
    if name == "dit":
        return pipe(class_labels=[3], **settings).images
    if name == "controlnet":
        settings["image"] = torch.linspace(0, 1, 3 * 32 * 32).view(1, 3, 32, 32)
    if name == "qwen-image":
        settings |= {"true_cfg_scale": 5.0, "negative_prompt": " "}
        return pipe(PROMPT, height=32, width=32, **settings).images
    return pipe(PROMPT, height=32, width=32, guidance_scale=5.0, **settings).images


def denoiser(pipe):
    return pipe.transformer if hasattr(pipe, "transformer") else pipe.unet


@pytest.mark.parametrize("operator", EXAMPLES.values(), ids=EXAMPLES)
def test_compressed_images_differ_and_restored_ones_are_the_same(name, pipe, operator):
    dense, before = image(name, pipe), traces(denoiser(pipe))
    handle = bigain.compress(pipe, operator)
    compressed = image(name, pipe)
    assert compressed.shape == dense.shape == (1, 32, 32, 3)
    assert np.isfinite(compressed).all()
    assert np.abs(compressed - dense).max() > 1e-4
    assert all(row.ran for row in handle.status())
    handle.remove()
    assert np.array_equal(image(name, pipe), dense)
    assert traces(denoiser(pipe)) == before


def test_options_and_restore(name, pipe):
    dense = image(name, pipe)
    halves = None if name in ("flux", "qwen-image") else "cfg"  # both halves of guidance in one pass
    bigain.compress(pipe, "gated_merge(ratio=0.6)", reuse="stage", groups=halves)
    assert np.abs(image(name, pipe) - dense).max() > 1e-4
    bigain.restore(pipe)
    assert np.array_equal(image(name, pipe), dense)


def test_a_compressed_pipeline_saves_as_a_dense_one(name, pipe, tmp_path):
    dense = image(name, pipe)
    with bigain.compress(pipe, "kv_downsample(factor=2)"):
        pipe.save_pretrained(tmp_path)
    loaded = type(pipe).from_pretrained(tmp_path)
    loaded.set_progress_bar_config(disable=True)
    assert np.array_equal(image(name, loaded), dense)


def test_both_networks_of_a_controlnet_pipeline(tmp_path):
    torch.manual_seed(0)
    pipe = controlnet(tmp_path)
    pipe.set_progress_bar_config(disable=True)
    dense = image("controlnet", pipe)
    with bigain.compress(pipe, "gated_merge(ratio=0.6)"):
        one = image("controlnet", pipe)
        with bigain.compress(pipe.controlnet, "gated_merge(ratio=0.6)"):
            both = image("controlnet", pipe)
        assert np.array_equal(image("controlnet", pipe), one)
    assert np.array_equal(image("controlnet", pipe), dense)
    assert np.abs(one - dense).max() > 1e-4
    assert np.abs(both - one).max() > 1e-5


def test_image_to_image(tmp_path):
    torch.manual_seed(0)
    pipe = sd3_img2img(sd3(tmp_path))
    pipe.set_progress_bar_config(disable=True)
    settings = {"image": torch.linspace(0, 1, 3 * 32 * 32).view(1, 3, 32, 32), "strength": 0.5, "output_type": "np"}

    def repainted():
        generator = torch.Generator().manual_seed(3)
        return pipe(PROMPT, num_inference_steps=4, generator=generator, **settings).images

    dense = repainted()
    with bigain.compress(pipe, "gated_merge(ratio=0.6)") as handle:
        assert np.abs(repainted() - dense).max() > 1e-4
        assert all(row.ran for row in handle.status())
    assert np.array_equal(repainted(), dense)
