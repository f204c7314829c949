"""Which action at each place: the least effect for a saving, as an integer program."""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import LinearConstraint, milp
from scipy.sparse import coo_array

SECONDS = 20  # for a program; what is found by then is good to a fraction of a per cent


class Item(NamedTuple):
    """One action at one place: what it saves of each cost, as shares of the whole, and what it does."""

    place: Hashable
    saved: tuple[float, ...]
    effect: float


def cheapest(items: Sequence[Item], wanted: Sequence[float]) -> list[int] | None:
    """Numbers of the items, at most one for each place, that save what is wanted of each cost with the least effect.

    None if they cannot.
    """
    if all(share <= 0 for share in wanted):
        return []
    rows, limits = one_a_place(items)
    saving = LinearConstraint(np.array([item.saved for item in items]).T, np.asarray(wanted))
    effects = np.array([item.effect for item in items])
    return solved(effects, [LinearConstraint(rows, ub=limits), saving])


def most(items: Sequence[Item]) -> list[int]:
    """Numbers of the items, at most one for each place, for which the smallest of the savings is largest."""
    if not items:
        return []
    rows, limits = one_a_place(items)
    saved = np.array([item.saved for item in items]).T
    # one variable more: the smallest saving
    wide = coo_array((rows.data, (rows.row, rows.col)), shape=(rows.shape[0], len(items) + 1))
    above = np.hstack([saved, -np.ones((len(saved), 1))])
    objective = np.append(np.zeros(len(items)), -1.0)
    constraints = [LinearConstraint(wide, ub=limits), LinearConstraint(above, lb=0)]
    return solved(objective, constraints, free=1) or []


def one_a_place(items: Sequence[Item]) -> tuple[Any, np.ndarray]:
    places = {place: number for number, place in enumerate(dict.fromkeys(item.place for item in items))}
    rows = [places[item.place] for item in items]
    matrix = coo_array((np.ones(len(items)), (rows, range(len(items)))), shape=(len(places), len(items)))
    return matrix, np.ones(len(places))


def solved(objective: np.ndarray, constraints: list[Any], free: int = 0) -> list[int] | None:
    """Numbers of the variables that are 1; the last `free` ones are not whole and not reported."""
    count = len(objective) - free
    above = np.abs(objective[objective != 0])
    scale = float(np.median(above)) if len(above) else 1.0
    found = milp(
        objective / scale,
        constraints=constraints,
        integrality=np.append(np.ones(count), np.zeros(free)),
        bounds=(0, 1),
        # without presolve: what comes back from it may be cut down, which the solver prints
        options={"time_limit": SECONDS, "mip_rel_gap": 1e-4, "presolve": False},
    )
    return None if found.x is None else [int(i) for i in np.flatnonzero(found.x[:count] > 0.5)]
