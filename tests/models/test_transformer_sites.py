"""Where compression acts in DiT and PixArt, and what they accept."""

import pytest
import torch

import bigain
from bigain import Where
from bigain.models.architectures import build_meta
from helpers.models import BACKBONES, run, traces

DIT, PIXART = BACKBONES["dit"], BACKBONES["pixart"]
MERGE = "gated_merge(ratio=0.5)"


def chosen(model, where=None):
    with bigain.compress(model, MERGE, where=where) as handle:
        return [row.name for row in handle.status()]


@pytest.fixture(scope="module")
def dit():
    return DIT.build()


def test_default_of_dit_xl_is_the_first_12_of_28_blocks():
    model = build_meta("dit-xl-2-256")
    assert len(model.transformer_blocks) == 28
    assert chosen(model) == [f"transformer_blocks.{i}.attn1" for i in range(12)]


def test_default_is_that_share_of_other_depths(dit):
    assert chosen(dit) == [f"transformer_blocks.{i}.attn1" for i in range(3)]
    assert len(chosen(PIXART.build())) == 3
    assert len(chosen(PIXART.build(num_layers=1))) == 1


def test_index_part_and_module(dit):
    assert chosen(dit, Where(index=range(6))) == [f"transformer_blocks.{i}.attn1" for i in range(6)]
    assert chosen(dit, Where(index=(1, 5), module="mlp")) == ["transformer_blocks.1.ff", "transformer_blocks.5.ff"]
    assert chosen(dit, Where(part="blocks")) == chosen(dit)
    assert len(chosen(dit, Where(downsample=1))) == 6
    assert len(chosen(dit, Where(tokens=64))) == 6
    assert len(chosen(dit, lambda site: site.index % 2 == 0)) == 3


def test_mlp_of_a_dit_has_an_effect(dit):
    dense, before = run(DIT, dit), traces(dit)
    for module in ("mlp", ("self", "mlp")):
        with bigain.compress(dit, MERGE, where=Where(module=module)) as handle:
            assert not torch.allclose(run(DIT, dit), dense, atol=1e-5)
            assert all(row.queries == 32 for row in handle.status())
    assert torch.equal(run(DIT, dit), dense)
    assert traces(dit) == before


def test_a_dit_has_no_cross_attention(dit):
    before = traces(dit)
    with pytest.raises(ValueError, match="no cross modules in DiTTransformer2DModel; it has mlp, self"):
        bigain.compress(dit, MERGE, where=Where(module="cross"))
    with pytest.raises(ValueError, match=r"no site at index 6; DiTTransformer2DModel has 0\.\.5"):
        bigain.compress(dit, MERGE, where=Where(index=6))
    assert traces(dit) == before


def test_non_square_latents_of_a_dit_are_refused(dit):
    before, dense = traces(dit), run(DIT, dit)
    with (
        bigain.compress(dit, MERGE),
        pytest.raises(ValueError, match="needs square latents, got 16x24"),
    ):
        run(DIT, dit, size=(16, 24))
    assert traces(dit) == before
    assert torch.equal(run(DIT, dit), dense)


def test_call_styles_of_a_dit(dit):
    (latents, t), labels = DIT.inputs()
    labels = labels["class_labels"]
    with bigain.compress(dit, "kv_downsample(factor=2, alpha=(0.8, 1.2))"), torch.no_grad():
        expected = dit(latents, t, class_labels=labels).sample
        assert torch.equal(dit(hidden_states=latents, timestep=t, class_labels=labels).sample, expected)
        assert torch.equal(dit(latents, t, labels, None).sample, expected)
        assert torch.equal(dit(latents, t, labels, {}).sample, expected)
        assert torch.equal(dit(latents, t, labels, cross_attention_kwargs={}).sample, expected)


def test_call_styles_of_pixart():
    model = PIXART.build()
    (latents, text, t), _ = PIXART.inputs()
    with bigain.compress(model, "kv_downsample(factor=2, alpha=(0.8, 1.2))"), torch.no_grad():
        expected = model(latents, text, t, {}).sample
        named = {"encoder_hidden_states": text, "timestep": t, "added_cond_kwargs": {}}
        assert torch.equal(model(latents, **named).sample, expected)
        assert torch.equal(model(hidden_states=latents, **named).sample, expected)
        assert torch.equal(model(hidden_states=latents, **named, cross_attention_kwargs={}).sample, expected)


def test_masked_text_of_pixart():
    model = PIXART.build()
    (latents, text, t), _ = PIXART.inputs()
    mask = torch.ones(2, 7)
    mask[:, 3:] = 0
    with bigain.compress(model, MERGE, where=Where(module=("self", "cross", "mlp"))), torch.no_grad():
        masked = model(latents, text, t, {}, encoder_attention_mask=mask).sample
        cut = model(latents, text[:, :3], t, {}).sample
    torch.testing.assert_close(masked, cut, atol=1e-4, rtol=1e-3)


def test_the_modulated_input_is_the_metric(dit, monkeypatch):
    """As in the paper, a DiT is matched on what attn1 gets."""
    seen, inputs = [], []
    plan = bigain.GatedMerge.plan

    def looking(self, x, call):
        seen.append(x)
        return plan(self, x, call)

    monkeypatch.setattr(bigain.GatedMerge, "plan", looking)
    hook = dit.transformer_blocks[0].norm1.register_forward_hook(lambda module, args, out: inputs.append(out[0]))
    with bigain.compress(dit, MERGE, where=Where(index=0)):
        run(DIT, dit)
    hook.remove()
    assert torch.equal(seen[0], inputs[0])
