"""Pruned models of every family: smaller matrices give what masks would, in any batch, and undo is exact."""

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

NAMES = ("sd", "controlnet", "dit", "pixart", "sd3", "flux", "chroma", "qwen", "hunyuan")
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


@pytest.mark.parametrize("name", ["sd", "dit", "pixart", "sd3"])
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
        torch.testing.assert_close(run(backbone, model, t=torch.tensor([900, 900])), expected, atol=1e-4, rtol=1e-3)
        first = run(backbone, model, **choice)
    with bigain.compress(model, merge) as outer:
        merged = run(backbone, model, **choice)
        with prune(model, pruned):
            assert torch.equal(run(backbone, model, **choice), first)
        assert torch.equal(run(backbone, model, **choice), merged)
        outer.remove()
    assert torch.equal(run(backbone, model, **choice), dense)
    assert traces(model) == before


@pytest.mark.parametrize("name", ["sd", "dit", "sd3"])
def test_a_correction_on_top_takes_mean_rows_of_their_stage(name):
    backbone, model = BACKBONES[name], built(name)
    pruned = some_pruning(model)
    with torch.no_grad():
        inputs = backbone.inputs(batch=4, t=torch.tensor([900, 900, 100, 100]))
        merge = {"operator": "gated_merge(ratio=0.7)", "groups": 2, "correct": True}
        with prune(model, pruned), bigain.compress(model, **merge):
            together = call(model, inputs)
        for stage, rows in ((2, slice(0, 2)), (0, slice(2, 4))):
            alone = masked(model, pruned, stage)
            with bigain.compress(alone, **merge):
                expected = call(alone, backbone.inputs(batch=4, t=inputs_t(stage)))
            torch.testing.assert_close(together[rows], expected[rows], atol=1e-4, rtol=1e-3)


def inputs_t(stage: int) -> torch.Tensor:
    return torch.tensor([T[stage]] * 4)


@pytest.fixture
def dit() -> Any:
    return BACKBONES["dit"].build()


DIT = BACKBONES["dit"]


def test_a_copy_is_pruned_on_its_own(dit):
    dense = run(DIT, dit)
    handle = prune(dit, some_pruning(dit))
    pruned = run(DIT, dit)
    for other in (copy.deepcopy(dit), pickle.loads(pickle.dumps(dit))):
        assert torch.equal(run(DIT, other), pruned)
        bigain.restore(other)
        assert torch.equal(run(DIT, other), dense)
    assert torch.equal(run(DIT, dit), pruned)
    bigain.restore(dit)
    assert torch.equal(run(DIT, dit), dense)
    assert repr(handle).endswith("removed>")
    with pytest.raises(RuntimeError, match="this handle was removed"), handle:
        pass


def test_it_follows_the_model_to_another_dtype(dit):
    with prune(dit, some_pruning(dit)):
        before = run(DIT, dit)
        dit.to(torch.float64)
        wide = run(DIT, dit)
        assert wide.dtype == torch.float64
        torch.testing.assert_close(wide.float(), before, atol=1e-4, rtol=1e-3)


def test_pruning_twice_is_refused(dit):
    pruned = some_pruning(dit)
    with prune(dit, pruned), pytest.raises(ValueError, match="is already pruned; remove that handle first"):
        prune(dit, pruned)
    prune(dit, pruned).remove()


def test_layers_replaced_since_are_noticed(dit):
    with prune(dit, some_pruning(dit)):
        attention = dit.transformer_blocks[0].attn1
        attention.to_q = torch.nn.Linear(32, 32)
        with pytest.raises(RuntimeError, match=r"layers of transformer_blocks.0.attn1 were replaced after prune"):
            run(DIT, dit)


def test_what_cannot_be_pruned_says_why(dit):
    pruned = some_pruning(dit)
    with pytest.raises(ValueError, match=r"UNet2DConditionModel has no transformer_blocks.0.attn1; it was pruned as"):
        prune(built("sd"), pruned)
    unet = BACKBONES["sd"].build()
    pruned = some_pruning(unet)
    unet.fuse_qkv_projections()
    with pytest.raises(ValueError, match="has fused projections; adapters must be merged or unloaded"):
        prune(unet, pruned)


def test_a_timestep_is_needed(dit):
    with prune(dit, some_pruning(dit)) as handle:
        with pytest.raises(ValueError, match="stage must be from 0 to 2, got 3"), handle.at_stage(3):
            pass
        other = meta_copy(dit)
        prune(other, handle.pruned)
        with pytest.raises(ValueError, match="got a timestep without a value"):
            call(other, DIT.inputs(device="meta"))


def test_threads_at_different_stages(dit):
    pruned = some_pruning(dit)
    found: dict[int, torch.Tensor] = {}
    with prune(dit, pruned):
        expected = {t: run(DIT, dit, t=torch.tensor([t, t])) for t in T.values()}

        def work(t: int) -> None:
            for _ in range(3):
                found[t] = run(DIT, dit, t=torch.tensor([t, t]))

        threads = [threading.Thread(target=work, args=(t,)) for t in T.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all(torch.equal(found[t], expected[t]) for t in T.values())


def test_gradients_reach_the_input(dit):
    inputs = DIT.inputs()
    latents = inputs.args[0].clone().requires_grad_()
    with prune(dit, some_pruning(dit)):
        call(dit, inputs._replace(args=(latents, *inputs.args[1:]))).square().mean().backward()
    assert latents.grad is not None
    assert latents.grad.abs().sum() > 0


@pytest.mark.slow
def test_compiled_it_gives_the_same(dit):
    with prune(dit, some_pruning(dit)):
        expected = [run(DIT, dit, t=t) for t in (torch.tensor([900, 900]), MIXED[:2])]
        compiled = torch.compile(dit, backend="eager")
        with torch.no_grad():
            found = [call(compiled, DIT.inputs(t=t)) for t in (torch.tensor([900, 900]), MIXED[:2])]
    for own, other in zip(found, expected, strict=True):
        torch.testing.assert_close(own, other)
    torch.compiler.reset()
