"""Experiments as TOML files: which model, data, tasks and operators, with values to sweep."""

import hashlib
import itertools
import re
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from bigain.caching import Cache, cache_spec
from bigain.checks import check_count
from bigain.classify.presets import check_policy, policy_identity
from bigain.compression.setting import Compression
from bigain.experiments.cached import check_cached, row_cache
from bigain.generation import Sampling
from bigain.plugins import load_file
from bigain.registry import miss

TASKS = ("classify", "generate")
OWN = ("rows", "load", "generate", "paper", "tasks")  # keys whose values are not taken as they are
OF_ATTACH = tuple(f.name for f in fields(Compression))
OF_ROW = ("name", "attach", "cache", "n", "tasks", "policy", "timesteps", "num_inference_steps", *OF_ATTACH)
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

    @property
    def own(self) -> dict[str, Any]:
        """What this row does otherwise than its experiment, apart from compression."""
        own = {"policy": self.policy, "num_inference_steps": self.num_inference_steps, "timesteps": self.timesteps}
        own |= {"cache": None if self.cache is None else cache_spec(self.cache)}
        return {key: value for key, value in own.items() if value is not None}

    def identity(self) -> list[dict[str, Any]]:
        """What decides the results of this row."""
        own = self.own | ({"policy": policy_identity(self.policy)} if self.policy else {})
        own |= {"cache": repr(self.cache)} if self.cache is not None else {}
        return [part.identity() for part in self.attach] + ([own] if own else [])

    @property
    def dense(self) -> bool:
        """Whether this is the uncompressed model as the experiment runs it."""
        return not self.identity()

    @property
    def label(self) -> str:
        """The unique name in the experiment: `tome per_row, ratio 0.7`."""
        return ", ".join([self.name, *(f"{key} {value}" for key, value in self.values.items())])


@dataclass(frozen=True)
class Generation:
    """What to generate: `count` images of the dataset's classes, or of its captions."""

    count: int
    num_inference_steps: int = 50
    guidance_scale: float | None = None
    scheduler: str | None = None
    features: str | None = None  # network of the Fréchet distance

    def sampling(self, seed: int, num_inference_steps: int | None = None) -> Sampling:
        return Sampling(num_inference_steps or self.num_inference_steps, self.guidance_scale, self.scheduler, seed)


@dataclass(frozen=True)
class Experiment:
    """An experiment file."""

    title: str
    model: str
    data: str
    n: int
    tasks: tuple[str, ...]
    settings: tuple[Setting, ...]
    about: str = ""
    without: str | None = None
    seed: int = 0
    policy: str = "stages"
    timesteps: Any = None  # those of the policy's preset, or even ones
    image_size: int | None = None  # side of a pipeline's images in pixels, by default its own
    generate: Generation | None = None
    load: dict[str, str] = field(default_factory=dict)  # Python files that register its operators: their hashes
    paper: tuple[dict[str, Any], ...] = field(default=(), compare=False)

    def identity(self) -> dict[str, Any]:
        """What decides the results: everything except texts and the paper's numbers."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        for key in ("title", "about", "paper", "settings", "n", "tasks"):
            del found[key]
        found["generate"] = None if self.generate is None else asdict(self.generate)
        found["timesteps"] = self.timesteps or "even"
        found["policy"] = policy_identity(self.policy)
        for key in ("load", "image_size"):  # records of experiments without them do not have the keys
            if not found[key]:
                del found[key]
        return found


def read_experiment(path: Path) -> Experiment:
    """Read a TOML file; mistakes in it raise here, before anything runs."""
    try:
        return build_experiment(read_contents(path), path.parent)
    except RecursionError:
        raise ValueError(f"{path}: lists or tables are nested too deeply for an experiment") from None
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def read_contents(path: Path) -> dict[str, Any]:
    """The tables of a file, unchecked."""
    return tomllib.loads(path.read_text(encoding="utf-8-sig"))


def build_experiment(found: dict[str, Any], folder: Path = Path()) -> Experiment:
    """An experiment from the content of a file; the files it loads are in `folder`."""
    known = [f.name for f in fields(Experiment) if f.name != "settings"] + ["rows"]
    check_keys("experiment key", found, known)
    missing = [key for key in ("title", "model", "data", "tasks", "rows") if key not in found]
    if missing:
        raise ValueError(f"{missing[0]} is missing")
    for key in ("title", "about", "model", "data", "without", "policy"):
        if key in found and not isinstance(found[key], str):
            raise ValueError(f"{key} must be a string, got {found[key]!r}")
    for key in ("rows", "paper"):
        if key in found and not tables(found[key]):
            raise ValueError(f"{key} must be a list of tables, each under [[{key}]], got {found[key]!r}")
    if not found["rows"] or type(found.get("n", 0)) is not int:
        raise ValueError("an experiment needs at least one table [[rows]], and n must be an int")
    if "image_size" in found:
        check_count("image_size", found["image_size"])
    tasks = check_tasks(found["tasks"])
    loaded = load_files(found.get("load", []), folder)
    whole = {key: value for key, value in found.items() if key not in OWN}
    generation = read_generation(found["generate"]) if "generate" in found else None
    whole.setdefault("n", 0)
    check_policy(whole.get("policy", "stages"))
    rows = [setting for row in found["rows"] for setting in expand(row, whole["n"], tasks)]
    whole["timesteps"] = read_timesteps(whole.get("timesteps"))
    experiment = Experiment(
        **whole,
        tasks=tasks,
        settings=tuple(rows),
        load=loaded,
        generate=generation,
        paper=tuple(found.get("paper", ())),
    )
    check_whole(experiment)
    return experiment


def read_timesteps(found: Any) -> Any:
    """A word or a profile's file as it is, ints as a tuple, None for the default."""
    if isinstance(found, list) and found and all(type(step) is int for step in found):
        return tuple(found)
    if found is not None and not isinstance(found, str):
        raise ValueError(f"timesteps must be a string or a list of ints, got {found!r}")
    return found


