"""The frequency response of plans: exact where a plan is one linear map, by regression on the tokens elsewhere."""

import torch
from torch import Tensor

from bigain.theory.bands import band_powers, rings
from bigain.tokens.plans import Plan, Pooled

AT_ONCE = 256  # frequencies whose waves are held in memory


def there_and_back(plan: Plan, x: Tensor) -> Tensor | None:
    """What is left of tokens: merged and unmerged, or keys spread over their cells: (B, N, C) -> (B, N, C).

    None where a plan keeps no token for each place, as where keys are selected.
    """
    keys = plan.context(x)
    if keys is None:
        return plan.unmerge(plan.queries(x))
    return keys.index_select(1, cells(plan, x.device)) if isinstance(plan, Pooled) else None


def cells(plan: Pooled, device: torch.device) -> Tensor:
    """The key whose cell each token lies in: () -> (N,)."""
    rows, columns = (
        torch.arange(fine, device=device) * coarse // fine for fine, coarse in zip(plan.grid, plan.coarse, strict=True)
    )
    return (rows[:, None] * plan.coarse.width + columns).flatten()


def powers(x: Tensor, y: Tensor, count: int, spacing: int = 1) -> Tensor:
    """Σ|x|², Σ x·y and Σ|y|², ring by ring, summed over maps: (..., C, H, W) twice -> (K, 3)."""
    pairs = ((x, x), (x, y), (y, y))
    return torch.stack([band_powers(a, b, count, spacing).reshape(-1, count).sum(0) for a, b in pairs], -1)


def exact_response(plan: Pooled, count: int) -> tuple[Tensor, Tensor]:
    """The response of pooled keys spread over their cells, ring by ring: -> gain (K,), aliased share of power (K,).

    The map P is linear but keeps no frequency for itself: a wave comes back as itself, times H(k), and as aliases. The
    gain is the mean of Re H(k), which is what a regression on stationary tokens finds.
    """
    grid = plan.grid
    waves = torch.eye(grid.tokens, dtype=torch.complex128).view(grid.tokens, *grid)
    gains, totals = [], []
    for own in waves.split(AT_ONCE):
        wave = torch.fft.ifft2(own, norm="ortho").flatten(1).T[None]  # (1, N, k)
        back = torch.complex(_applied(plan, wave.real), _applied(plan, wave.imag))
        gains.append((wave.conj() * back).sum((0, 1)))
        totals.append(back.abs().square().sum((0, 1)))
    gain, total = torch.cat(gains), torch.cat(totals)
    ring = rings(grid, count, 1, torch.device("cpu"))
    kept = (gain.abs().square() @ ring) / (total @ ring).clamp_min(1e-300)
    return (gain.real @ ring) / ring.sum(0), 1 - kept


def _applied(plan: Pooled, x: Tensor) -> Tensor:
    back = there_and_back(plan, x)
    assert back is not None  # pooled keys have cells
    return back
