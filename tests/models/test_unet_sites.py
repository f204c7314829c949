"""Where compression acts in U-Nets and ControlNets, and how they may be called."""

import pytest
import torch

import bigain
from bigain import Where
from bigain.models.architectures import build_meta
from helpers.models import BACKBONES, call, run, traces

SD, SDXL = BACKBONES["sd"], BACKBONES["sdxl"]
MERGE = "gated_merge(ratio=0.5)"
TODO = "todo(factor=2)"
FINEST = [
    "down_blocks.0.attentions.0.transformer_blocks.0.attn1",
    "down_blocks.0.attentions.1.transformer_blocks.0.attn1",
    "up_blocks.1.attentions.0.transformer_blocks.0.attn1",
    "up_blocks.1.attentions.1.transformer_blocks.0.attn1",
    "up_blocks.1.attentions.2.transformer_blocks.0.attn1",
]


@pytest.fixture(scope="module")
def unet():
    return SD.build()


@pytest.fixture(scope="module")
def sdxl():
    return SDXL.build()


def chosen(model, where=None, operator=MERGE):
    with bigain.compress(model, operator, where=where) as handle:
        return [row.name for row in handle.status()]


def test_default_is_the_finest_grid(unet):
    assert chosen(unet) == FINEST


def test_level(unet):
    assert chosen(unet, Where(downsample=1)) == FINEST
    second = chosen(unet, Where(downsample=2))
    assert [name.split(".")[0] for name in second] == ["down_blocks"] * 2 + ["mid_block"] + ["up_blocks"] * 3
    assert set(chosen(unet, Where(downsample=(1, 2)))) == {*FINEST, *second}


def test_tokens(unet):
    assert chosen(unet, Where(tokens=256)) == FINEST
    assert chosen(unet, Where(tokens=64)) == chosen(unet, Where(downsample=2))


def test_part(unet):
    assert chosen(unet, Where(part="down")) == FINEST[:2]
    assert chosen(unet, Where(part="up")) == FINEST[2:]
    assert chosen(unet, Where(part=("down", "up"))) == FINEST
    assert chosen(unet, Where(part="mid", downsample=2)) == ["mid_block.attentions.0.transformer_blocks.0.attn1"]


def test_index(unet):
    assert chosen(unet, Where(index=0)) == FINEST[:1]
    assert chosen(unet, Where(index=(0, 1))) == FINEST[:2]
    assert chosen(unet, Where(index=range(8, 11))) == FINEST[2:]
    assert len(chosen(unet, Where(index=range(11)))) == 11


def test_predicate(unet):
    assert chosen(unet, lambda site: site.index == 4) == ["mid_block.attentions.0.transformer_blocks.0.attn1"]
    assert chosen(unet, Where(module="mlp", only=lambda site: site.index == 0)) == [FINEST[0].replace("attn1", "ff")]
    assert chosen(unet, Where(downsample=1, only=lambda site: site.part == "down")) == FINEST[:2]


def test_text(unet):
    assert chosen(unet, 'part="down"') == FINEST[:2]
    assert chosen(unet, 'where(downsample=1, module=("self", "mlp"), index=0)') == [
        FINEST[0],
        FINEST[0].replace("attn1", "ff"),
    ]


def test_modules_and_combinations(unet):
    assert chosen(unet, Where(module="cross")) == [name.replace("attn1", "attn2") for name in FINEST]
    assert chosen(unet, Where(module="mlp")) == [name.replace("attn1", "ff") for name in FINEST]
    assert len(chosen(unet, Where(module=("self", "cross", "mlp"), part="up"))) == 9
    assert len(chosen(unet, Where(module=("cross", "mlp"), downsample=2, part="down"))) == 4


