import pytest
import torch

from bigain.tokens.match import best_match, merge_most_similar, unit
from references import cosine, random_tokens


def split(tokens, rows, count, seed=0):
    """Random destinations, sorted, and all others: (B, S), (B, T)."""
    generator = torch.Generator().manual_seed(seed)
    orders = [torch.randperm(tokens, generator=generator) for _ in range(rows)]
    sources = torch.stack([order[count:].sort().values for order in orders])
    return sources, torch.stack([order[:count].sort().values for order in orders])


def test_unit_tokens_have_length_one():
    x = random_tokens(3, 4)
    torch.testing.assert_close(unit(x).norm(dim=-1), torch.ones(2, 12))
    torch.testing.assert_close(unit(5 * x), unit(x))


def test_unit_leaves_zeros_and_survives_large_half_values():
    assert torch.equal(unit(torch.zeros(1, 3, 2)), torch.zeros(1, 3, 2))
    large = torch.full((1, 2, 64), 6e4, dtype=torch.float16)
    assert unit(large).dtype == torch.float16
    torch.testing.assert_close(unit(large).float(), torch.full((1, 2, 64), 1 / 8))


@pytest.mark.parametrize("count", [1, 4, 11])
def test_best_match_equals_a_search(count):
    x = random_tokens(3, 4, rows=3)
    sources, destinations = split(12, 3, count)
    value, best = best_match(x, sources, destinations)
    for row, tokens in enumerate(x.tolist()):
        for place, source in enumerate(sources[row].tolist()):
            similar = {d: cosine(tokens[source], tokens[d]) for d in destinations[row].tolist()}
            assert best[row, place].item() == max(similar, key=similar.get)
            assert value[row, place].item() == pytest.approx(max(similar.values()), abs=1e-5)


def test_best_match_ignores_length():
    x = random_tokens(3, 4)
    sources, destinations = split(12, 2, 4)
    scale = 0.1 + 10 * torch.rand(2, 12, 1, generator=torch.Generator().manual_seed(2))
    assert torch.equal(best_match(x, sources, destinations)[1], best_match(scale * x, sources, destinations)[1])


def test_best_match_of_zeros_is_a_number():
    sources, destinations = split(12, 2, 4)
    value, best = best_match(torch.zeros(2, 12, 3), sources, destinations)
    assert torch.equal(value, torch.zeros(2, 8))
    assert (best[..., None] == destinations[:, None]).any(-1).all()


@pytest.mark.parametrize("removed", [0, 1, 5, 8])
def test_merge_most_similar_equals_a_loop(removed):
    sources, destinations = split(12, 3, 4)
    generator = torch.Generator().manual_seed(3)
    value = torch.rand(3, 8, generator=generator)
    best = destinations.gather(1, torch.randint(4, (3, 8), generator=generator))
    target = merge_most_similar(12, sources, value, best, removed)
    for row in range(3):
        expected = list(range(12))
        order = sorted(range(8), key=lambda i, row=row: -value[row, i].item())
        for place in order[:removed]:
            expected[sources[row, place]] = best[row, place].item()
        assert target[row].tolist() == expected


def test_merge_most_similar_takes_the_first_of_equals():
    sources = torch.tensor([[1, 3, 5, 7]])
    target = merge_most_similar(8, sources, torch.zeros(1, 4), torch.full((1, 4), 0), 2)
    assert target.tolist() == [[0, 0, 2, 0, 4, 5, 6, 7]]
