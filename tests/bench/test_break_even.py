"""From which size on an operator pays off: the search, and what is timed."""

from collections.abc import Iterator

import pytest
import torch

import bigain
from bigain.bench import break_even
from bigain.bench.break_even import Place
from bigain.compression.attach import site_hooks
from bigain.models import family_of
from bigain.models.family import Inputs
from helpers.architectures import JOINT, tiny

pytestmark = pytest.mark.slow


def test_where_it_pays_is_looked_for_among_larger_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    monkeypatch.setattr(break_even, "SIDES", (8, 16, 24, 32, 48))

    def times(inputs: Inputs, *_: object) -> Iterator[tuple[float, float]]:
        side = inputs.args[0].shape[-1]
        tried.append(side)
        yield from [(2.0, 1.0)] * 5
        yield (1.0, 2.0) if side < 32 else (2.0, 1.0)  # not in all rounds at first, then in all

    monkeypatch.setattr(break_even, "times_of", times)
    base = bigain.load("fashion-unet").network
    site = bigain.sites(base)[0]
    place = Place(base, site, batch=1, text_tokens=4)
    now = break_even.grid_side(site, base, None)
    assert now == 16
    assert break_even.grid_side(site, base, (32, 32)) == 32
    assert break_even.break_even_side(bigain.parse("tome(0.7)"), place, now) == 32
    assert tried == [24, 32]
    assert break_even.break_even_side(bigain.parse("tome(0.7)"), place, 48) is None


@pytest.mark.parametrize("name", ["sd", "dit", "pixart", *JOINT])
@torch.no_grad()
def test_one_site_is_timed_with_and_without_inside_a_pass(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    base = tiny(monkeypatch, name)
    kinds = {site.kind for site in family_of(base).sites(base)}
    for kind in kinds:
        site = bigain.sites(base, f"module={kind!r}, index=1")[0]
        place, seen = Place(base, site, batch=2, text_tokens=7), []
        inputs = break_even.inputs_at(8, place)

        def look(module: object, args: tuple, kwargs: dict, output: object, seen: list = seen) -> None:
            seen.append((args[0] if args else kwargs["hidden_states"]).shape[1])

        with base.get_submodule(site.name).register_forward_hook(look, with_kwargs=True):
            rounds = list(break_even.times_of(inputs, bigain.parse("gated_merge(0.5)"), place))
        assert len(rounds) == 6
        assert all(seconds > 0 for pair in rounds for seconds in pair)
        assert seen == [seen[0], seen[0] - 32] * 7  # of 64 tokens, without and with, once to warm up
        assert not site_hooks(base)


def test_sizes_without_positions_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    base = tiny(monkeypatch, "sd3")
    place = Place(base, bigain.sites(base)[0], batch=1, text_tokens=7)
    assert break_even.inputs_at(16, place) is not None
    assert break_even.inputs_at(24, place) is None  # a table of 16 x 16
    assert break_even.break_even_side(bigain.parse("tome(0.7)"), place, 16) is None
