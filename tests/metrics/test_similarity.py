import numpy as np
import pytest
import torch
from torchmetrics.functional.image import peak_signal_noise_ratio
from torchmetrics.image import StructuralSimilarityIndexMeasure

from bigain.metrics.similarity import psnr, ssim


def pair(channels: int = 3, height: int = 24, width: int = 31, noise: float = 0.1) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shape = (4, channels, height, width)
    a = torch.rand(shape, generator=generator) * 2 - 1
    return a, (a + noise * torch.randn(shape, generator=generator)).clamp(-1, 1)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("noise", [0.02, 0.3])
def test_ssim_is_torchmetrics(channels: int, noise: float) -> None:
    a, b = pair(channels, noise=noise)
    metric = StructuralSimilarityIndexMeasure(data_range=2.0, reduction="none").set_dtype(torch.float64)
    assert ssim(a, b) == pytest.approx(metric(a.double(), b.double()).numpy(), abs=1e-6)


def test_ssim_is_the_formula_place_by_place() -> None:
    a, b = (x[:1].double() for x in pair(1, 8, 9))
    bell = np.exp(-(np.arange(-5, 6) ** 2) / (2 * 1.5**2))
    weights = np.outer(bell, bell) / np.outer(bell, bell).sum()
    padded = [np.pad(image.numpy()[0, 0], 5, mode="reflect") for image in (a, b)]
    c1, c2 = 0.02**2, 0.06**2
    values = []
    for row, column in np.ndindex(8, 9):
        x, y = (image[row : row + 11, column : column + 11] for image in padded)
        mx, my = (weights * x).sum(), (weights * y).sum()
        vx, vy = (weights * (x - mx) ** 2).sum(), (weights * (y - my) ** 2).sum()
        cov = (weights * (x - mx) * (y - my)).sum()
        values.append((2 * mx * my + c1) * (2 * cov + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2)))
    assert ssim(a, b) == pytest.approx([np.mean(values)])


def test_psnr_is_torchmetrics() -> None:
    a, b = pair()
    theirs = [float(peak_signal_noise_ratio(x, y, data_range=2.0)) for x, y in zip(a, b, strict=True)]
    assert psnr(a, b) == pytest.approx(theirs, rel=1e-5)


def test_equal_images() -> None:
    a, _ = pair()
    assert ssim(a, a) == pytest.approx(np.ones(4))
    assert np.isinf(psnr(a, a)).all()


def test_more_noise_is_less_like() -> None:
    for measure in (psnr, ssim):
        values = np.stack([measure(*pair(noise=noise)) for noise in (0.01, 0.1, 0.5)])
        assert (np.diff(values, axis=0) < 0).all()


def test_images_are_judged_one_by_one() -> None:
    a, b = pair()
    for measure in (psnr, ssim):
        assert measure(a, b) == pytest.approx(np.concatenate([measure(a[i : i + 1], b[i : i + 1]) for i in range(4)]))


def test_half_precision_may_exceed_a_little() -> None:
    a, b = pair()
    assert ssim((a.half() * 1.0005), b) == pytest.approx(ssim(a, b), abs=1e-2)


def test_errors_say_what_came() -> None:
    a, b = pair()
    with pytest.raises(ValueError, match=r"got \(4, 3, 24, 31\) and \(3, 3, 24, 31\)"):
        psnr(a, b[:3])
    with pytest.raises(ValueError, match=r"in \[-1, 1\], got values from .* to 2"):
        psnr(a + 1, b)
    with pytest.raises(ValueError, match=r"got values from nan"):
        psnr(a * torch.nan, b)
    with pytest.raises(ValueError, match=r"floating-point .* got torch.uint8 \(4, 3, 24, 31\)"):
        ssim(a.byte(), b.byte())
    with pytest.raises(ValueError, match="needs images of 6 pixels a side or more; got 24 x 5"):
        ssim(a[..., :5], b[..., :5])
