"""A compressed forward pass never asks the device for a number: on a GPU that would stop the queue."""

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import bigain
from helpers.models import BACKBONES, call, run

ASKING = ("_local_scalar_dense", "nonzero", "is_nonzero", "equal", "masked_select", "unique", "bincount", "item")


INDEXING = ("index", "index_put", "index_put_")  # by a mask, they ask how many are true


class NoQuestions(TorchDispatchMode):
    """Fails where a value of a tensor decides what Python does, or the shape of a result."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.name().removeprefix("aten::").split(".")[0]
        masks = [x for x in args[1] if x is not None and x.dtype == torch.bool] if name in INDEXING else []
        waits = name in ASKING or masks
        assert not waits, f"{name} waits for the device"
        return func(*args, **(kwargs or {}))


def test_a_compressed_pass_asks_nothing(backbone, operator):
    model = backbone.build()
    with bigain.compress(model, operator):
        run(backbone, model)  # constants are made in the first pass
        with NoQuestions():
            run(backbone, model)


@pytest.mark.parametrize("ask", [lambda x: x.sum().item(), lambda x: x[x > 0], torch.nonzero, lambda x: bool(x.sum())])
def test_questions_are_noticed(ask):
    with NoQuestions(), pytest.raises(AssertionError, match="waits for the device"):
        ask(torch.arange(4.0))


class Reading(TorchFunctionMode):
    """Counts how often a tensor is read as numbers at once, which dispatch does not see on a CPU."""

    times = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.times += getattr(func, "__name__", "") in ("tolist", "numpy")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["flux", "chroma", "flux2"])
@torch.no_grad()
def test_positions_are_read_once(name):
    """Pipelines pass the same positions at each step; positions that were changed are read again."""
    backbone = BACKBONES[name]
    model, inputs = backbone.build(), backbone.inputs()
    with bigain.compress(model, "gated_merge(ratio=0.6)"):
        with Reading() as first:
            call(model, inputs)
        with Reading() as later:
            call(model, inputs)
            call(model, inputs)
        inputs.kwargs["img_ids"].add_(0)
        with Reading() as changed:
            call(model, inputs)
    assert (first.times, later.times, changed.times) == (1, 0, 1)


@pytest.mark.parametrize("name", ["flux", "qwen"])
def test_positions_made_in_inference_mode_are_read_too(name):
    backbone = BACKBONES[name]
    model = backbone.build()
    with bigain.compress(model, "gated_merge(ratio=0.6)"):
        expected = run(backbone, model)
        with torch.inference_mode():
            assert torch.equal(call(model, backbone.inputs()), expected)


def test_constants_are_not_made_again(backbone, operator):
    class Count(TorchDispatchMode):
        made = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.made += "arange" in func.name()
            return func(*args, **(kwargs or {}))

    model = backbone.build()
    with Count() as dense:
        run(backbone, model)
    with bigain.compress(model, operator):
        run(backbone, model)
        with Count() as compressed:
            run(backbone, model)
    assert compressed.made == dense.made
