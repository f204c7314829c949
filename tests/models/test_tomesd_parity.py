"""`tome(pattern="corner")` is tomesd without its randomness."""

import pytest
import tomesd
import torch

import bigain
from bigain import Where
from helpers.models import BACKBONES, run

SD = BACKBONES["sd"]
SEED = 20  # no two similarities here are so close that rounding decides between them
RATIOS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75]


@pytest.fixture(scope="module")
def unet():
    return SD.build()


def by_tomesd(unet, ratio, **options):
    tomesd.apply_patch(unet, ratio=ratio, use_rand=False, **options)
    try:
        return run(SD, unet, seed=SEED)
    finally:
        tomesd.remove_patch(unet)


def corner(ratio, window=2):
    return bigain.ToMe(ratio, window=window, pattern="corner")


def close(a, b):
    torch.testing.assert_close(a, b, atol=1e-5, rtol=0)


@pytest.mark.parametrize("ratio", RATIOS)
def test_self_attention(unet, ratio):
    dense, expected = run(SD, unet, seed=SEED), by_tomesd(unet, ratio)
    assert not torch.allclose(expected, dense, atol=1e-4)
    with bigain.compress(unet, corner(ratio)):
        close(run(SD, unet, seed=SEED), expected)


@pytest.mark.parametrize("ratio", RATIOS)
def test_cross_attention_and_mlp(unet, ratio):
    expected = by_tomesd(unet, ratio, merge_crossattn=True, merge_mlp=True)
    with bigain.compress(unet, corner(ratio), where=Where(module=("self", "cross", "mlp"))):
        close(run(SD, unet, seed=SEED), expected)


@pytest.mark.parametrize(
    ("options", "module"),
    [
        ({"merge_crossattn": True}, ("self", "cross")),
        ({"merge_mlp": True}, ("self", "mlp")),
        ({"merge_attn": False, "merge_mlp": True}, "mlp"),
        ({"merge_attn": False, "merge_crossattn": True}, "cross"),
    ],
)
def test_other_modules(unet, options, module):
    expected = by_tomesd(unet, 0.5, **options)
    with bigain.compress(unet, corner(0.5), where=Where(module=module)):
        close(run(SD, unet, seed=SEED), expected)


def test_coarser_levels(unet):
    expected = by_tomesd(unet, 0.5, max_downsample=2)
    with bigain.compress(unet, corner(0.5), where=Where(downsample=(1, 2))):
        close(run(SD, unet, seed=SEED), expected)


def test_larger_cells(unet):
    expected = by_tomesd(unet, 0.8, sx=4, sy=2)
    with bigain.compress(unet, corner(0.8, window=(2, 4))):
        close(run(SD, unet, seed=SEED), expected)
