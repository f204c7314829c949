"""Does the theory foretell accuracy? Rank correlations across settings, and responses of settings side by side."""

import json
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from bigain.theory.analysis import Measured, Pair, describe, difference_error, enough, linked, pair_up, responses, slope
from bigain.theory.criterion import exact_slack, first_order_slack, predicted_moments, ratio_change
from bigain.theory.resampling import Halves, Resampling, estimate, interval, spearman

FEWEST = 3  # settings to rank
FEWEST_IMAGES = 4  # two halves of two


class Analysis(NamedTuple):
    """How to look at what was measured."""

    dense: str  # label of the uncompressed setting
    rivals: np.ndarray  # (n, M) classes that each image's true class is compared with, the strongest first
    upper: np.ndarray = np.zeros(0, bool)  # (B,) the bands that hold detail
    draws: int = 2000


Statistic = Callable[[Pair, Resampling], np.ndarray]  # -> (D,), higher where more accuracy is expected


def measured_ratio(pair: Pair, resampling: Resampling) -> np.ndarray:
    return -ratio_change(*pair.sides(resampling))


def margin_kept(pair: Pair, resampling: Resampling) -> np.ndarray:
    mean, _, after, _ = pair.sides(resampling)
    return after / mean


def criterion(pair: Pair, resampling: Resampling) -> np.ndarray:
    return exact_slack(*pair.sides(resampling))


def first_order(pair: Pair, resampling: Resampling) -> np.ndarray:
    return first_order_slack(*pair.sides(resampling))


def predicted_ratio(name: str) -> Statistic:
    """Minus r'/r as the spectral model has it, from the response of tokens or of class differences."""

    def statistic(pair: Pair, resampling: Resampling) -> np.ndarray:
        assert pair.before.bands is not None  # responses come with bands
        means, covariance = (resampling.mean(part) for part in pair.before.bands)
        response = responses(pair.measured, resampling)[name]
        mean, bare, _ = predicted_moments(response, means, covariance)
        variance = np.diagonal(covariance, axis1=1, axis2=2).sum(1)
        return -ratio_change(means.sum(1), variance, mean, bare)

    return statistic


def differences_kept(pair: Pair, resampling: Resampling) -> np.ndarray:
    return -difference_error(pair.measured, resampling)


MOMENTS: dict[str, Statistic] = {
    "ratio": measured_ratio,
    "exact": criterion,
    "first_order": first_order,
    "margin_kept": margin_kept,
}
SPECTRAL: dict[str, Statistic] = {
    "predicted by tokens": predicted_ratio("tokens"),
    "predicted by differences": predicted_ratio("differences"),
    "difference_error": differences_kept,
}


class Settings(NamedTuple):
    """All settings but the uncompressed one, by label."""

    pairs: dict[str, Pair]
    names: dict[str, tuple[str, dict[str, Any]]]  # the name and the swept values of each

    def with_powers(self, name: str) -> list[Pair]:
        return [pair for pair in self.pairs.values() if name in linked(pair.measured)]


def needs(name: str) -> str | None:
    """The powers that a statistic is made of."""
    return "tokens" if name.endswith("tokens") else "differences" if name in SPECTRAL else None


def foretold(settings: Settings, n: int, draws: int) -> dict[str, Any]:
    """Rank correlations with accuracy: on the same images, and of one half's theory with the other half's accuracy."""
    found: dict[str, Any] = {}
    same, halves = Resampling.of(n, draws), Halves.of(n, draws)
    for name, statistic in (MOMENTS | SPECTRAL).items():
        kind = needs(name)
        pairs = list(settings.pairs.values()) if kind is None else settings.with_powers(kind)
        if len(pairs) < FEWEST:
            continue
        found[name] = {
            "settings": len(pairs),
            "same_images": estimate(correlation(pairs, statistic, same, same)),
            "other_images": interval(
                float(correlation(pairs, statistic, *halves.plain).mean()),
                correlation(pairs, statistic, *halves.drawn),
            ),
        }
        if name.startswith("predicted"):
            ratios = stacked(pairs, measured_ratio, same)
            found[name]["with_measured_ratio"] = estimate(spearman(stacked(pairs, statistic, same), ratios))
    return found


def correlation(pairs: Sequence[Pair], statistic: Statistic, first: Resampling, second: Resampling) -> np.ndarray:
    """Of a statistic on some images with the accuracy on others, across settings: -> (D,)."""
    return spearman(stacked(pairs, statistic, first), stacked(pairs, accuracy, second))


def stacked(pairs: Sequence[Pair], statistic: Statistic, resampling: Resampling) -> np.ndarray:
    """(D, S)."""
    return np.stack([statistic(pair, resampling) for pair in pairs], -1)


