"""Legitimate but unusual uses: they work, or say why they cannot."""

import pytest
import torch
from diffusers import StableDiffusionPAGPipeline
from torch import nn

import bigain
import bigain.tomesd as tomesd
from bigain import Where
from bigain.compression.attach import site_hooks
from helpers.models import BACKBONES, call, run, traces
from helpers.pipelines import sd

SD, DIT = BACKBONES["sd"], BACKBONES["dit"]
MERGE = "gated_merge(ratio=0.6)"


def test_a_handle_is_entered_once():
    unet = SD.build()
    with bigain.compress(unet, MERGE) as handle:
        run(SD, unet)
    with pytest.raises(RuntimeError, match=r"handle was removed; call compress again, or use handle\.paused"), handle:
        pass


def with_image_prompts(unet):
    """The weights of a small IP-Adapter."""
    names = [name.rsplit(".", 1)[0] for name in unet.attn_processors if name.endswith("attn2.processor")]
    torch.manual_seed(0)
    layers = {
        f"{2 * i + 1}.{part}.weight": torch.randn(unet.get_submodule(name).inner_dim, 32)
        for i, name in enumerate(names)
        for part in ("to_k_ip", "to_v_ip")
    }
    ends = {"proj.weight": torch.randn(4 * 32, 16), "proj.bias": torch.zeros(4 * 32)}
    norm = {"norm.weight": torch.ones(32), "norm.bias": torch.zeros(32)}
    unet._load_ip_adapter_weights([{"ip_adapter": layers, "image_proj": ends | norm}])
    return unet


@pytest.fixture(scope="module")
def masked():
    """A call of a U-Net whose image prompt is meant for the left half only."""
    unet, mask = with_image_prompts(SD.build()), torch.zeros(1, 1, 16, 16)
    mask[..., :8] = 1
    prompt = {"image_embeds": [torch.randn(2, 1, 16, generator=torch.Generator().manual_seed(1))]}

    @torch.no_grad()
    def calling():
        return unet(*SD.inputs().args, added_cond_kwargs=prompt, cross_attention_kwargs={"ip_adapter_masks": [mask]})[0]

    return unet, calling


def test_masks_of_an_ip_adapter_are_refused_where_their_tokens_are_merged(masked):
    unet, calling = masked
    cross = Where(downsample=1, module="cross")
    with bigain.compress(unet, MERGE, where=cross), pytest.raises(ValueError, match='leave "cross" out of module='):
        calling()


def test_masks_of_an_ip_adapter_stay_with_merged_self_attention(masked):
    unet, calling = masked
    dense = calling()
    with bigain.compress(unet, MERGE):
        assert not torch.equal(calling(), dense)
    assert torch.equal(calling(), dense)


@pytest.fixture(scope="module")
def perturbed(tmp_path_factory):
    """A pipeline with perturbed-attention guidance in the first down block."""
    parts = sd(tmp_path_factory.mktemp("sd")).components
    names = ("vae", "text_encoder", "tokenizer", "unet", "scheduler")
    pipe = StableDiffusionPAGPipeline(
        **{name: parts[name] for name in names},
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
        pag_applied_layers=["down_blocks.0"],
    )
    pipe.set_progress_bar_config(disable=True)

    def calling():
        noise = torch.Generator().manual_seed(0)
        return pipe("a cat", num_inference_steps=1, pag_scale=3.0, generator=noise, output_type="pt").images

    return pipe, calling


@pytest.mark.parametrize("operator", ["todo(2)", "kv_select(0.25)", "gated_merge(ratio=0.6, weighted=True)"])
def test_perturbed_attention_takes_no_other_keys(perturbed, operator):
    pipe, calling = perturbed
    with bigain.compress(pipe, operator), pytest.raises(ValueError, match="runs perturbed-attention guidance"):
        calling()


def test_perturbed_attention_takes_merged_tokens(perturbed):
    pipe, calling = perturbed
    dense = calling()
    with bigain.compress(pipe, MERGE):
        assert not torch.equal(calling(), dense)


def test_halves_without_guidance_say_what_to_do():
    unet = SD.build()
    with (
        bigain.compress(unet, MERGE, groups="cfg"),
        pytest.raises(ValueError, match=r"divisible by 2, got 1; without guidance .* leave groups out"),
    ):
        call(unet, SD.inputs(batch=1))


