"""The account of what was saved is exact."""

from functools import cache

import pytest
import torch

import bigain
from bigain.bench.flops import counted
from bigain.models import family_of
from helpers.models import BACKBONES
from helpers.pairs import TAKES_KEYS

pytestmark = pytest.mark.slow

# on a handful of tokens of narrow models, planning by an N x N similarity may cost more than it saves
PLANNING_MAY_COST_MORE = "sito"


@cache
def on_meta(name):
    return BACKBONES[name].on_meta()


@cache
def dense_flops(name):
    return flops(BACKBONES[name], on_meta(name))


@pytest.fixture
def meta(backbone):
    return on_meta(backbone.name)


@pytest.fixture
def dense(backbone):
    return dense_flops(backbone.name)


@torch.no_grad()
def flops(backbone, model, **choice):
    """FLOPs of one forward pass of one sample."""
    return counted(model, backbone.inputs(batch=1, device="meta", **choice))


def account_and_count(backbone, meta, dense, operator, **options):
    """FLOPs saved by the account, and by counting."""
    with bigain.compress(meta, operator, **options) as handle:
        compressed = flops(backbone, meta)
        status = handle.status()
    return status.flops_before - status.flops_after, dense - compressed


def test_flops_agree_with_the_counter(backbone, meta, dense, operator):
    with bigain.compress(meta, operator) as handle:
        compressed = flops(backbone, meta)
        status = handle.status()
    assert status.flops_before - status.flops_after == dense - compressed
    for row in status:
        assert row.flops_before > 0
        assert row.flops_after > 0
        assert row.flops_after < row.flops_before or operator.startswith(PLANNING_MAY_COST_MORE)


@pytest.mark.parametrize("reused", ["gated_merge(ratio=0.6)", "kv_select(keep=0.4)"])
def test_flops_agree_with_the_counter_when_plans_are_reused(backbone, meta, dense, reused):
    where = TAKES_KEYS.get(backbone.name) if reused.startswith("kv") else None
    account, count = account_and_count(backbone, meta, dense, reused, reuse="stage", where=where)
    assert account == count


@pytest.mark.parametrize("without", ["", "self"])
def test_flops_agree_with_the_counter_for_other_kinds_of_sites(backbone, meta, dense, without):
    kinds = {site.kind for site in family_of(meta).sites(meta)} - {without}
    where = bigain.Where(module=tuple(sorted(kinds)))
    account, count = account_and_count(backbone, meta, dense, "gated_merge(ratio=0.5)", where=where)
    assert account == count


def test_flops_agree_with_the_counter_at_another_size(backbone, meta):
    size = (20, 20) if backbone.name == "dit" else (18, 22)
    before = flops(backbone, meta, size=size)
    with bigain.compress(meta, "gated_merge(ratio=0.5)") as handle:
        after = flops(backbone, meta, size=size)
        status = handle.status()
    assert status.flops_before - status.flops_after == before - after
    assert flops(backbone, meta, size=size) == before


@pytest.mark.parametrize("groups", [2, "cfg"])
@torch.no_grad()
def test_rows_of_a_group_pay_for_their_plan_together(backbone, meta, groups):
    inputs = backbone.inputs(batch=4, device="meta")
    before = counted(meta, inputs)
    with bigain.compress(meta, "gated_merge(ratio=0.6)", groups=groups) as handle:
        after = counted(meta, inputs)
        status = handle.status()
    assert 4 * (status.flops_before - status.flops_after) == before - after
