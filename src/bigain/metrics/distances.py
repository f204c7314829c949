"""Distances of generated to real images, named by their features, with the floor at the same n."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from bigain.metrics.frechet import frechet_distance, frechet_spread
from bigain.metrics.kernel import kernel_distance

Kind = Literal["FD", "KD"]
INCEPTION = "inception-2015"  # the only features whose distances are called FID and KID
CUSTOMARY = {"FD": "FID", "KD": "KID"}
DECIMALS = {"FD": 1, "KD": 4}


class Distance(NamedTuple):
    """How far generated images are from real ones in the features of one network."""

    value: float
    floor: float  # the same distance for n real images that are not in the reference
    n: int
    reference: str  # which real images, and how many
    features: str  # the network, such as "fashion"
    kind: Kind
    error: float  # standard error of the value over generated images; see `frechet_spread`, `kernel_distance`
    parts: tuple[float, ...]  # the same distance for random halves (FD) or blocks (KD) of the generated images

    @property
    def name(self) -> str:
        return CUSTOMARY[self.kind] if self.features == INCEPTION else f"{self.kind}-{self.features}"

    def __str__(self) -> str:
        value, floor = (f"{number:.{DECIMALS[self.kind]}f}" for number in (self.value, self.floor))
        return f"{self.name} {value} (real against real at n = {self.n}: {floor})"


class Difference(NamedTuple):
    """Of two distances, with its standard error."""

    value: float
    error: float


def difference(a: Distance, b: Distance) -> Difference:
    """`a` less `b`, of images that were made from the same seeds in the same order.

    The same halves or blocks were taken of both, so that what the images of one seed share does not count as error.
    """
    if (a.name, a.reference, len(a.parts)) != (b.name, b.reference, len(b.parts)):
        raise ValueError(
            f"distances must be of one kind and to one reference, got {a}, {b} ({a.reference}, {b.reference})"
        )
    spread = np.subtract(a.parts, b.parts).std(ddof=1)
    return Difference(a.value - b.value, float(spread if a.kind == "FD" else spread / np.sqrt(len(a.parts))))


class RealSplit(NamedTuple):
    """Real features, cut in two: as many as are generated, (n, d), and the others, (m, d)."""

    held_out: np.ndarray
    reference: np.ndarray


def split_real(real: np.ndarray, n: int, seed: int = 0) -> RealSplit:
    """n real images chosen by the seed, and the rest: (n + m, d) -> (n, d), (m, d)."""
    if not 2 <= n <= len(real) // 2:
        raise ValueError(
            f"real against real at n = {n} needs n of 2 or more and twice as many real images; "
            f"got {len(real)}: generate at most {len(real) // 2} images or give more real ones"
        )
    order = np.random.default_rng(seed).permutation(len(real))
    return RealSplit(real[order[:n]], real[order[n:]])


def real_against_real(
    real: np.ndarray, n: int, distance: Callable[[np.ndarray, np.ndarray], float] = frechet_distance, seed: int = 0
) -> float:
    """The distance of n real images to the rest of them: what perfect images would get."""
    held_out, rest = split_real(real, n, seed)
    return distance(held_out, rest)


def frechet_to_real(generated: np.ndarray, real: np.ndarray, *, features: str, source: str, seed: int = 0) -> Distance:
    """Fréchet distance to the real images that `real_against_real` compares with too: (n, d), (n + m, d).

    Value and floor differ in nothing but the n images, since the reference is the same. `features` names the network
    and `source` the real images.
    """
    reference = split_real(real, len(generated), seed).reference
    spread = frechet_spread(generated, reference, seed=seed)
    return Distance(
        value=frechet_distance(generated, reference),
        floor=real_against_real(real, len(generated), frechet_distance, seed),
        n=len(generated),
        reference=f"{len(reference)} of {source}",
        features=features,
        kind="FD",
        error=spread.error,
        parts=spread.halves,
    )


def kernel_to_real(generated: np.ndarray, real: np.ndarray, *, features: str, source: str, seed: int = 0) -> Distance:
    """Kernel distance to the real images that `real_against_real` compares with too: (n, d), (n + m, d)."""
    reference = split_real(real, len(generated), seed).reference
    found = kernel_distance(generated, reference, seed=seed)
    return Distance(
        value=found.value,
        floor=real_against_real(real, len(generated), lambda a, b: kernel_distance(a, b, seed=seed).value, seed),
        n=len(generated),
        reference=f"{len(reference)} of {source}",
        features=features,
        kind="KD",
        error=found.error,
        parts=found.blocks,
    )
