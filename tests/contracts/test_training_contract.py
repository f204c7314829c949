"""Backward passes: with and without gradient checkpointing the gradients are the same."""

import pytest
import torch

import bigain
from helpers.models import BACKBONES, call
from helpers.pairs import ONE_OF_EACH_CLASS

pytestmark = pytest.mark.slow

NAMES = (*ONE_OF_EACH_CLASS, "sd3", "flux", "flux2", "qwen")


def gradients(model, handle, *batches):
    """Gradients of all parameters after one backward through several forward passes."""
    handle.reset()
    model.zero_grad()
    torch.manual_seed(1)  # a DiT drops labels while training
    sum(call(model, inputs).square().mean() for inputs in batches).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-6, rtol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


def sizes(backbone):
    return [backbone.inputs(size=(16, 16)), backbone.inputs(size=(8, 8), seed=9)]


@pytest.mark.parametrize("reused", ["gated_merge(ratio=0.6)", "tome(ratio=0.6)"])
def test_checkpointing_with_reused_plans(backbone, reused):
    assert_checkpointing_changes_nothing(backbone, reused, reuse="stage")


def test_checkpointing_gives_the_same_gradients(backbone, operator):
    assert_checkpointing_changes_nothing(backbone, operator)


def assert_checkpointing_changes_nothing(backbone, operator, **options):
    model = backbone.build().train()
    with bigain.compress(model, operator, **options) as handle:
        expected = gradients(model, handle, backbone.inputs())
        expected_two = gradients(model, handle, *sizes(backbone))
        model.enable_gradient_checkpointing()
        assert_same(gradients(model, handle, backbone.inputs()), expected)
        assert_same(gradients(model, handle, *sizes(backbone)), expected_two)


@pytest.mark.parametrize("name", ["chroma", "aura"])
def test_models_that_hand_nothing_on_under_checkpointing_say_so(name):
    backbone = BACKBONES[name]
    model = backbone.build().train()
    model.enable_gradient_checkpointing()
    with bigain.compress(model, "gated_merge(ratio=0.6)") as handle:
        with pytest.raises(RuntimeError, match=r"call disable_gradient_checkpointing\(\) while it is compressed"):
            call(model, backbone.inputs())
        with torch.no_grad():
            call(model, backbone.inputs())
        model.disable_gradient_checkpointing()
        assert gradients(model, handle, backbone.inputs())


def test_gradients_reach_what_a_dense_model_reaches(backbone, operator):
    model = backbone.build().train()
    with bigain.compress(model, operator) as handle:
        compressed = gradients(model, handle, backbone.inputs())
        with handle.paused():
            dense = gradients(model, handle, backbone.inputs())
    assert compressed.keys() == dense.keys()
    assert any(not torch.allclose(compressed[name], dense[name]) for name in dense)