def accuracy(pair: Pair, resampling: Resampling) -> np.ndarray:
    return np.round(resampling.mean(pair.right), 12)  # equal counts are ties, whatever the order of summation


def signs(settings: Settings, resampling: Resampling) -> dict[str, int]:
    """In how many settings r falls, accuracy rises, and both go the same way."""
    falls = [bool(measured_ratio(pair, resampling)[0] > -1) for pair in settings.pairs.values()]
    moves = [int(pair.right.sum()) - int(pair.dense_right.sum()) for pair in settings.pairs.values()]
    alike = sum((fell and moved > 0) or (not fell and moved < 0) for fell, moved in zip(falls, moves, strict=True))
    return {"settings": len(falls), "ratio_falls": sum(falls), "accuracy_rises": sum(m > 0 for m in moves),
            "alike": alike, "accuracy_moves": sum(m != 0 for m in moves)}  # fmt: skip


def averages(settings: Settings, resampling: Resampling) -> dict[str, dict[str, float | None]]:
    """Geometric means over settings of mu'/mu, sigma'/sigma and r'/r; none where no margin is left somewhere."""
    sides = [pair.sides(resampling) for pair in settings.pairs.values()]
    ratios = {
        "margin_kept": [after / mean for mean, _, after, _ in sides],
        "spread_kept": [np.sqrt(after / variance) for _, variance, _, after in sides],
        "ratio": [ratio_change(*side) for side in sides],
    }
    positive = {name: np.maximum(found, 0) for name, found in ratios.items() if found}
    with np.errstate(divide="ignore"):
        return {name: estimate(np.exp(np.log(found).mean(0))) for name, found in positive.items()}


def contrasts(settings: Settings, resampling: Resampling, upper: np.ndarray) -> list[dict[str, Any]]:
    """How much more detail one name keeps than another, in the mean of the swept values that both have."""
    places = {(name, json.dumps(values)): settings.pairs[label] for label, (name, values) in settings.names.items()}
    names = list(dict.fromkeys(name for name, _ in places))
    found = []
    for ours, theirs in combinations(names, 2):
        both = [text for name, text in places if name == ours and text != "{}" and (theirs, text) in places]
        pairs = [(places[ours, text], places[theirs, text]) for text in both]
        kept = {kind: kept_more(pairs, kind, resampling, upper) for kind in ("tokens", "differences")}
        if both and all(value is not None for value in kept.values()):
            found.append({"ours": ours, "theirs": theirs, "values": [json.loads(text) for text in both], **kept})
    return found


def kept_more(
    pairs: Sequence[tuple[Pair, Pair]], kind: str, resampling: Resampling, upper: np.ndarray
) -> dict[str, float | None] | None:
    """The mean difference of the responses in the upper bands."""
    if not all(kind in linked(pair.measured) for both in pairs for pair in both):
        return None
    sides = [[slope(resampling.mean(linked(pair.measured)[kind])[:, upper].sum(1)) for pair in both] for both in pairs]
    return estimate(np.mean([ours - theirs for ours, theirs in sides], axis=0)) if sides else None


def analyse(
    measured: dict[str, Measured], names: dict[str, tuple[str, dict[str, Any]]], truth: np.ndarray, how: Analysis
) -> dict[str, Any]:
    """All settings beside the one called `how.dense`, as plain values for JSON; `names` has each one's name and values.

    Images of which too few trials are known are left out.
    """
    dense, rivals = measured[how.dense], how.rivals
    kept = np.all([enough(one, dense, truth, rivals) for one in measured.values()], axis=0)
    if kept.sum() < FEWEST_IMAGES:
        raise ValueError(f"a theory of means needs {FEWEST_IMAGES} images with two trials or more, got {kept.sum()}")
    own = {label: one.of(kept) for label, one in measured.items()}
    pairs = {label: pair_up(one, own[how.dense], truth[kept], rivals[kept]) for label, one in own.items()}
    n = int(kept.sum())
    resampling = Resampling.of(n, how.draws)
    others = [label for label in pairs if label != how.dense]
    settings = Settings({label: pairs[label] for label in others}, {label: names[label] for label in others})
    rows = [{"label": label, "name": names[label][0], "values": names[label][1],
             **describe(pair, resampling, how.upper)} for label, pair in pairs.items()]  # fmt: skip
    return {
        "n": n,
        "left_out": int(len(truth) - n),
        "dense": how.dense,
        "rivals": rivals.shape[1],
        "rows": rows,
        "foretold": foretold(settings, n, how.draws),
        "signs": signs(settings, resampling),
        "averages": averages(settings, resampling),
        "contrasts": contrasts(settings, resampling, how.upper),
    }
