"""Rows of an experiment: what is attached to the model in each, with values to sweep."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

from bigain.caching import Cache, cache_spec
from bigain.classify.presets import check_policy, policy_identity
from bigain.compression.document import Setting as Document
from bigain.compression.setting import Compression
from bigain.experiments.attaching import Place, attachments
from bigain.experiments.cached import check_cached, row_cache
from bigain.experiments.calibration import check_prune, check_text
from bigain.pruning.methods import parse_method
from bigain.registry import miss

TASKS = ("classify", "generate")
OF_ATTACH = tuple(f.name for f in fields(Compression))
OF_ROW = (
    "name", "attach", "cache", "prune", "n", "tasks", "policy", "timesteps", "num_inference_steps", *OF_ATTACH
)  # fmt: skip
BRACES = re.compile(r"{(\w+)}")


@dataclass(frozen=True)
class Setting:
    """One row of a table: what is attached to the model, and how much is done with it."""

    name: str  # of the curve or the table's row
    values: dict[str, Any]  # of the swept variables
    attach: tuple[Compression, ...]
    n: int
    tasks: tuple[str, ...]
    policy: str | None = None  # instead of the experiment's
    num_inference_steps: int | None = None  # instead of those of [generate]
    timesteps: Any = None  # instead of the experiment's
    cache: Cache | None = None  # generation only
    prune: str | None = None  # a pruning method
    shapes: tuple[Document, ...] = field(default=(), compare=False)  # settings that must fit the model

    @property
    def own(self) -> dict[str, Any]:
        """What this row does otherwise than its experiment, apart from compression."""
        own = {"policy": self.policy, "num_inference_steps": self.num_inference_steps, "timesteps": self.timesteps}
        own |= {"cache": None if self.cache is None else cache_spec(self.cache), "prune": self.prune}
        return {key: value for key, value in own.items() if value is not None}

    def identity(self) -> list[dict[str, Any]]:
        """What decides the results of this row."""
        own = self.own | ({"policy": policy_identity(self.policy)} if self.policy else {})
        own |= {"cache": repr(self.cache)} if self.cache is not None else {}
        own |= {"prune": repr(parse_method(self.prune))} if self.prune else {}
        return [part.identity() for part in self.attach] + ([own] if own else [])

    @property
    def dense(self) -> bool:
        """Whether this is the uncompressed model as the experiment runs it."""
        return not self.identity()

    @property
    def label(self) -> str:
        """The unique name in the experiment: `tome per_row, ratio 0.7`."""
        return ", ".join([self.name, *(f"{key} {value}" for key, value in self.values.items())])


def expand(row: dict[str, Any], n: int, tasks: tuple[str, ...], place: Place) -> Iterator[Setting]:
    """The settings of a row, one for each combination of its swept values."""
    swept = {key: value for key, value in row.items() if key not in OF_ROW}
    for key, values in swept.items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"{miss('row key', key, OF_ROW)}; only a list of values is swept, got {values!r}")
    if not isinstance(row.get("name", ""), str) or type(row.get("n", 0)) is not int:
        raise ValueError(f"name must be a string and n an int, got the row {row}")
    check_text(row.get("prune", ""))
    if "prune" in row:
        row = {"name": row["prune"]} | row
    if row.keys() & {"cache", "prune"} and not row.keys() & {"operator", "attach"}:
        row = {"name": row.get("cache")} | row | {"operator": "none"}
    if ("operator" in row) == ("attach" in row):
        raise ValueError(f"a row must have either operator or attach, got {row}")
    if "attach" in row and not (row["attach"] and tables(row["attach"]) and row.get("name")):
        raise ValueError(f"attach must be a list of tables, each with an operator, in a row with a name, got {row}")
    parts = row.get("attach") or [{key: row[key] for key in OF_ATTACH if key in row}]
    own = [row.get(key, "") for key in ("policy", "cache", "prune")]
    texts = [*(value for part in parts for value in part.values()), *own]
    used = {name for value in texts for name in BRACES.findall(str(value))}
    if used != set(swept):
        raise ValueError(f"row {row.get('name', parts[0])!r} sweeps {sorted(swept)} but its braces are {sorted(used)}")
    for values in itertools.product(*swept.values()):
        chosen = dict(zip(swept, values, strict=True))
        made = [attachments(with_values(part, chosen), place) for part in parts]
        attach = tuple(compression for each in made for compression in each.parts)
        documents = tuple(each.document for each in made if each.document is not None)
        name = row.get("name") or row["operator"]
        prune = check_prune(filled(row["prune"], chosen)) if "prune" in row else None
        setting = Setting(
            name, chosen, attach, row.get("n", n), check_tasks(row.get("tasks", tasks)), row_policy(row, chosen),
            row.get("num_inference_steps"), read_timesteps(row.get("timesteps")),
            row_cache(row, partial(filled, values=chosen)), prune, documents,
        )  # fmt: skip
        check_cached(setting.name, setting.tasks, setting.cache)
        yield setting


def row_policy(row: dict[str, Any], values: dict[str, Any]) -> str | None:
    if type(row.get("num_inference_steps", 1)) is not int or row.get("num_inference_steps", 1) < 1:
        raise ValueError(f"num_inference_steps must be an int of at least 1, got {row['num_inference_steps']!r}")
    if "policy" not in row:
        return None
    if not isinstance(row["policy"], str):
        raise ValueError(f"policy must be a string, got {row['policy']!r}")
    text = filled(row["policy"], values)
    check_policy(text)
    return text


def filled(text: str, values: dict[str, Any]) -> str:
    """A text with its braces replaced by values."""
    return BRACES.sub(lambda match: str(values[match[1]]), text)


def with_values(part: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """What a row attaches, checked, with its braces replaced by values."""
    check_keys("attach key", part, OF_ATTACH)
    if not isinstance(part.get("operator"), str):
        raise ValueError(f"operator must be a string, such as 'todo(factor=2)', got {part}")
    if not isinstance(part.get("where", ""), str):
        raise ValueError(f"where must be a string, such as \"part='down'\", got {part['where']!r}")
    return {key: filled(value, values) if isinstance(value, str) else value for key, value in part.items()}


def tables(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(part, dict) for part in found)


def check_tasks(tasks: Any) -> tuple[str, ...]:
    if not isinstance(tasks, list | tuple) or not tasks:
        raise ValueError(f"tasks must be a list of {', '.join(TASKS)}, got {tasks!r}")
    for task in tasks:
        if task not in TASKS:
            raise ValueError(miss("task", task, TASKS))
    return tuple(tasks)


def check_keys(kind: str, found: dict[str, Any], known: Any) -> None:
    for key in found:
        if key not in known:
            raise ValueError(miss(kind, key, list(known)))


def read_timesteps(found: Any) -> Any:
    """A word or a profile's file as it is, ints as a tuple, None for the default."""
    if isinstance(found, list) and found and all(type(step) is int for step in found):
        return tuple(found)
    if found is not None and not isinstance(found, str):
        raise ValueError(f"timesteps must be a string or a list of ints, got {found!r}")
    return found
