"""What a site costs, at the real sizes of the published models: by hand, by the account and by torch's counter."""

from functools import cache

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import bigain
from bigain import Where
from bigain.bench.flops import counted
from bigain.models import family_of
from bigain.models.architectures import build_meta, example_inputs
from bigain.models.costs import site_flops
from bigain.models.named import ARCHITECTURES

pytestmark = pytest.mark.slow

LATENT = (96, 160)  # not square: 48 x 80 = 3,840 tokens of image in all of these models
TOKENS, KEPT = 3840, 960  # kv_downsample(factor=2) keeps a quarter of the keys


# Multiply-adds count twice. A projection of n tokens is n c² of them, and q queries with k keys take 2 q k c.
def text_apart(q, k, t, c):
    """to_q, to_k, to_v and to_out for the image, as many for the text; all attend to all."""
    return 2 * c**2 * (2 * q + 2 * k + 4 * t) + 4 * c * (q + t) * (k + t)


def text_goes_in_only(q, k, t, c):
    """The last block of Stable Diffusion 3: nothing is made of the text any more."""
    return text_apart(q, k, t, c) - 2 * c**2 * t


def image_alone(q, k, t, c):
    return 2 * c**2 * (2 * q + 2 * k) + 4 * c * q * k


def text_first(q, k, t, c):
    """One sequence, one set of projections."""
    return image_alone(q + t, k + t, 0, c)


def text_first_without_to_out(q, k, t, c):
    """A single block of FLUX.1: to_out is a part of proj_out."""
    return text_first(q, k, t, c) - 2 * c**2 * (q + t)


BY_HAND = [
    ("sd3-medium", "transformer_blocks.0.attn", 333, 1536, text_apart),
    ("sd3-medium", "transformer_blocks.23.attn", 333, 1536, text_goes_in_only),
    ("sd35-medium", "transformer_blocks.0.attn2", 0, 1536, image_alone),
    ("sd35-large", "transformer_blocks.37.attn", 333, 2432, text_goes_in_only),
    ("flux1-dev", "transformer_blocks.18.attn", 512, 3072, text_apart),
    ("flux1-dev", "single_transformer_blocks.0.attn", 512, 3072, text_first_without_to_out),
    ("flux1-schnell", "single_transformer_blocks.0.attn", 256, 3072, text_first_without_to_out),
    ("chroma1-hd", "transformer_blocks.0.attn", 512, 3072, text_apart),
    ("flux2-dev", "transformer_blocks.0.attn", 512, 6144, text_apart),
    ("qwen-image", "transformer_blocks.59.attn", 512, 3072, text_apart),
    ("pixart-sigma", "transformer_blocks.0.attn1", 0, 1152, image_alone),
    ("hunyuan-dit", "blocks.0.attn1", 0, 1408, image_alone),
    ("aura-flow", "joint_transformer_blocks.0.attn", 256 + 8, 3072, text_apart),  # 8 registers stand with the text
    ("aura-flow", "single_transformer_blocks.31.attn", 256 + 8, 3072, text_first),
]


@cache
def on_meta(name):
    model = build_meta(name)
    return model, example_inputs(model, LATENT, text_tokens=ARCHITECTURES[name].text_tokens)


def by_module(model, inputs):
    """FLOPs of each module by torch's counter, what its hooks do included."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(*inputs.args, **inputs.kwargs)
    return {name.partition(".")[2]: sum(found.values()) for name, found in counter.get_flop_counts().items()}


@cache
def dense_modules(name):
    return by_module(*on_meta(name))


def only(model, *names):
    kinds = {site.kind for site in family_of(model).sites(model) if site.name in names}
    return Where(module=tuple(kinds), only=lambda site: site.name in names)


@pytest.mark.parametrize(("name", "place", "text", "width", "by_hand"), BY_HAND)
def test_attention_by_hand(name, place, text, width, by_hand):
    model, inputs = on_meta(name)
    (site,) = bigain.sites(model, only(model, place))
    assert dense_modules(name)[place] == by_hand(TOKENS, TOKENS, text, width)
    assert site_flops(site, TOKENS, TOKENS, text) == by_hand(TOKENS, TOKENS, text, width)
    with bigain.compress(model, "kv_downsample(factor=2)", where=only(model, place)) as handle:
        compressed = by_module(model, inputs)
        (row,) = handle.status()
    assert (row.tokens, row.queries, row.keys) == (TOKENS, TOKENS, KEPT)
    assert compressed[place] == row.flops_after == by_hand(TOKENS, KEPT, text, width)


KINDS = {
    "pixart-sigma": ["transformer_blocks.0.attn1", "transformer_blocks.0.attn2", "transformer_blocks.0.ff"],
    "sd35-medium": [f"transformer_blocks.0.{part}" for part in ("attn", "attn2", "ff")],
    "flux1-dev": ["transformer_blocks.0.attn", "transformer_blocks.0.ff"]
    + [f"single_transformer_blocks.0.{part}" for part in ("proj_mlp", "attn", "proj_out")],
    "flux2-dev": ["transformer_blocks.0.attn", "transformer_blocks.0.ff", "single_transformer_blocks.0.attn"],
    "qwen-image": ["transformer_blocks.0.attn", "transformer_blocks.0.img_mlp"],
    "aura-flow": [f"{block}_transformer_blocks.0.{part}" for block in ("joint", "single") for part in ("attn", "ff")],
    "hunyuan-dit": ["blocks.0.attn1", "blocks.0.attn2", "blocks.0.ff"],
}


@pytest.mark.parametrize("name", KINDS)
def test_sites_of_each_kind_by_the_counter(name):
    """Fewer queries, and the making of plans, where a site has its own."""
    model, inputs = on_meta(name)
    with bigain.compress(model, "gated_merge(ratio=0.5)", where=only(model, *KINDS[name])) as handle:
        compressed = by_module(model, inputs)
        status = handle.status()
    assert [row.name for row in status] == KINDS[name]
    for row in status:
        assert row.queries == TOKENS // 2
        assert (row.flops_before, row.flops_after) == (dense_modules(name)[row.name], compressed[row.name])


@pytest.mark.parametrize("name", KINDS)
def test_the_account_is_what_the_whole_model_saves(name):
    model, inputs = on_meta(name)
    dense = counted(model, inputs)
    everything = Where(module=tuple(sorted({site.kind for site in family_of(model).sites(model)})))
    for where, reuse in ((None, None), (everything, "stage")):
        with torch.no_grad(), bigain.compress(model, "gated_merge(ratio=0.7)", where=where, reuse=reuse) as handle:
            compressed = counted(model, inputs)
            status = handle.status()
        assert status.flops_before - status.flops_after == dense - compressed
