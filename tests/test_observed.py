"""`handle.observed`: what happens at each site, in its order, and nothing once it is over."""

from itertools import groupby
from typing import Any

import pytest
import torch

import bigain
from bigain import Where
from bigain.compression.attachment import SiteEvent
from helpers.models import BACKBONES, run

STEPS = ["begin", "planned", "merged", "computed", "unmerged"]
SD = BACKBONES["sd"]


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("operator", ["gated_merge(ratio=0.6)", "todo(factor=2)"])
def test_the_steps_of_each_site(name: str, operator: str) -> None:
    backbone = BACKBONES[name]
    model, events = backbone.build(), list[SiteEvent]()
    where = "part='double'" if name == "flux2" else None  # its single blocks take no other keys
    with bigain.compress(model, operator, where=where) as handle:
        expected = run(backbone, model)
        with handle.observed(events.append):
            assert torch.equal(run(backbone, model), expected)
        by_site = {site: [event.step for event in group] for site, group in groupby(events, lambda e: e.site.name)}
        assert by_site == {row.name: STEPS for row in handle.status()}
        seen = len(events)
        run(backbone, model)
    run(backbone, model)
    assert len(events) == seen


def test_what_an_event_holds() -> None:
    model, events = SD.build(), list[SiteEvent]()
    with bigain.compress(model, "gated_merge(ratio=0.6)") as handle, handle.observed(events.append):
        run(SD, model, batch=2)
        row = handle.status()[0]
    for event in events:
        assert event.tokens.shape[:2] == (2, event.grid.tokens)
        assert (event.plan is None) == (event.step == "begin")
    assert events[2].plan.queries(events[2].tokens).shape[1] == row.queries


def test_only_the_observed_handle_is_seen() -> None:
    model, down, up = SD.build(), list[SiteEvent](), list[SiteEvent]()
    with (
        bigain.compress(model, "gated_merge(ratio=0.6)", where=Where(part="down")) as first,
        bigain.compress(model, "todo(factor=2)", where=Where(part="up")) as second,
        first.observed(down.append),
    ):
        with second.observed(up.append), second.observed(up.append):
            run(SD, model)
        assert {event.site.part for event in down} == {"down"}
        assert {event.site.part for event in up} == {"up"}
        assert len(up) == 2 * len(STEPS) * len(second.status())
        seen = len(down)
        with first.paused():
            run(SD, model)
        assert len(down) == seen


def test_an_observer_that_raises_is_removed() -> None:
    model = SD.build()

    def fail(event: SiteEvent) -> Any:
        raise LookupError(event.step)

    with bigain.compress(model, "gated_merge(ratio=0.6)") as handle:
        with pytest.raises(LookupError, match="begin"), handle.observed(fail):
            run(SD, model)
        run(SD, model)
