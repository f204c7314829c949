"""Bands of a token grid: rings of a slow Fourier transform, whose powers sum to the error."""

import cmath
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bigain.theory.bands import band_edges, band_errors, band_powers, by_patch, check_bands, frequencies, rings
from bigain.tokens.grid import Grid

CPU = torch.device("cpu")


def slow_powers(a: list[list[float]], b: list[list[float]], count: int) -> list[float]:
    """Σ Re conj(A) B by ring, one frequency at a time."""
    height, width = len(a), len(a[0])
    found = [0.0] * count
    for u in range(height):
        for v in range(width):
            waves = [[cmath.exp(-2j * math.pi * (u * y / height + v * x / width)) for x in range(width)]
                     for y in range(height)]  # fmt: skip
            one, other = (
                sum(m[y][x] * waves[y][x] for y in range(height) for x in range(width)) / math.sqrt(height * width)
                for m in (a, b)
            )
            radius = math.hypot(min(u, height - u) / height, min(v, width - v) / width)
            found[min(count - 1, int(radius / (0.5 / (count - 1)) + 1e-9))] += (one.conjugate() * other).real
    return found


@pytest.mark.parametrize(("height", "width", "count"), [(6, 6, 3), (5, 8, 3), (8, 8, 5)])
def test_powers_are_those_of_a_slow_transform(height: int, width: int, count: int) -> None:
    a, b = torch.randn(2, height, width, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = slow_powers(a.tolist(), b.tolist(), count)
    assert band_powers(a[None], b[None], count).tolist() == pytest.approx(expected)


@settings(deadline=None)
@given(st.integers(2, 9), st.integers(2, 9), st.integers(2, 4), st.integers(0, 99))
def test_bands_sum_to_the_mean_square(height: int, width: int, count: int, seed: int) -> None:
    residuals = torch.randn(3, 2, height, width, generator=torch.Generator().manual_seed(seed))
    expected = residuals.double().square().mean((1, 2, 3))
    torch.testing.assert_close(band_errors(residuals, count).sum(1), expected, rtol=1e-12, atol=0)


def test_patches_keep_the_error() -> None:
    residuals = torch.randn(2, 3, 8, 8)
    maps = by_patch(residuals, 2)
    assert maps.shape == (2, 12, 4, 4)
    torch.testing.assert_close(band_errors(residuals, 3, patch=2).sum(1), residuals.double().square().mean((1, 2, 3)))
    assert maps[0, :4, 1, 2].tolist() == residuals[0, 0, 2:4, 4:6].flatten().tolist()


def test_a_wave_is_in_its_band() -> None:
    column = torch.arange(16, dtype=torch.float64)
    for cycles, band in ((0, 0), (1, 0), (2, 1), (5, 2), (7, 3), (8, 4)):
        wave = torch.cos(2 * math.pi * cycles * column / 16).expand(1, 16, 16)
        powers = band_powers(wave, wave, 5)
        assert powers.argmax() == band
        assert powers[band] == pytest.approx(float(wave.square().sum()))


def test_every_frequency_is_in_one_band_and_every_band_has_some() -> None:
    for side in (4, 7, 16):
        for count in range(2, side // 2 + 2):
            check_bands(count, Grid(side, side))
            assert frequencies(Grid(side, side), count).sum() == side**2
            assert frequencies(Grid(side, side), count).min() > 0
    assert band_edges(5) == [0, 0.125, 0.25, 0.375, 0.5]


def test_a_coarser_grid_has_the_lower_bands() -> None:
    """A wave of two coarse tokens is one of four fine ones."""
    fine, coarse = (rings(Grid(side, side), 5, 16 // side, CPU).sum(0) for side in (16, 8))
    assert coarse[3] + coarse[4] == 0
    assert (coarse <= fine).all()


@pytest.mark.parametrize("count", [1, 10])
def test_a_band_without_frequencies_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match=f"bands must be from 2 to 9 on a grid of 16x16 tokens, got {count}"):
        check_bands(count, Grid(16, 16))
