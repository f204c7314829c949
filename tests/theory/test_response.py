"""Frequency responses: of an ideal low-pass, of IE-KVD by brute force and in closed form, of merges by regression."""

import math

import pytest
import torch
from torch import Tensor

from bigain.operators.base import Call, parse
from bigain.theory.bands import frequencies, rings
from bigain.theory.response import exact_response, powers, there_and_back
from bigain.tokens.grid import Grid
from bigain.tokens.plans import Plan
from bigain.tokens.scores import as_maps

CPU = torch.device("cpu")
GRID, BANDS = Grid(8, 8), 3


def plan(operator: str, grid: Grid = GRID, x: Tensor | None = None) -> Plan:
    return parse(operator).plan(torch.zeros(1, grid.tokens, 1) if x is None else x, Call(grid))


def gains(found: Tensor) -> Tensor:
    return found[:, 1] / found[:, 0]


def test_an_ideal_low_pass() -> None:
    """What passes has gain 1, the rest 0, whatever the signal is."""
    x = torch.randn(4, 3, 16, 16, dtype=torch.float64)
    keeps = rings(Grid(16, 16), 5, 1, CPU)[:, :2].sum(1).view(16, 16)
    y = torch.fft.ifft2(torch.fft.fft2(x) * keeps).real
    found = powers(x, y, 5)
    assert gains(found).tolist() == pytest.approx([1, 1, 0, 0, 0], abs=1e-12)
    assert (found[:, 2] / found[:, 0]).tolist() == pytest.approx([1, 1, 0, 0, 0], abs=1e-12)


def test_an_amplifier_by_band() -> None:
    x = torch.randn(2, 1, 8, 8, dtype=torch.float64)
    gain = rings(GRID, BANDS, 1, CPU) @ torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64)
    y = torch.fft.ifft2(torch.fft.fft2(x) * gain.view(8, 8)).real
    assert gains(powers(x, y, BANDS)).tolist() == pytest.approx([1, 0.5, 2])


