from collections.abc import Callable

import numpy as np
import pytest

from bigain.metrics.distances import (
    Distance,
    Kind,
    difference,
    frechet_to_real,
    kernel_to_real,
    real_against_real,
    split_real,
)
from bigain.metrics.frechet import frechet_distance, frechet_spread
from bigain.metrics.kernel import kernel_distance


def features(n: int, shift: float = 0, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(shift, 1, size=(n, 6))


def test_a_split_takes_every_real_image_once() -> None:
    real = features(25)
    held_out, rest = split_real(real, 10, seed=4)
    assert (held_out.shape, rest.shape) == ((10, 6), (15, 6))
    together = np.concatenate([held_out, rest])
    assert sorted(together[:, 0]) == sorted(real[:, 0])
    assert np.array_equal(split_real(real, 10, seed=4).held_out, held_out)
    assert not np.array_equal(split_real(real, 10, seed=5).held_out, held_out)


def test_real_images_get_exactly_the_floor() -> None:
    """The held-out images in the place of generated ones: value and floor are one number."""
    real = features(100)
    stand_in = split_real(real, 40, seed=2).held_out
    for measure in (frechet_to_real, kernel_to_real):
        found = measure(stand_in, real, features="fashion", source="Fashion-MNIST test", seed=2)
        assert found.value == found.floor
        assert found.n == 40
        assert found.reference == "60 of Fashion-MNIST test"


def test_the_parts_are_the_distances_of_their_files() -> None:
    generated, real = features(50, 0.5, seed=1), features(200)
    rest = split_real(real, 50).reference
    fd = frechet_to_real(generated, real, features="fashion", source="test")
    assert fd.value == frechet_distance(generated, rest)
    assert fd.floor == real_against_real(real, 50) < fd.value
    assert (fd.error, fd.parts) == frechet_spread(generated, rest)[::2]
    kd = kernel_to_real(generated, real, features="fashion", source="test")
    assert (kd.value, kd.error, kd.parts) == kernel_distance(generated, rest)


@pytest.mark.parametrize(("measure", "near"), [(frechet_to_real, 0.35), (kernel_to_real, 0.35)])
def test_the_error_of_a_difference_is_that_of_repeated_sampling(measure: Callable[..., Distance], near: float) -> None:
    """Images of one seed are alike: the difference of their distances varies much less than the distances."""
    rng, real = np.random.default_rng(0), features(3000)
    found = []
    for _ in range(40):
        own = rng.normal(0.4, 1, size=(300, 6))
        a, b = (
            measure(x, real, features="fashion", source="test") for x in (own, own + rng.normal(0.05, 0.1, own.shape))
        )
        found.append((difference(b, a), a.error))
    values, errors = np.array([d.value for d, _ in found]), np.array([d.error for d, _ in found])
    assert np.mean(errors) == pytest.approx(values.std(ddof=1), rel=near)
    assert np.mean(errors) < 0.5 * np.mean([error for _, error in found])


def test_only_like_distances_compare() -> None:
    a = Distance(12.34, 4.5, 500, "1000 of test", "fashion", "FD", 0.4, (1.0, 2.0))
    assert difference(a, a) == (0, 0)
    for other in (a._replace(kind="KD"), a._replace(reference="900 of test"), a._replace(parts=(1.0,))):
        with pytest.raises(ValueError, match="distances must be of one kind and to one reference, got FD-fashion"):
            difference(a, other)


@pytest.mark.parametrize(
    ("network", "kind", "text"),
    [
        ("fashion", "FD", "FD-fashion 12.3 (real against real at n = 500: 4.5)"),
        ("inception-2015", "FD", "FID 12.3 (real against real at n = 500: 4.5)"),
        ("inception-v3-torchvision", "FD", "FD-inception-v3-torchvision 12.3 (real against real at n = 500: 4.5)"),
        ("fashion", "KD", "KD-fashion 12.3400 (real against real at n = 500: 4.5000)"),
        ("inception-2015", "KD", "KID 12.3400 (real against real at n = 500: 4.5000)"),
    ],
)
def test_only_the_network_of_2015_gives_fid(network: str, kind: Kind, text: str) -> None:
    assert str(Distance(12.34, 4.5, 500, "1000 of test", network, kind, 0.4, ())) == text


def test_too_few_real_images() -> None:
    with pytest.raises(ValueError, match=r"at n = 60 .* got 100: generate at most 50 images or give more real ones"):
        frechet_to_real(features(60), features(100), features="fashion", source="test")
