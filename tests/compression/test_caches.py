"""Caches that skip blocks, of diffusers and of cache-dit, beside compression: both work, and each comes off alone."""

import logging
from contextlib import contextmanager

import pytest
import torch
from diffusers import (
    FirstBlockCacheConfig,
    MagCacheConfig,
    PyramidAttentionBroadcastConfig,
    TaylorSeerCacheConfig,
)

import bigain
from helpers.models import BACKBONES, call, traces

MERGE = "gated_merge(ratio=0.6)"
KEYS = "kv_downsample(factor=2)"
TIMES = (900, 600, 300)


@torch.no_grad()
def loop(name, model):
    """The outputs of a few steps."""
    steps = [BACKBONES[name].inputs(t=torch.tensor([t, t])) for t in TIMES]
    if not model.is_cache_enabled:
        return [call(model, inputs) for inputs in steps]
    model._reset_stateful_cache()
    found = []
    for number, inputs in enumerate(steps):
        with model.cache_context("cond", step_index=number):
            found.append(call(model, inputs))
    return found


@contextmanager
def cached(model, config):
    model.enable_cache(config)
    try:
        yield
    finally:
        model.disable_cache()


def same(found, expected):
    return [torch.equal(a, b) for a, b in zip(found, expected, strict=True)]


FBC = FirstBlockCacheConfig(threshold=1e6)
MAG = MagCacheConfig(
    threshold=10.0, max_skip_steps=3, retention_ratio=0.0, num_inference_steps=3, mag_ratios=[1.0, 1.0, 1.0]
)
BLOCKS = TaylorSeerCacheConfig(1000, 1, cache_identifiers=[r"(single_)?transformer_blocks\.\d+"])
LITE = TaylorSeerCacheConfig(1000, 1, use_lite_mode=True)
SKIPPING = {"first block": FBC, "magnitudes": MAG, "blocks extrapolated": BLOCKS, "end extrapolated": LITE}


@pytest.mark.parametrize("config", SKIPPING.values(), ids=SKIPPING)
@pytest.mark.parametrize("name", ["flux", "qwen"])
def test_skipped_blocks_and_merged_tokens(name, config):
    """In either order, the same bits; each is taken off alone."""
    model = BACKBONES[name].build()
    dense, before = loop(name, model), traces(model)
    with cached(model, config):
        dense_cached = loop(name, model)
        with bigain.compress(model, MERGE) as handle:
            cached_first = loop(name, model)
            with handle.paused():
                assert all(same(loop(name, model), dense_cached))
        assert all(same(loop(name, model), dense_cached))
    with bigain.compress(model, MERGE):
        compressed = loop(name, model)
        with cached(model, config):
            compressed_first = loop(name, model)
        assert all(same(loop(name, model), compressed))
    assert all(same(loop(name, model), dense))
    assert all(same(compressed_first, cached_first))
    assert same(compressed_first, compressed)[:2] == [True, False]
    assert not any(same(compressed_first, dense_cached))
    assert {key: value[1] for key, value in traces(model).items()} == {key: value[1] for key, value in before.items()}


@pytest.mark.parametrize("name", ["flux", "qwen"])
def test_a_first_block_cache_that_never_fits_changes_nothing(name):
    model = BACKBONES[name].build()
    with bigain.compress(model, MERGE):
        compressed = loop(name, model)
        with cached(model, FirstBlockCacheConfig(threshold=0.0)):
            assert all(same(loop(name, model), compressed))


@torch.no_grad()
def test_what_a_first_block_cache_keeps_is_of_compressed_blocks():
    """The second step is its own first block and what the other blocks added in the first step, by hand."""
    model, seen = BACKBONES["flux"].build(), []
    model.transformer_blocks[0].register_forward_hook(lambda block, args, output: seen.append(output[1]))
    model.norm_out.register_forward_pre_hook(lambda norm, args: seen.append(args[0]))
    with bigain.compress(model, MERGE):
        loop("flux", model)
        first, last, second = seen[0], seen[1], seen[2]
        seen.clear()
        with cached(model, FBC):
            loop("flux", model)
    torch.testing.assert_close(seen[3], second + (last - first))


PYRAMID = PyramidAttentionBroadcastConfig(spatial_attention_block_skip_range=2, current_timestep_callback=lambda: 500)
TAYLOR = TaylorSeerCacheConfig(1000, 1, taylor_factors_dtype=torch.float32)


@pytest.mark.parametrize("config", [PYRAMID, TAYLOR], ids=lambda config: type(config).__name__)
@pytest.mark.parametrize("name", ["flux", "qwen"])
def test_attention_that_is_kept_takes_other_keys_but_no_merged_tokens(name, config):
    """The outputs of merged tokens are of other tokens in each step."""
    model = BACKBONES[name].build()
    with bigain.compress(model, KEYS):
        compressed = loop(name, model)
        with cached(model, config):
            both = loop(name, model)
        assert all(same(loop(name, model), compressed))
    assert same(both, compressed)[0]
    assert not all(same(both, compressed))
    text = (
        r"\.attn keeps its outputs for later steps \((Pyramid|Taylor).*\), which merge other tokens; cache whole blocks"
    )
    for operator, options in ((MERGE, {}), (KEYS, {"groups": 2, "correct": True})):
        with (
            cached(model, config),
            bigain.compress(model, operator, **options),
            pytest.raises(ValueError, match=text),
        ):
            loop(name, model)


# ---- cache-dit


@pytest.fixture
def cache_dit():
    import cache_dit as module  # prints when it is imported

    logging.getLogger("CACHE_DIT").setLevel(logging.ERROR)
    return module


@contextmanager
def cached_by(cache_dit, model, threshold):
    config = cache_dit.DBCacheConfig(
        Fn_compute_blocks=1,
        Bn_compute_blocks=0,
        max_warmup_steps=1,
        residual_diff_threshold=threshold,
        num_inference_steps=len(TIMES),
        enable_separate_cfg=False,
    )
    cache_dit.enable_cache(model, cache_config=config)
    try:
        yield
    finally:
        cache_dit.disable_cache(model)


@pytest.mark.parametrize("operator", [MERGE, KEYS])
@pytest.mark.parametrize("name", ["flux", "qwen", "chroma"])
def test_cache_dit(name, operator, cache_dit):
    model = BACKBONES[name].build()
    dense = loop(name, model)
    with cached_by(cache_dit, model, 1e6):
        dense_cached = loop(name, model)
    with bigain.compress(model, operator):
        compressed = loop(name, model)
        with cached_by(cache_dit, model, 0.0):
            assert all(same(loop(name, model), compressed))
        with cached_by(cache_dit, model, 1e6):
            compressed_first = loop(name, model)
        assert all(same(loop(name, model), compressed))
    with cached_by(cache_dit, model, 1e6), bigain.compress(model, operator):
        assert all(same(loop(name, model), compressed_first))
    assert all(same(loop(name, model), dense))
    assert same(compressed_first, compressed)[0]
    assert not all(same(compressed_first, compressed))
    assert not any(same(compressed_first, dense_cached))
