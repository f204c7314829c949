"""Attaching changes the output, and every way of taking off restores the model to the last bit."""

import pytest
import torch

import bigain
from bigain.operators import OPERATORS
from helpers.models import BACKBONES, EXAMPLES, call, run, traces

MERGE = "tome(ratio=0.6)"


def test_every_operator_has_an_example():
    assert set(EXAMPLES) == set(OPERATORS)


def test_output_differs_and_removal_restores_the_bits(backbone, model, operator):
    dense, before = run(backbone, model), traces(model)
    handle = bigain.compress(model, operator)
    compressed = run(backbone, model)
    assert compressed.shape == dense.shape
    assert torch.isfinite(compressed).all()
    assert not torch.allclose(compressed, dense, atol=1e-4)
    handle.remove()
    assert torch.equal(run(backbone, model), dense)
    assert traces(model) == before
    handle.remove()
    assert traces(model) == before


def test_no_hook_is_left_when_removed_before_the_first_call(backbone, model):
    before = traces(model)
    bigain.compress(model, MERGE).remove()
    assert traces(model) == before


def test_paused_is_dense(backbone, model, operator):
    dense = run(backbone, model)
    with bigain.compress(model, operator) as handle:
        compressed = run(backbone, model)
        with handle.paused():
            assert torch.equal(run(backbone, model), dense)
        handle.reset()
        assert torch.equal(run(backbone, model), compressed)


def test_applying_twice_raises_and_lists_the_sites(backbone, model, operator):
    with bigain.compress(model, operator) as handle:
        attached = traces(model)
        with pytest.raises(ValueError, match="these sites are already compressed") as error:
            bigain.compress(model, operator)
        assert traces(model) == attached
        for row in handle.status():
            assert row.name in str(error.value)


def test_context_manager_removes_also_after_an_error(backbone, model):
    before = traces(model)
    with pytest.raises(KeyboardInterrupt), bigain.compress(model, MERGE):
        raise KeyboardInterrupt
    assert traces(model) == before


def test_restore_takes_everything_off(backbone, model, operator):
    dense, before = run(backbone, model), traces(model)
    bigain.compress(model, operator)
    run(backbone, model)
    bigain.restore(model)
    assert torch.equal(run(backbone, model), dense)
    assert traces(model) == before


def test_restore_of_a_dense_model_does_nothing(backbone, model):
    before = traces(model)
    bigain.restore(model)
    assert traces(model) == before


@pytest.mark.parametrize("spec", ["gated_merge(ratio=0)", "todo(factor=1)", "kv_select(keep=1)"])
def test_identity_settings_are_dense(backbone, model, spec):
    dense = run(backbone, model)
    with bigain.compress(model, spec):
        assert torch.equal(run(backbone, model), dense)


def test_a_call_that_fails_leaves_the_next_one_right(backbone, model):
    dense, before = run(backbone, model), traces(model)
    narrow = with_latents(backbone.inputs(), lambda latents: latents[..., :3] if latents.ndim == 3 else latents[:, :3])
    with bigain.compress(model, MERGE) as handle:
        first = run(backbone, model)
        handle.reset()
        with pytest.raises(RuntimeError), torch.no_grad():
            call(model, narrow)
        handle.reset()
        assert torch.equal(run(backbone, model), first)
    assert torch.equal(run(backbone, model), dense)
    assert traces(model) == before


def with_latents(inputs, change):
    """The same inputs with other latents, which come first or by name."""
    if inputs.args:
        return inputs._replace(args=(change(inputs.args[0]), *inputs.args[1:]))
    return inputs._replace(kwargs=inputs.kwargs | {"hidden_states": change(inputs.kwargs["hidden_states"])})


@pytest.mark.parametrize("backbone_name", BACKBONES)
def test_repr_tells_operator_sites_and_state(backbone_name):
    backbone = BACKBONES[backbone_name]
    model = backbone.build()
    handle = bigain.compress(model, "gated_merge(ratio=0.3)")
    text = repr(handle)
    assert "gated_merge(ratio=0.3)" in text
    assert f"{len(handle.status())} sites of {type(model).__name__}" in text
    assert text.endswith("on>")
    with handle.paused():
        assert repr(handle).endswith("paused>")
    handle.remove()
    assert repr(handle).endswith("removed>")
