import pytest
import torch

from bigain.tokens.grid import Grid
from bigain.tokens.scores import SCORERS, as_maps, laplacian, spectrum
from helpers import references
from helpers.references import random_tokens

GRIDS = [Grid(4, 4), Grid(6, 8), Grid(7, 5), Grid(1, 9), Grid(9, 1), Grid(1, 1)]
EDGED = ("laplacian_l1", "laplacian_l2")
SHAPED_BY_NEIGHBOURS = (*EDGED, "laplacian_l1_replicate", "laplacian_l2_replicate", "neighbour_cosine")


def test_every_scorer_has_a_reference():
    assert set(SCORERS) == set(references.SCORES)


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("channels", [1, 4, 5])
@pytest.mark.parametrize("name", SCORERS)
def test_scorer_equals_its_reference(name, channels, grid):
    x = random_tokens(*grid, rows=2, channels=channels, seed=channels)
    score = SCORERS[name](x, grid)
    assert score.shape == (2, grid.tokens)
    assert score.dtype == torch.float32
    torch.testing.assert_close(score.double(), references.score(name, x, *grid), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", SCORERS)
def test_scorer_is_finite_on_zeros(name):
    grid = Grid(4, 5)
    score = SCORERS[name](torch.zeros(2, grid.tokens, 6), grid)
    assert torch.equal(score, torch.zeros(2, grid.tokens))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", SCORERS)
def test_scorer_answers_in_float32_and_near_it(name, dtype):
    grid = Grid(6, 5)
    x = random_tokens(*grid, channels=8).to(dtype)
    score = SCORERS[name](x, grid)
    assert score.dtype == torch.float32
    torch.testing.assert_close(score, SCORERS[name](x.float(), grid), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("name", SCORERS)
def test_scorer_keeps_rows_apart(name):
    grid = Grid(5, 6)
    x = random_tokens(*grid, rows=3)
    alone = torch.cat([SCORERS[name](row[None], grid) for row in x])
    torch.testing.assert_close(SCORERS[name](x, grid), alone, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", SCORERS)
def test_scorer_reads_strided_tokens(name):
    grid = Grid(5, 6)
    x = random_tokens(*grid)
    strided = x.transpose(1, 2).contiguous().transpose(1, 2)
    assert not strided.is_contiguous()
    torch.testing.assert_close(SCORERS[name](strided, grid), SCORERS[name](x, grid), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", SCORERS)
def test_scorer_needs_no_data_for_its_shape(name):
    grid = Grid(5, 6)
    score = SCORERS[name](torch.empty(2, grid.tokens, 4, device="meta"), grid)
    assert score.shape == (2, grid.tokens)
    assert score.device.type == "meta"


@pytest.mark.parametrize("name", sorted(set(SCORERS) - set(SHAPED_BY_NEIGHBOURS)))
def test_scorer_without_neighbours_follows_a_shuffle(name):
    grid = Grid(4, 5)
    x = random_tokens(*grid)
    order = torch.randperm(grid.tokens, generator=torch.Generator().manual_seed(1))
    shuffled = SCORERS[name](x[:, order], grid)
    torch.testing.assert_close(shuffled, SCORERS[name](x, grid)[:, order], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", SHAPED_BY_NEIGHBOURS)
def test_scorer_with_neighbours_follows_a_flip(name):
    grid = Grid(5, 6)
    x = random_tokens(*grid).unflatten(1, grid)
    for axis in (1, 2):
        flipped = SCORERS[name](x.flip(axis).flatten(1, 2), grid).unflatten(1, grid)
        straight = SCORERS[name](x.flatten(1, 2), grid).unflatten(1, grid)
        torch.testing.assert_close(flipped, straight.flip(axis), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("value", [3.0, -2.0])
@pytest.mark.parametrize("name", EDGED)
def test_zero_padding_makes_borders_of_a_constant_detailed(name, value):
    grid = Grid(5, 6)
    score = SCORERS[name](torch.full((1, grid.tokens, 4), value), grid).view(*grid)
    outside = torch.zeros(*grid)
    outside[0] += 1
    outside[-1] += 1
    outside[:, 0] += 1
    outside[:, -1] += 1
    assert score[0, 0] == 2 * abs(value)
    assert score[0, 2] == abs(value)
    assert torch.equal(score, outside * abs(value))


@pytest.mark.parametrize("name", ["laplacian_l1_replicate", "laplacian_l2_replicate"])
def test_replicate_padding_sees_nothing_in_a_constant(name):
    grid = Grid(5, 6)
    score = SCORERS[name](torch.full((1, grid.tokens, 4), 7.0), grid)
    assert torch.equal(score, torch.zeros(1, grid.tokens))


@pytest.mark.parametrize("name", [name for name in SCORERS if name.startswith("laplacian")])
def test_laplacian_of_a_ramp_is_zero_inside(name):
    grid = Grid(6, 7)
    row, column = torch.meshgrid(torch.arange(6.0), torch.arange(7.0), indexing="ij")
    x = torch.stack([2 * row - 3 * column + 1, row + column], -1).view(1, grid.tokens, 2)
    score = SCORERS[name](x, grid).view(*grid)
    assert torch.equal(score[1:-1, 1:-1], torch.zeros(4, 5))
    assert score[0].max() > 0


def test_laplacian_of_a_point():
    grid = Grid(5, 5)
    x = torch.zeros(1, grid.tokens, 1)
    x[0, 12] = 1
    expected = torch.zeros(5, 5)
    expected[2, 2] = -4
    expected[1, 2] = expected[3, 2] = expected[2, 1] = expected[2, 3] = 1
    assert torch.equal(laplacian(x, grid)[0, 0], expected)


def test_as_maps_puts_tokens_row_by_row():
    grid = Grid(2, 3)
    maps = as_maps(torch.arange(12.0).view(1, 6, 2), grid)
    assert maps.shape == (1, 2, 2, 3)
    assert maps[0, 0].tolist() == [[0, 2, 4], [6, 8, 10]]


@pytest.mark.parametrize("channels", [1, 2, 5, 8])
def test_spectrum_is_that_of_the_full_transform(channels):
    x = random_tokens(3, 4, channels=channels)
    torch.testing.assert_close(spectrum(x), torch.fft.fft(x).abs(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("channels", [4, 5, 16])
def test_dft_centroid_is_the_share_outside_the_mean(channels):
    grid = Grid(4, 5)
    x = random_tokens(*grid, channels=channels)
    amplitude = torch.fft.fft(x.double()).abs()
    closed = 1 + channels / 2 * (1 - amplitude[..., 0] / amplitude.sum(-1))
    torch.testing.assert_close(SCORERS["dft_centroid"](x, grid).double(), closed, rtol=1e-5, atol=1e-5)


def test_dft_of_constant_channels_is_the_first_bin():
    grid = Grid(3, 3)
    x = torch.full((1, 9, 8), 2.0)
    torch.testing.assert_close(SCORERS["dft_centroid"](x, grid), torch.ones(1, 9))
    torch.testing.assert_close(SCORERS["dft_amplitude"](x, grid), torch.full((1, 9), 16.0))


@pytest.mark.parametrize("name", SCORERS)
def test_an_outlier_scores_highest(name):
    """A long token with alternating channels, among short ones that all look the same."""
    grid = Grid(7, 7)
    x = 1 + 0.01 * random_tokens(*grid, rows=1, channels=6)
    x[0, 24] = torch.tensor([10.0, -10.0, 10.0, -10.0, 10.0, -10.0])
    assert SCORERS[name](x, grid).argmax() == 24


@pytest.mark.parametrize("name", ["neighbour_cosine", "mean_cosine"])
def test_cosine_scores_run_from_minus_one_to_one(name):
    grid = Grid(4, 4)
    alike = SCORERS[name](torch.full((1, 16, 3), 2.0), grid)
    torch.testing.assert_close(alike, -torch.ones(1, 16))
    odd = torch.full((1, 16, 3), 2.0)
    odd[0, 5] *= -1
    torch.testing.assert_close(SCORERS[name](odd, grid)[0, 5], torch.tensor(1.0))