@pytest.mark.parametrize("module", ["self", "cross", "mlp", ("self", "mlp"), ("self", "cross", "mlp")], ids=str)
@pytest.mark.parametrize("name", ["sd", "sdxl", "pixart", "controlnet"])
def test_every_kind_of_module_has_an_effect(name, module):
    backbone = BACKBONES[name]
    model = backbone.build()
    dense, before = run(backbone, model), traces(model)
    with bigain.compress(model, MERGE, where=Where(module=module)) as handle:
        assert not torch.allclose(run(backbone, model), dense, atol=1e-5)
        assert all(row.ran and row.queries == row.tokens // 2 for row in handle.status())
    assert torch.equal(run(backbone, model), dense)
    assert traces(model) == before


def test_sdxl_is_compressed_by_default(sdxl):
    sites = bigain.models.unet.sites(sdxl)
    assert {site.downsample for site in sites} == {2, 4}
    names = chosen(sdxl)
    assert names == [site.name for site in sites if site.kind == "self" and site.downsample == 2]
    assert len(names) == 2 + 4
    dense = run(SDXL, sdxl)
    with bigain.compress(sdxl, MERGE) as handle:
        assert not torch.allclose(run(SDXL, sdxl), dense, atol=1e-4)
        assert {(row.tokens, row.queries) for row in handle.status()} == {(64, 32)}


def test_the_real_sdxl_and_sd2():
    assert len(chosen(build_meta("sd2"))) == 5
    xl = build_meta("sdxl")
    levels = {site.name: (site.downsample, site.tokens) for site in bigain.models.unet.sites(xl)}
    assert {levels[name] for name in chosen(xl)} == {(2, 4096)}
    assert len(chosen(xl)) == 2 * 2 + 3 * 2


def test_call_styles(unet):
    latents, t, text = SD.inputs().args
    with bigain.compress(unet, "kv_downsample(factor=2, alpha=(0.8, 1.2))"), torch.no_grad():
        expected = unet(latents, t, text).sample
        assert torch.equal(unet(sample=latents, timestep=t, encoder_hidden_states=text).sample, expected)
        assert torch.equal(unet(latents, timestep=t, encoder_hidden_states=text, return_dict=False)[0], expected)
        assert torch.equal(unet(latents, t, text, cross_attention_kwargs={}).sample, expected)
        assert torch.equal(unet(latents, t, text, None, None, None, None, None).sample, expected)
        assert torch.equal(unet(latents, t, text, None, None, None, {}).sample, expected)


class Spy:
    """An attention processor that notes the keywords it was given."""

    def __init__(self, processor, seen):
        self.processor, self.seen = processor, seen

    def __call__(self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None, temb=None, extra=None):
        self.seen.append(extra)
        return self.processor(attn, hidden_states, encoder_hidden_states, attention_mask, temb)


def test_processors_get_the_users_keywords_and_nothing_else():
    model, seen = SD.build(), []
    model.set_attn_processor({name: Spy(processor, seen) for name, processor in model.attn_processors.items()})
    inputs = SD.inputs()
    with torch.no_grad():
        call(model, inputs)
        dense = len(seen)
        with bigain.compress(model, MERGE):
            expected = call(model, inputs)
            own = {"extra": "mine"}
            assert torch.equal(model(*inputs.args, cross_attention_kwargs=own).sample, expected)
    assert own == {"extra": "mine"}
    assert seen == [None] * 2 * dense + ["mine"] * dense


def test_an_attention_mask_on_the_text_is_followed(unet):
    inputs = SD.inputs()
    mask = torch.ones(2, 7)
    mask[:, 4:] = 0
    with bigain.compress(unet, "gated_merge(ratio=0)"), torch.no_grad():
        expected = unet(*inputs.args, encoder_attention_mask=mask).sample
        assert not torch.allclose(expected, call(unet, inputs), atol=1e-5)
    with bigain.compress(unet, MERGE, where=Where(module=("self", "cross"))), torch.no_grad():
        masked = unet(*inputs.args, encoder_attention_mask=mask).sample
        assert not torch.allclose(masked, call(unet, inputs), atol=1e-5)


def test_controlnet_alongside_a_unet(unet):
    backbone = BACKBONES["controlnet"]
    control = backbone.build()
    inputs = backbone.inputs()

    def both():
        down, mid = control(*inputs.args, return_dict=False)
        return unet(*inputs.args[:3], down_block_additional_residuals=down, mid_block_additional_residual=mid).sample

    with torch.no_grad():
        dense = both()
        with bigain.compress(unet, MERGE):
            one = both()
            with bigain.compress(control, TODO):
                two = both()
            assert torch.equal(both(), one)
        assert torch.equal(both(), dense)
    assert not torch.allclose(one, dense, atol=1e-4)
    assert not torch.allclose(two, one, atol=1e-6)


def test_block_input_is_the_metric(unet, monkeypatch):
    """The paper's merging looks at the block's input before norm1."""
    seen, inputs = [], []
    plan = bigain.GatedMerge.plan

    def looking(self, x, call):
        seen.append(x)
        return plan(self, x, call)

    monkeypatch.setattr(bigain.GatedMerge, "plan", looking)
    block = unet.down_blocks[0].attentions[0].transformer_blocks[0]
    hook = block.register_forward_pre_hook(lambda module, args: inputs.append(args[0]))
    with bigain.compress(unet, MERGE, where=Where(index=0)):
        run(SD, unet)
    hook.remove()
    assert torch.equal(seen[0], inputs[0])