def read_generation(found: Any) -> Generation:
    """The table [generate]."""
    if not isinstance(found, dict):
        raise ValueError(f"generate must be a table, [generate] with a count, got {found!r}")
    check_keys("[generate] key", found, [f.name for f in fields(Generation)])
    if "count" not in found:
        raise ValueError("[generate] needs a count")
    for key in ("scheduler", "features"):
        if not isinstance(found.get(key, ""), str):
            raise ValueError(f"{key} must be a string, got {found[key]!r}")
    if type(found.get("guidance_scale", 1.0)) not in (int, float):
        raise ValueError(f"guidance_scale must be a number, got {found['guidance_scale']!r}")
    generation = Generation(**found)
    generation.sampling(0)
    return generation


def load_files(names: Any, folder: Path) -> dict[str, str]:
    """Run Python files, so that what they register can be used; -> hashes of their content."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f'load must be a list of Python files, such as ["my_operator.py"], got {names!r}')
    for name in names:
        load_file(folder / name)
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}


def check_whole(experiment: Experiment) -> None:
    labels = [setting.label for setting in experiment.settings]
    twice = {label for label in labels if labels.count(label) > 1}
    if twice:
        raise ValueError(f"two rows are called {min(twice)!r}; give them different names")
    if any("generate" in setting.tasks for setting in experiment.settings) and experiment.generate is None:
        raise ValueError("the task generate needs a table [generate] with a count")
    if type(experiment.seed) is not int:
        raise ValueError(f"seed must be an int, got {experiment.seed!r}")
    wanted = experiment.generate
    if wanted is not None and (type(wanted.count) is not int or wanted.count < 1):
        raise ValueError(f"count must be an int of at least 1, got {wanted.count!r}")
    if wanted is not None and wanted.features and wanted.count < 4:
        raise ValueError(f"count must be at least 4 for a distance between images, got {wanted.count}")
    if any("classify" in s.tasks and s.n < 1 for s in experiment.settings):
        raise ValueError("the task classify needs n, the number of images")


def expand(row: dict[str, Any], n: int, tasks: tuple[str, ...]) -> Iterator[Setting]:
    """The settings of a row, one for each combination of its swept values."""
    swept = {key: value for key, value in row.items() if key not in OF_ROW}
    for key, values in swept.items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"{miss('row key', key, OF_ROW)}; only a list of values is swept, got {values!r}")
    if not isinstance(row.get("name", ""), str) or type(row.get("n", 0)) is not int:
        raise ValueError(f"name must be a string and n an int, got the row {row}")
    if "cache" in row and not row.keys() & {"operator", "attach"}:
        row = row | {"operator": "none", "name": row.get("name", row["cache"])}
    if ("operator" in row) == ("attach" in row):
        raise ValueError(f"a row must have either operator or attach, got {row}")
    if "attach" in row and not (row["attach"] and tables(row["attach"]) and row.get("name")):
        raise ValueError(f"attach must be a list of tables, each with an operator, in a row with a name, got {row}")
    parts = row.get("attach") or [{key: row[key] for key in OF_ATTACH if key in row}]
    texts = [*(value for part in parts for value in part.values()), row.get("policy", ""), row.get("cache", "")]
    used = {name for value in texts for name in BRACES.findall(str(value))}
    if used != set(swept):
        raise ValueError(f"row {row.get('name', parts[0])!r} sweeps {sorted(swept)} but its braces are {sorted(used)}")
    for values in itertools.product(*swept.values()):
        chosen = dict(zip(swept, values, strict=True))
        attach = tuple(made for part in parts if (made := attachment(part, chosen)) is not None)
        name = row.get("name") or row["operator"]
        policy, steps = row_policy(row, chosen), row.get("num_inference_steps")
        own = policy, steps, read_timesteps(row.get("timesteps")), row_cache(row, partial(filled, values=chosen))
        setting = Setting(name, chosen, attach, row.get("n", n), check_tasks(row.get("tasks", tasks)), *own)
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


def attachment(part: dict[str, Any], values: dict[str, Any]) -> Compression | None:
    check_keys("attach key", part, OF_ATTACH)
    if not isinstance(part.get("operator"), str):
        raise ValueError(f"operator must be a string, such as 'todo(factor=2)', got {part}")
    if not isinstance(part.get("where", ""), str):
        raise ValueError(f"where must be a string, such as \"part='down'\", got {part['where']!r}")
    known: dict[str, Any] = {
        key: filled(value, values) if isinstance(value, str) else value for key, value in part.items()
    }
    return None if known["operator"] == "none" else Compression(**known)


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
