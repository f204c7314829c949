"""Reports from records: generation, classification and cost of every setting, with intervals and paired tests."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bigain.experiments.folder import FILE
from bigain.experiments.machine import why_no_speed
from bigain.experiments.rows import MANY_CLASSES, DecisionRow, GeneratedRow
from bigain.experiments.samples import Samples
from bigain.experiments.schema import damaged
from bigain.experiments.store import Store
from bigain.metrics.distances import Difference, difference
from bigain.metrics.intervals import Estimate, Share, bootstrap_mean, median_interval, wilson
from bigain.metrics.multilabel import macro_precision, ranking_precision
from bigain.metrics.paired import holm, mcnemar, share_difference
from bigain.registry import miss


@dataclass(frozen=True)
class Row:
    """One setting; None means not measured."""

    label: str
    name: str
    values: dict[str, Any]
    accuracy: Share | None = None
    top5: Share | None = None  # the true class is among the first five, of many
    ranking: Estimate | None = None  # label-ranking average precision, multi-label only
    macro: float | None = None  # class-macro average precision, multi-label only
    change: Estimate | None = None  # of accuracy against the reference, on the same images
    p: float | None = None  # McNemar, Holm over the table
    agreement: Share | None = None  # same label as the reference
    evaluations: float | None = None  # a decision
    seconds: float | None = None  # an evaluation
    speed: Estimate | None = None  # the uncompressed model's seconds over these, on the same images
    speed_note: str | None = None  # why there is no speed though there are times
    flops: int | None = None
    saved: float | None = None
    image_saved: float | None = None  # of the FLOPs of a generated image, all sampler steps together
    decision_flops: float | None = None  # mean over images, of all evaluations
    decision_saved: float | None = None
    difference_error: float | None = None  # of the differences between classes, relative to the uncompressed model's
    tokens: list[list[int]] | None = None  # tokens, queries and keys at the compressed sites, each kind once
    samples: Samples | None = None
    samples_note: str | None = None  # what is wrong with the generated images, so that distances mean nothing
    distance_changes: dict[str, Difference] | None = None  # to real images, less the reference's
    paper: dict[str, Any] | None = None


@dataclass(frozen=True)
class Report:
    """All settings of a record."""

    title: str
    about: str
    experiment: dict[str, Any]
    sessions: list[dict[str, Any]]
    rows: list[Row]
    examples: dict[str, list[bytes]]  # PNGs of the first generated images of each setting
    dense: str | None = None  # label of the uncompressed setting
    against: str = "uncompressed"  # what changes, p-values and agreement refer to


Specs = list[tuple[int, str, dict[str, Any]]]  # id, label and spec of each setting


def find_record(place: Path) -> Path:
    """A record file, or the one in a run folder."""
    path = place / FILE if place.is_dir() else place
    if not path.exists():
        raise FileNotFoundError(f"no record {path}; create it with `bigain run FILE --out {place}`")
    return path


def read_report(place: Path, against: str | None = None, idle: bool = False) -> Report:
    """The report of a run folder or record file.

    `against` is the name of a row to compare with, value by value, or the label of one setting; by default the
    uncompressed model. `idle=True` says that the machine was idle, for records without this information.
    """
    path = find_record(place)
    with closing(Store(path, read_only=True)) as store:
        meta, found = store.meta(), store.settings()
        known = {label: read_setting(store, number) for number, label, _ in found}
    try:
        return make_report(meta, found, known, against, None if idle else why_no_speed(meta["sessions"]))
    except (KeyError, TypeError, AttributeError, IndexError, ZeroDivisionError) as error:
        raise damaged(path, f"{type(error).__name__}: {error}") from error


def make_report(
    meta: dict[str, Any], found: Specs, known: dict[str, "Found"], against: str | None, no_speed: str | None
) -> Report:
    dense = next((label for _, label, spec in found if is_dense(spec)), None)
    references = {label: dense for _, label, _ in found} if against is None else partners(found, against)
    rows = [
        make_row(label, spec, known[label], known.get(references[label] or ""), known.get(dense or ""))
        for _, label, spec in found
    ]
    steps = (meta["experiment"].get("generate") or {}).get("num_inference_steps")
    rows = [of_image(row, spec, steps) for row, (_, _, spec) in zip(rows, found, strict=True)]
    rows = [with_paper(untimed(row, no_speed), meta["paper"]) for row in correct(rows)]
    examples = {label: known[label].examples for _, label, _ in found}
    return Report(
        meta["title"], meta["about"], meta["experiment"], meta["sessions"], rows, examples, dense,
        against or "uncompressed",
    )  # fmt: skip


def is_dense(spec: dict[str, Any]) -> bool:
    """Whether a row is the uncompressed model as the experiment runs it."""
    return not spec["attach"] and not spec.keys() & {"policy", "timesteps", "num_inference_steps", "cache"}


def of_image(row: Row, spec: dict[str, Any], steps: int | None) -> Row:
    """The row with what it saves of an image, where it generates."""
    if row.samples is None or row.saved is None or not steps:
        return row
    return replace(row, image_saved=1 - (1 - row.saved) * spec.get("num_inference_steps", steps) / steps)


def untimed(row: Row, reason: str | None) -> Row:
    """The row without its speed, if there is a reason not to trust it."""
    return row if reason is None or row.speed is None else replace(row, speed=None, speed_note=reason)


def partners(found: Specs, name: str) -> dict[str, str | None]:
    """For each setting, the one called `name` with the same swept values, or the one labelled `name`."""
    labels = [label for _, label, _ in found]
    if name in labels:
        return dict.fromkeys(labels, name)
    known = list(dict.fromkeys(spec["name"] for _, _, spec in found))
    if name not in known:
        raise ValueError(miss("row", name, [*known, *labels]))
    own = [(label, spec["values"]) for _, label, spec in found if spec["name"] == name]
    return {label: next((other for other, values in own if values == spec["values"]), None) for _, label, spec in found}


Decisions = dict[str, DecisionRow]


class Found(NamedTuple):
    """A setting in a record."""

    decisions: Decisions
    measures: dict[str, Any]
    examples: list[bytes]
    note: str | None  # what is wrong with its generated images

    samples: Samples | None


def read_setting(store: Store, number: int) -> Found:
    measures, generated = store.measures(number), store.generated(number)
    examples = [row.example for row in generated if row.example]
    samples = Samples.from_json(measures["samples"]) if measures.get("samples") else None
    note = broken(generated, samples)
    return Found(store.decisions(number), measures, examples, note, None if note else samples)


def broken(generated: list[GeneratedRow], samples: Samples | None) -> str | None:
    """What is wrong with generated images, or None: with different seeds they cannot all be the same."""
    if len(generated) > 1 and len({row.hash for row in generated}) == 1:
        return f"all {len(generated)} images are identical"
    name = samples.not_finite() if samples else None
    return f"{name} is not finite" if name else None


def make_row(label: str, spec: dict[str, Any], own: Found, other: Found | None, dense: Found | None) -> Row:
    row: dict[str, Any] = {"label": label, "name": spec["name"], "values": spec["values"]}
    if own.decisions:
        row |= classification(own.decisions)
    if other and own is not other:
        if own.decisions and other.decisions:
            row |= comparison(own.decisions, other.decisions)
        row["distance_changes"] = distance_changes(own.samples, other.samples)
    flops = own.measures.get("flops")
    row |= {"flops": flops, "tokens": own.measures.get("tokens")}
    row |= {"samples": own.samples, "samples_note": own.note}
    if flops and dense and dense.measures.get("flops"):
        row["saved"] = 1 - flops / dense.measures["flops"]
    spent = own.measures.get("decision_flops")
    row |= {"decision_flops": spent, "difference_error": own.measures.get("difference_error")}
    if spent and dense and dense.measures.get("decision_flops"):
        row["decision_saved"] = 1 - spent / dense.measures["decision_flops"]
    if own.decisions and dense and own is not dense and dense.decisions:
        row["speed"] = speed(own.decisions, dense.decisions)
    return Row(**row)


def classification(own: Decisions) -> dict[str, Any]:
    rows = list(own.values())
    found: dict[str, Any] = {
        "accuracy": wilson(sum(right(r) for r in rows), len(rows)),
        "evaluations": float(np.mean([r.evaluations for r in rows])),
        "seconds": float(np.median([r.seconds / r.evaluations for r in rows])),
    }
    if all(len(r.truth) == 1 and len(r.ranking) >= MANY_CLASSES for r in rows):
        found["top5"] = wilson(sum(r.truth[0] in r.ranking[:5] for r in rows), len(rows))
    if any(len(r.truth) != 1 for r in rows):
        labels = np.zeros((len(rows), len(rows[0].ranking)), dtype=bool)
        for place, r in zip(labels, rows, strict=True):
            place[list(r.truth)] = True
        if len(rows) > 1:  # one image has no interval
            found["ranking"] = bootstrap_mean(ranking_precision(np.array([r.ranking for r in rows]), labels))
        found["macro"] = macro_precision(np.array([r.chances for r in rows]), labels)
    return found


def comparison(own: Decisions, other: Decisions) -> dict[str, Any]:
    """Paired comparison on the images of both."""
    names = sorted(own.keys() & other.keys())
    if not names:  # two processes may be at different images
        return {}
    a, b = (np.array([right(side[name]) for name in names]) for side in (own, other))
    same = sum(own[name].predicted == other[name].predicted for name in names)
    return {"change": share_difference(a, b), "p": mcnemar(a, b).p, "agreement": wilson(same, len(names))}


def speed(own: Decisions, dense: Decisions) -> Estimate | None:
    """The median speed-up of an evaluation over the uncompressed model, on the images of both.

    Images are timed per chunk, so all images of a chunk have one ratio, which counts once.
    """
    pairs = [(own[name], dense[name]) for name in sorted(own.keys() & dense.keys())]
    ratios = {round(b.seconds / b.evaluations * a.evaluations / a.seconds, 9) for a, b in pairs if a.seconds}
    return median_interval(np.array(list(ratios))) if ratios else None


def distance_changes(own: Samples | None, other: Samples | None) -> dict[str, Difference]:
    """The difference of each distance to real images from the other's, if the numbers of images are equal."""
    if own is None or other is None or own.n != other.n:
        return {}
    shared = [name for name in own.distances if name in other.distances]
    return {name: difference(own.distances[name], other.distances[name]) for name in shared}


def right(row: DecisionRow) -> bool:
    """Whether the prediction is one of the labels."""
    return row.predicted in row.truth


def correct(rows: list[Row]) -> list[Row]:
    """p-values corrected for their number (Holm)."""
    tested = [row for row in rows if row.p is not None]
    corrected = (
        dict(zip([row.label for row in tested], holm(np.array([row.p for row in tested])), strict=True))
        if tested
        else {}
    )
    return [replace(row, p=float(corrected[row.label])) if row.p is not None else row for row in rows]


def with_paper(row: Row, paper: Sequence[dict[str, Any]]) -> Row:
    for numbers in paper:
        values = {key: numbers.get(key) for key in row.values}
        if numbers.get("name") == row.name and values == row.values:
            return replace(row, paper=numbers)
    return row
