import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bigain.tokens.draws import MASK, draw_bits, draw_normal, mix

COUNT = 20_000


def number(call):
    return torch.tensor(call, dtype=torch.int64)


def chi_square(values, bins):
    counts = torch.bincount(values, minlength=bins).double()
    expected = len(values) / bins
    return ((counts - expected) ** 2 / expected).sum().item()


def correlation(a, b):
    return torch.corrcoef(torch.stack([a.double(), b.double()]))[0, 1].item()


@pytest.mark.parametrize("bins", [2, 3, 4, 9, 16, 64])
@pytest.mark.parametrize(("seed", "call", "site"), [(0, 0, 0), (0, 7, 3), (5, 0, 1), (2**31 - 1, 10**6, 40)])
def test_remainders_are_uniform(seed, call, site, bins):
    values = draw_bits(seed, number(call), site, COUNT) % bins
    freedom = bins - 1
    assert chi_square(values, bins) < freedom + 6 * (2 * freedom) ** 0.5


@pytest.mark.parametrize("bit", range(0, 32, 3))
def test_every_bit_is_fair(bit):
    ones = (draw_bits(3, number(2), 1, COUNT) >> bit & 1).double().mean().item()
    assert ones == pytest.approx(0.5, abs=0.025)


@pytest.mark.parametrize("axis", ["seed", "call", "site"])
def test_one_position_is_uniform_over_calls_sites_and_seeds(axis):
    base = {"seed": 1, "call": 2, "site": 3}
    drawn = []
    for value in range(1000):
        where = base | {axis: value}
        drawn.append(draw_bits(where["seed"], number(where["call"]), where["site"], 2)[1] % 4)
    assert chi_square(torch.stack(drawn), 4) < 3 + 6 * 6**0.5


@pytest.mark.parametrize("other", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1), (0, 1000, 0)])
def test_seeds_calls_and_sites_are_independent(other):
    first = draw_bits(0, number(0), 0, COUNT)
    second = draw_bits(other[0], number(other[1]), other[2], COUNT)
    assert (first == second).sum() <= 1
    assert abs(correlation(first, second)) < 0.04
    agree = (first % 4 == second % 4).double().mean().item()
    assert agree == pytest.approx(0.25, abs=0.02)


def test_neighbouring_positions_are_independent():
    bits = draw_bits(0, number(0), 0, COUNT)
    assert abs(correlation(bits[1:], bits[:-1])) < 0.04


@pytest.mark.parametrize(("seed", "call", "site"), [(0, 0, 0), (9, 3, 2), (123456, 99, 15)])
def test_normal_numbers_have_mean_variance_and_tails(seed, call, site):
    values = draw_normal(seed, number(call), site, COUNT)
    assert values.dtype == torch.float32
    assert values.isfinite().all()
    assert values.mean().item() == pytest.approx(0, abs=0.04)
    assert values.var().item() == pytest.approx(1, abs=0.06)
    assert (values.abs() > 1.96).double().mean().item() == pytest.approx(0.05, abs=0.012)


def test_normal_numbers_follow_the_bits():
    bits = draw_bits(4, number(5), 6, 50)
    values = draw_normal(4, number(5), 6, 50)
    assert torch.equal(bits.argsort(), values.argsort())


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**31 - 1), st.integers(0, 2**40), st.integers(0, 500), st.integers(1, 40))
def test_draws_repeat_stay_in_range_and_start_alike(seed, call, site, count):
    bits = draw_bits(seed, number(call), site, count)
    assert bits.dtype == torch.int64
    assert bits.min() >= 0
    assert bits.max() <= MASK
    assert torch.equal(bits, draw_bits(seed, number(call), site, count))
    assert torch.equal(bits, draw_bits(seed, number(call), site, count + 9)[:count])
    assert torch.equal(draw_normal(seed, number(call), site, count), draw_normal(seed, number(call), site, count))


def test_draws_neither_read_nor_move_the_global_generator():
    with torch.random.fork_rng():
        torch.manual_seed(1)
        before = torch.random.get_rng_state()
        bits = draw_bits(0, number(0), 0, 8)
        assert torch.equal(torch.random.get_rng_state(), before)
        torch.manual_seed(2)
        assert torch.equal(draw_bits(0, number(0), 0, 8), bits)


def test_draws_need_no_data_for_their_shape():
    call = torch.zeros((), dtype=torch.int64, device="meta")
    assert draw_bits(0, call, 0, 5).shape == (5,)
    assert draw_normal(0, call, 0, 5).device.type == "meta"


def test_mix_never_maps_two_numbers_to_one():
    values = torch.cat([torch.arange(50_000), MASK - torch.arange(50_000)])
    mixed = mix(values)
    assert len(mixed.unique()) == len(values)
    assert mixed.max() <= MASK
