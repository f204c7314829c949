import cmath

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bigain.metrics.spectra import ROUNDING, radial_spectrum, spectral_distance


def noise(seed: int, *shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def slow_spectrum(image: np.ndarray) -> dict[int, float]:
    """Every frequency by the sum that defines it; rings by rounding the distance from zero."""
    height, width = image.shape
    rings: dict[int, list[float]] = {}
    for u in range(height):
        for v in range(width):
            wave = sum(
                image[y, x] * cmath.exp(-2j * cmath.pi * (u * y / height + v * x / width))
                for y in range(height)
                for x in range(width)
            )
            fy, fx = (k / side if k <= side / 2 else k / side - 1 for k, side in ((u, height), (v, width)))
            ring = round((fy**2 + fx**2) ** 0.5 * min(height, width))
            rings.setdefault(ring, []).append(abs(wave) ** 2 / (height * width))
    return {ring: sum(powers) / len(powers) for ring, powers in sorted(rings.items())}


@pytest.mark.parametrize("size", [(6, 6), (5, 7), (8, 5)])
def test_the_spectrum_is_the_slow_one(size: tuple[int, int]) -> None:
    image = noise(0, 1, 1, *size)
    found, slow = radial_spectrum(image), slow_spectrum(image[0, 0].double().numpy())
    assert found.power == pytest.approx(list(slow.values()))
    assert found.frequency == pytest.approx(np.array(list(slow)) / min(size))


@given(st.integers(0, 10**6), st.integers(2, 20), st.integers(2, 20), st.sampled_from([1, 3]))
def test_parseval(seed: int, height: int, width: int, channels: int) -> None:
    images = noise(seed, 2, channels, height, width)
    found = radial_spectrum(images)
    assert found.sizes.sum() == height * width
    mean_square = float(images.double().square().mean())
    assert (found.power * found.sizes).sum() / (height * width) == pytest.approx(mean_square)


def test_white_noise_is_flat() -> None:
    """Within five standard errors: the power at a frequency is spread as much as it is large."""
    found = radial_spectrum(noise(0, 400, 1, 32, 32))
    assert (np.abs(3 * found.power - 1) < 5 * np.sqrt(2 / (400 * found.sizes))).all()


@pytest.mark.parametrize(("down", "across"), [(0, 3), (5, 0), (6, 8), (12, 9)])
def test_a_wave_peaks_at_its_frequency(down: int, across: int) -> None:
    y, x = torch.arange(32.0)[:, None], torch.arange(32.0)[None, :]
    wave = torch.cos(2 * torch.pi * (down * y + across * x) / 32)
    found = radial_spectrum(wave[None, None])
    peak = int(found.power.argmax())
    assert found.frequency[peak] == pytest.approx(round((down**2 + across**2) ** 0.5) / 32)
    others = np.delete(found.power, peak)
    assert others.max() < 1e-9 * found.power[peak]


@given(st.integers(0, 10**6))
def test_turning_and_moving_change_nothing(seed: int) -> None:
    images = noise(seed, 2, 1, 12, 12)
    here = radial_spectrum(images)
    for other in (images.rot90(1, (2, 3)), images.flip(3), images.roll((3, 5), (2, 3))):
        assert radial_spectrum(other).power == pytest.approx(here.power)
        assert spectral_distance(here, radial_spectrum(other)) == pytest.approx(0, abs=1e-9)


def test_half_the_contrast_is_six_decibels() -> None:
    images = noise(0, 8, 3, 16, 16)
    there = spectral_distance(radial_spectrum(images), radial_spectrum(images / 2))
    assert there == pytest.approx(20 * np.log10(2))


def test_blur_is_seen_and_more_blur_more() -> None:
    images = noise(0, 20, 1, 32, 32)
    sharp = radial_spectrum(images)
    means = [torch.nn.functional.avg_pool2d(images, k, 1, k // 2) for k in (3, 5)]
    once, twice = (spectral_distance(sharp, radial_spectrum(image)) for image in means)
    assert 0 < once < twice


def test_the_mean_of_the_images_does_not_count() -> None:
    images = noise(0, 4, 1, 16, 16) / 4
    assert spectral_distance(radial_spectrum(images), radial_spectrum(images + 0.5)) == pytest.approx(0, abs=1e-5)


def test_silence_is_the_rounding_of_8_bits() -> None:
    blank = radial_spectrum(torch.zeros(1, 1, 8, 8))
    assert blank.decibels == pytest.approx(np.full(len(blank.power), 10 * np.log10(ROUNDING)))


def test_sizes_match() -> None:
    with pytest.raises(ValueError, match="at one image size, got 64 and 256 pixels in 7 and 12 rings"):
        spectral_distance(radial_spectrum(noise(0, 1, 1, 8, 8)), radial_spectrum(noise(0, 1, 1, 16, 16)))