@pytest.mark.parametrize(("backbone", "dim"), [(SD, 1), (DIT, 0)])
def test_a_chunked_feed_forward_is_refused(backbone, dim):
    model = backbone.build()
    for module in model.modules():
        if type(module).__name__ == "BasicTransformerBlock":
            module.set_chunk_feed_forward(1 if dim == 0 else 64, dim)
    with (
        bigain.compress(model, MERGE, where=Where(module="mlp")),
        pytest.raises(RuntimeError, match="chunked feed-forward"),
    ):
        run(backbone, model)


@pytest.mark.parametrize("name", ["sd", "pixart"])  # a DiT drops labels in training mode
def test_a_paused_pass_is_recomputed_as_it_was(name):
    """Self-distillation: both passes before one backward, with and without gradient checkpointing."""
    backbone = BACKBONES[name]
    model = backbone.build()
    found = []
    for checkpointed in (False, True):
        if checkpointed:
            model.train()  # diffusers checkpoints only there
            model.enable_gradient_checkpointing()
        model.zero_grad()
        with bigain.compress(model, MERGE) as handle:
            student = call(model, backbone.inputs())
            with handle.paused():
                teacher = call(model, backbone.inputs())
            (student - teacher).square().mean().backward()
        found.append({key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None})
    assert found[0].keys() == found[1].keys()
    for key, gradient in found[0].items():
        torch.testing.assert_close(found[1][key], gradient, atol=1e-6, rtol=1e-4)


def test_the_default_is_the_finest_self_attention():
    unet = SD.build(only_cross_attention=(True, False), mid_block_only_cross_attention=False)
    with bigain.compress(unet, MERGE) as handle:
        run(SD, unet)
        assert {row.tokens for row in handle.status()} == {64}


def test_tomesd_complains_before_it_takes_anything_off():
    unet = BACKBONES["sdxl"].build()
    tomesd.apply_patch(unet, max_downsample=2)
    attached = len(site_hooks(unet))
    with pytest.raises(ValueError, match="use max_downsample=2"):
        tomesd.apply_patch(unet)
    assert len(site_hooks(unet)) == attached > 0
    with pytest.raises(ValueError, match="no cross modules in DiTTransformer2DModel; it has mlp, self"):
        tomesd.apply_patch(DIT.build(), merge_attn=False, merge_crossattn=True)


def test_what_load_gives_is_compressed_by_its_network():
    denoiser = bigain.load("fashion-unet")
    before = traces(denoiser.network)
    with bigain.compress(denoiser, MERGE):
        assert traces(denoiser.network) != before
    assert traces(denoiser.network) == before


def test_a_wrapper_is_told_to_pass_the_model_inside():
    with pytest.raises(TypeError, match=r"DataParallel is not supported.*pass the model inside \(\.module"):
        bigain.compress(nn.DataParallel(SD.build()), MERGE)


def test_a_wrong_call_gets_the_words_of_the_model():
    unet = SD.build()
    with bigain.compress(unet, MERGE), pytest.raises(TypeError, match="missing 2 required positional arguments"):
        unet(timestep=1)


def test_a_function_is_asked_about_self_attentions():
    unet = SD.build()
    with pytest.raises(ValueError, match=r"it would match mlp sites: name them in module=; it has:\n.*\(self, down"):
        bigain.compress(unet, MERGE, where=lambda site: site.kind == "mlp")
    with bigain.compress(unet, MERGE, where=Where(module="mlp", only=lambda site: site.part == "up")) as handle:
        assert len(handle.status()) > 0


@pytest.mark.parametrize(
    ("where", "error", "text"),
    [
        ({"downsample": "1"}, TypeError, "downsample must be an int or a sequence of ints, got '1'"),
        ({"index": (1, 2.0)}, TypeError, r"index must be an int or a sequence of ints, got \(1, 2.0\)"),
    ],
)
def test_places_are_numbers(where, error, text):
    with pytest.raises(error, match=text):
        Where(**where)


@pytest.mark.parametrize("where", ["wherever(downsample=1)", Where])
def test_no_choice_of_sites(where):
    with pytest.raises((ValueError, TypeError), match=r"cannot read the sites|where must be a Where, a function"):
        bigain.compress(SD.build(), MERGE, where=where)
