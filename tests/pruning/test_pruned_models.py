"""Pruned models of every family: smaller matrices give what masks would, in batches of any timesteps, and undo is exact."""

import copy
import pickle
import threading
from functools import cache
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import bigain
from bigain.models.architectures import meta_copy
from bigain.pruning import prune
from helpers.models import BACKBONES, Backbone, call, run, traces
from helpers.pruning import SHARES, masked, some_pruning

NAMES = ("sd", "sdxl", "controlnet", "dit", "pixart", "sd3", "flux", "chroma", "qwen", "hunyuan")
T = {0: 100, 1: 500, 2: 900}  # a timestep of each stage
MIXED = torch.tensor([900, 100, 500, 950])


@cache
def built(name: str) -> Any:
    return BACKBONES[name].build()


@pytest.fixture(params=NAMES)
def backbone(request: pytest.FixtureRequest) -> Backbone:
    return BACKBONES[request.param]


@pytest.fixture
def model(backbone: Backbone) -> Any:
    return built(backbone.name)


def test_smaller_matrices_give_what_masks_would(backbone, model):
    pruned = some_pruning(model)
    for stage, t in T.items():
        expected = run(backbone, masked(model, pruned, stage), t=torch.tensor([t, t]))
        with prune(model, pruned):
            torch.testing.assert_close(run(backbone, model, t=torch.tensor([t, t])), expected, atol=2e-5, rtol=1e-4)


def test_rows_of_a_mixed_batch_get_the_weights_of_their_stage(backbone, model):
    with prune(model, some_pruning(model)):
        together = run(backbone, model, batch=4, t=MIXED)
        for row, t in enumerate(MIXED):
            alone = run(backbone, model, batch=4, t=t.expand(4))[row]
            torch.testing.assert_close(together[row], alone, atol=2e-5, rtol=1e-4)


def test_undo_is_exact(backbone, model):
    dense, before = run(backbone, model), traces(model)
    with prune(model, some_pruning(model)) as handle:
        pruned = run(backbone, model)
        assert not torch.allclose(pruned, dense, atol=1e-4)
        with handle.paused():
            assert torch.equal(run(backbone, model), dense)
        assert torch.equal(run(backbone, model), pruned)
    assert torch.equal(run(backbone, model), dense)
    assert traces(model) == before
    handle.remove()


@pytest.mark.parametrize("name", ["sd", "sdxl", "dit", "pixart", "sd3"])
def test_flops_are_those_counted(name):
    """Of models whose configuration says how large they are."""
    backbone = BACKBONES[name]
    model = backbone.on_meta()
    inputs = backbone.inputs(batch=1, device="meta")
    dense = counted(model, inputs)
    with prune(model, some_pruning(built(name))) as handle:
        status = handle.status()
        for stage in T:
            with handle.at_stage(stage):
                own = counted(model, inputs)
            said = status.flops_before - status.flops_after[stage]
            assert dense - own == pytest.approx(said, abs=len(status))  # each site is rounded
            assert (own < dense) == bool(SHARES[stage])


def counted(model: Any, inputs: Any) -> int:
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        call(model, inputs)
    return counter.get_total_flops()


def test_merging_on_top_merges_what_the_pruned_model_gets(backbone, model):
    """In either order, and both come off on their own."""
    pruned, merge = some_pruning(model), "gated_merge(ratio=0.5)"
    choice = {"batch": 4, "t": MIXED}
    dense, before = run(backbone, model, **choice), traces(model)
    stage = masked(model, pruned, 2)
    with bigain.compress(stage, merge):
        expected = run(backbone, stage, t=torch.tensor([900, 900]))
    with prune(model, pruned), bigain.compress(model, merge):
        torch.testing.assert_close(
            run(backbone, model, t=torch.tensor([900, 900])), expected, atol=1e-4, rtol=1e-3
        )
        first = run(backbone, model, **choice)
    with bigain.compress(model, merge) as outer:
        merged = run(backbone, model, **choice)
        with prune(model, pruned):
            assert torch.equal(run(backbone, model, **choice), first)
        assert torch.equal(run(backbone, model, **choice), merged)
        outer.remove()
    assert torch.equal(run(backbone, model, **choice), dense)
    assert traces(model) == before
