"""Measurements of generated images as a typed object; records hold it as JSON, which is only read here."""

import math
from dataclasses import dataclass, field
from typing import Any

from bigain.metrics.distances import Distance
from bigain.metrics.intervals import Estimate, Share


@dataclass(frozen=True)
class Spectra:
    """Power spectra of generated and real images, in decibels, and their distance."""

    frequency: tuple[float, ...]
    decibels: tuple[float, ...]
    real: tuple[float, ...]
    distance: float


@dataclass(frozen=True)
class Samples:
    """Measurements of a setting's generated images; None means not measured."""

    n: int
    distances: dict[str, Distance] = field(default_factory=dict)  # to real images, by name
    recognised: Share | None = None  # given the intended class by the feature network
    spectra: Spectra | None = None
    ssim: Estimate | None = None  # to the uncompressed images of the same seeds
    psnr: float | None = None  # the same, median in decibels

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"n": self.n, **{name: value._asdict() for name, value in self.distances.items()}}
        if self.recognised is not None:
            found["recognised"] = {**self.recognised._asdict(), "value": self.recognised.value}
        if self.spectra is not None:
            spectra = self.spectra
            found["spectrum"] = {"frequency": list(spectra.frequency), "decibels": list(spectra.decibels)}
            found |= {"spectral_distance": spectra.distance, "real_spectrum": list(spectra.real)}
        if self.ssim is not None:
            found["ssim"] = self.ssim._asdict()
        if self.psnr is not None:
            found["psnr"] = self.psnr
        return found

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> "Samples":
        share, spectrum = found.get("recognised"), found.get("spectrum")
        return cls(
            n=found["n"],
            distances={name: Distance(**value) for name, value in found.items() if is_distance(value)},
            recognised=share and Share(share["hits"], share["n"], share["low"], share["high"]),
            spectra=spectrum
            and Spectra(
                tuple(spectrum["frequency"]),
                tuple(spectrum["decibels"]),
                tuple(found["real_spectrum"]),
                found["spectral_distance"],
            ),
            ssim=Estimate(**found["ssim"]) if found.get("ssim") else None,
            psnr=found.get("psnr"),
        )

    def not_finite(self) -> str | None:
        """The first measure that is not finite, or None."""
        numbers: dict[str, tuple[float, ...]] = {name: (d.value, d.error) for name, d in self.distances.items()}
        numbers |= {"ssim": (self.ssim.value,)} if self.ssim else {}
        return next((name for name, values in numbers.items() if not all(map(is_finite, values))), None)


def is_distance(value: Any) -> bool:
    return isinstance(value, dict) and "floor" in value


def is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