def matrix(operator: str, grid: Grid) -> Tensor:
    """The map from tokens to their cells' keys, written down token by token: (N, N)."""
    made = parse(operator)
    s, alpha = made.factor, {"todo": 1.0, "avg_pool": 0.0}.get(operator.partition("(")[0], getattr(made, "alpha", None))
    found = torch.zeros(grid.tokens, grid.tokens, dtype=torch.float64)
    for y in range(grid.height):
        for x in range(grid.width):
            top, left = s * (y // s), s * (x // s)
            row = y * grid.width + x
            for a in range(s):
                for b in range(s):
                    found[row, (top + a) * grid.width + left + b] += (1 - alpha) / s**2
            found[row, (top + s // 2) * grid.width + left + s // 2] += alpha
    return found


@pytest.mark.parametrize("operator", ["todo(factor=2)", "avg_pool(factor=2)", "todo(factor=4)", "avg_pool(factor=4)",
                                      "kv_downsample(factor=2, alpha=0.3)"])  # fmt: skip
def test_ie_kvd_by_brute_force(operator: str) -> None:
    """The diagonal of F P F*, with P written down token by token and F as a full matrix."""
    one = torch.fft.fft(torch.eye(8, dtype=torch.complex128), norm="ortho")
    fourier = torch.kron(one, one)
    spectrum = fourier @ matrix(operator, GRID).to(torch.complex128) @ fourier.conj().T
    ring, diagonal = rings(GRID, BANDS, 1, CPU), spectrum.diagonal()
    gain, aliased = exact_response(plan(operator), BANDS)
    assert gain.tolist() == pytest.approx(((diagonal.real @ ring) / ring.sum(0)).tolist())
    kept = (diagonal.abs() ** 2 @ ring) / ((spectrum.abs() ** 2).sum(0) @ ring)
    assert aliased.tolist() == pytest.approx((1 - kept).tolist())


@pytest.mark.parametrize(("alpha", "operator"), [(0.0, "avg_pool(factor=4)"), (1.0, "todo(factor=4)")])
def test_ie_kvd_in_closed_form(alpha: float, operator: str) -> None:
    """H(w) = b(w) (alpha exp(i w o) + (1 − alpha) conj(b(w))), b the mean of exp(−i w j) over a cell and o = 2."""
    expected = []
    for u in range(8):
        for v in range(8):
            box, near = 1 + 0j, 1 + 0j
            for w in (2 * math.pi * u / 8, 2 * math.pi * v / 8):
                box *= sum(complex(math.cos(w * j), -math.sin(w * j)) for j in range(4)) / 4
                near *= complex(math.cos(2 * w), math.sin(2 * w))
            expected.append((box * (alpha * near + (1 - alpha) * box.conjugate())).real)
    ring = rings(GRID, BANDS, 1, CPU)
    found = exact_response(plan(operator), BANDS)[0]
    assert found.tolist() == pytest.approx(((torch.tensor(expected).double() @ ring) / ring.sum(0)).tolist())


def test_at_factor_two_alpha_changes_aliases_only() -> None:
    """Whatever alpha is, the same part of each wave comes back as itself; the nearest token brings more aliases."""
    (average, a), (nearest, b) = (exact_response(plan(f"{name}(factor=2)"), BANDS) for name in ("avg_pool", "todo"))
    assert average.tolist() == pytest.approx(nearest.tolist())
    assert (b[1:] > a[1:]).all()


def test_regression_on_white_tokens_is_the_exact_response() -> None:
    x = torch.randn(1, GRID.tokens, 60_000, generator=torch.Generator().manual_seed(0))
    made = plan("kv_downsample(factor=2, alpha=0.7)")
    back = there_and_back(made, x)
    assert back is not None
    found = gains(powers(as_maps(x, GRID), as_maps(back, GRID), BANDS))
    assert found.tolist() == pytest.approx(exact_response(made, BANDS)[0].tolist(), abs=0.01)


def test_cells_that_do_not_divide_the_grid() -> None:
    """Each token gets the key of its cell; a constant field comes back."""
    grid = Grid(7, 5)
    back = there_and_back(plan("avg_pool(factor=2)", grid), torch.ones(1, 35, 1))
    assert back is not None
    assert back.flatten().tolist() == pytest.approx([1] * 35)
    gain, aliased = exact_response(plan("avg_pool(factor=2)", grid), 2)
    assert 0 < gain[1] < gain[0] <= 1 + 1e-9
    assert ((aliased >= -1e-9) & (aliased < 1)).all()


def test_merging_is_a_projection() -> None:
    """Means of groups: what comes back has as much power as it has in common with the tokens, in all bands together."""
    x = torch.randn(2, GRID.tokens, 5, dtype=torch.float64)
    made = plan("gated_merge(ratio=0.5)", x=x)
    back = there_and_back(made, x)
    assert back is not None
    found = powers(as_maps(x, GRID), as_maps(back, GRID), BANDS)
    assert found[:, 1].sum() == pytest.approx(float(found[:, 2].sum()))
    assert 0 < found[:, 1].sum() < found[:, 0].sum()


def test_whole_tiles_are_a_low_pass() -> None:
    """Averaging all 2x2 cells is what average pooling spreads over them."""
    x = torch.randn(1, GRID.tokens, 3, dtype=torch.float64)
    merged, pooled = (there_and_back(plan(text, x=x), x) for text in ("block_merge(ratio=0.75)", "avg_pool(factor=2)"))
    assert merged is not None
    assert pooled is not None
    torch.testing.assert_close(merged, pooled)


def test_selected_keys_have_no_response() -> None:
    x = torch.randn(1, GRID.tokens, 3)
    assert there_and_back(plan("kv_select(keep=0.5)", x=x), x) is None


def test_frequencies_are_counted() -> None:
    assert frequencies(GRID, BANDS).sum() == 64
