"""What holds during one forward pass, for all of its rows or for some of them."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from bigain.models.rows import RowGroups, SiteCache, take_groups
from bigain.tokens.plans import Plan


class ForwardState:
    """One forward pass: the timestep of each row, its number, which rows share an input, and what is on."""

    def __init__(
        self,
        t: Tensor | None,
        pass_index: Tensor | None,
        row_groups: RowGroups | None = None,
        active: tuple[str, ...] = (),
    ) -> None:
        self.t = t
        self.pass_index = pass_index
        self.row_groups = row_groups
        self.active = active  # from the first block to the last, whatever is attached or removed meanwhile
        self.readings: dict[str, Any] = {}  # what attachments read off the timesteps, by their keys
        self.stages: dict[str, dict[str, Plan]] = {}  # plans made so far, where the blocks of a stage share them
        cache = {} if row_groups is None or row_groups.cache is None else row_groups.cache
        self.rows: Tensor | None = None  # of the batch, where the state is that of some rows only
        self.batch: int | None = None  # then, the rows of the whole batch
        self.parts: dict[str, ForwardState] = {}  # what acts on some rows only: their state
        # two chains for each: of plans, which several sites may use, and of corrections, which each site has
        self.cache = {name: cache.setdefault(name, SiteCache()) for key in active for name in (key, correction_of(key))}

    def among(self, rows: Mapping[str, list[int]]) -> "ForwardState":
        """The same pass where each key acts on its rows only; on none of them it is off."""
        total = 0 if self.t is None else self.t.shape[0]
        self.active = tuple(key for key in self.active if rows[key])
        self.parts = {key: self._part(key, rows[key]) for key in self.active if len(rows[key]) < total}
        return self

    def _part(self, key: str, numbers: list[int]) -> "ForwardState":
        assert self.t is not None  # windows need it
        rows = torch.tensor(numbers, device=self.t.device)
        groups = None if self.row_groups is None else take_groups(self.row_groups, rows)
        part = ForwardState(self.t[rows], self.pass_index, groups, (key,))
        part.rows, part.batch = rows, self.t.shape[0]
        return part

    def next_cache(self, key: str) -> SiteCache:
        """The cache of the current site."""
        cell = self.cache[key]
        if cell.next is None:
            cell.next = SiteCache()
        self.cache[key] = cell.next
        return cell


def correction_of(key: str) -> str:
    """The name of the chain of corrections for a key."""
    return f"{key} correction"
