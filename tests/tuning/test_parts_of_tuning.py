"""The parts of tuning against slow references: knapsack, bands, operators of a choice, costs, checkpoints."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import bigain
from bigain.bench.flops import group_flops
from bigain.bench.trajectory import alone
from bigain.metrics.intervals import Share
from bigain.models.windows import holds
from bigain.tuning.actions import Action, as_parts, even_bands, one_site
from bigain.tuning.checkpoint import Checkpoint
from bigain.tuning.costs import Costs, Saved
from bigain.tuning.goal import Candidate, Goal, best
from bigain.tuning.knapsack import Item, cheapest, most
from bigain.tuning.tune import Effort, every_site
from bigain.tuning.uniform import first_enough, possible
from bigain.tuning.verify import Verified, margins
from helpers.denoisers import tiny
from helpers.models import BACKBONES, run

MERGE, POOL = "gated_merge(ratio=0.5)", "kv_downsample(factor=2)"
PARTS = (bigain.Compression(MERGE),)
NUMBERS = st.integers(0, 8)


def all_choices(items: list[Item]) -> list[tuple[int, ...]]:
    places: dict[Any, list[int | None]] = {}
    for number, item in enumerate(items):
        places.setdefault(item.place, [None]).append(number)
    return [tuple(n for n in one if n is not None) for one in itertools.product(*places.values())]


def saved(items: list[Item], chosen: Any) -> np.ndarray:
    return np.sum([items[number].saved for number in chosen], axis=0) if len(chosen) else np.zeros(2)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=6), NUMBERS, NUMBERS)
def test_the_knapsack_is_exact(rows: list[tuple[int, int, int, int]], a: int, b: int) -> None:
    items = [Item(place, (float(x), float(y)), float(effect)) for place, x, y, effect in rows]
    choices = all_choices(items)
    enough = [one for one in choices if (saved(items, one) >= (a, b)).all()]
    found = cheapest(items, (a, b))
    if not enough:
        assert found is None
    else:
        assert found is not None
        assert (saved(items, found) >= np.array([a, b]) - 1e-6).all()
        assert tuple(sorted(found)) in {tuple(sorted(one)) for one in choices}
        least = min(sum(items[n].effect for n in one) for one in enough)
        assert sum(items[n].effect for n in found) == pytest.approx(least, abs=1e-3)
    largest = max(saved(items, one).min() for one in choices)
    if largest <= 1:  # savings are shares
        assert saved(items, most(items)).min() == pytest.approx(largest, abs=1e-6)


def test_bands_hold_each_timestep_once() -> None:
    for count in (1, 2, 3, 7):
        bands = even_bands(count, 999)
        assert all(sum(holds(band, t) for band in bands) == 1 for t in range(1000))
    assert even_bands(2, 999) == ((0, 499), (500, 999))


@torch.no_grad()
def test_operators_of_a_choice_do_what_was_chosen() -> None:
    """One operator for several sites and bands acts as one for each site and band."""
    backbone = BACKBONES["sd"]
    model = backbone.build()
    sites = bigain.sites(model, bigain.Where(index=(0, 1, 2, 3, 4), module=("self", "cross", "mlp")))
    bands = even_bands(3, 999)
    chosen = {}
    for number, site in enumerate(sites):
        for band in range(3):
            operator = MERGE if number % 3 or site.kind != "self" else POOL
            if (number + band) % 4 or number < 4:
                chosen[site.name, band] = Action(site.name, operator, correct=False)
    parts = as_parts(chosen, sites, bands)
    assert len(parts) < len(sites)
    assert any(part.when is None for part in parts)
    t = torch.tensor([100, 500, 900])
    with bigain.compress(model, bigain.Setting(parts)):
        found = run(backbone, model, batch=3, t=t)
    named = {site.name: site for site in sites}
    handles = [bigain.compress(model, one_site(named[n], action, bands[band])) for (n, band), action in chosen.items()]
    torch.testing.assert_close(found, run(backbone, model, batch=3, t=t), atol=1e-5, rtol=1e-4)
    for handle in handles:
        handle.remove()


def test_costs_are_those_of_the_flop_counter() -> None:
    denoiser = tiny("unet")
    costs, sites, network = Costs(denoiser, 6), every_site(denoiser), BACKBONES["sd"].on_meta()
    size: Any = {"latent": (16, 16), "text_tokens": 3}
    action = Action(sites[2].name, MERGE, correct=True)
    part = one_site(sites[2], action)
    expected = Saved(
        1 - group_flops(network, [part], 6, **size) / 6 / costs.dense,
        1 - group_flops(network, alone([part]), 1, **size) / costs.dense,
    )
    assert costs.of_action(sites[2], action) == pytest.approx(expected, rel=1e-3)
    assert costs.of_parts((part,), [1.0]) == pytest.approx(expected, rel=1e-3)
    assert costs.of_action(sites[1], Action(sites[1].name, POOL, False)) == (0, 0)  # cross-attention
    assert costs.of_parts((), [1.0]) == (0, 0)
    late = bigain.Compression(MERGE, when=(500, 999))
    whole = costs.of_parts((bigain.Compression(MERGE),), [1.0])
    assert costs.of_parts((late,), [900.0, 100.0, 200.0, 300.0]) == pytest.approx((whole[0] / 2, whole[1] / 4))


def test_a_checkpoint_goes_on_after_a_torn_line(tmp_path: Path) -> None:
    path, settings = tmp_path / "checkpoint.jsonl", {"seed": 0, "effort": {"bands": 3}}
    first = Checkpoint(path, settings)
    assert first.value("a", lambda: [1.5, None]) == [1.5, None]
    with path.open("a") as file:
        file.write('{"name": "b", "val')
    again = Checkpoint(path, settings)
    assert again.known == {"a": [1.5, None]}
    assert again.value("a", lambda: 1 / 0) == [1.5, None]
    again.value("b", lambda: 2)
    assert Checkpoint(path, settings).known == {"a": [1.5, None], "b": 2}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"settings": {"seed": 1}}\n', "was begun with other settings: seed was 1 and is now 0"),
        ("name,value\n", "is not a checkpoint of tune"),
        ('{"seed": 1}\n', "is not a checkpoint of tune"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(text: str, error: str, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=error):
        Checkpoint(path, {"seed": 0})
    assert path.read_text() == text


def test_margins() -> None:
    errors = np.array([[[1.0], [3.0], [2.0]], [[5.0], [4.0], [4.5]]])
    assert margins(errors, np.array([0, 0])).tolist() == [1.0, -1.0]


def test_the_first_that_saves_enough() -> None:
    steps = [(bigain.Compression(f"gated_merge(ratio={i / 100})"),) for i in range(10, 70, 10)]
    for wanted in range(12):
        expected = next((i for i in range(6) if i * 2 >= wanted), None)
        found = first_enough(steps, Saved(wanted, -1), lambda one: Saved(steps.index(one) * 2.0, 0.0))
        assert found == expected


def test_what_a_model_refuses_is_left_out() -> None:
    steps = [(bigain.Compression(f"gated_merge(ratio={i / 100})"),) for i in (10, 20, 30)]

    def saved(parts: Any) -> Saved:
        if parts in steps[1:]:
            raise ValueError("no")
        return Saved(1, 1)

    assert possible(steps, saved) == steps[:1]
    costs = Costs(tiny("dit"), 3)
    site = costs.sites[0]
    assert costs.of_action(site, Action(site.name, "kv_downsample(factor=9)", False)) == (0, 0)  # of a grid of 8 x 8


def verified(save: float, error: float, similarity: float) -> Verified:
    share = Share(9, 10, 0.5, 1.0)
    from bigain.metrics.intervals import Estimate

    return Verified(Saved(save, save + 0.1), share, None, error, ssim=Estimate(similarity, similarity, similarity, 5))


def test_the_best_candidate() -> None:
    few, good, poor = (
        Candidate(str(s), PARTS, verified(*s)) for s in ((0.1, 0.1, 1), (0.3, 0.2, 0.9), (0.4, 0.2, 0.5))
    )
    assert best([few, poor, good], Goal(save=0.3)) is good
    assert best([few, good], Goal(save=0.5)) is good  # the nearest
    assert best([few, poor, good], Goal(keep=0.85)) is good
    assert best([], Goal(save=0.3)) is None
    whole = good.verified
    assert Verified.from_json(json.loads(json.dumps(whole.as_json()))) == whole


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "give either save= or keep="),
        ({"save": 0.3, "keep": 0.9}, "give either save= or keep="),
        ({"save": 30}, r"save must be a share in \(0, 1\), got 30; did you mean 0.3\?"),
        ({"keep": "99%"}, "keep must be a share"),
        ({"save": True}, "save must be a share"),
    ],
)
def test_goals_are_checked(values: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Goal(**values)


def test_an_effort_is_checked() -> None:
    with pytest.raises(ValueError, match="trials must be an int of at least 1, got 0"):
        Effort(trials=0)
    with pytest.raises(ValueError, match="Did you mean 'gated_merge'"):
        Effort(operators=("gated_merg(ratio=0.5)",))
