"""Experiments as TOML files: which model, data, tasks and operators, with values to sweep."""

import hashlib
import tomllib
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from bigain.checks import check_count
from bigain.classify.presets import check_policy, policy_identity
from bigain.experiments.attaching import Place
from bigain.experiments.calibration import Calibration, read_calibration
from bigain.experiments.setting import Setting, check_keys, check_tasks, expand, read_timesteps, tables
from bigain.generation import Sampling
from bigain.plugins import load_file
from bigain.pruning.methods import parse_method

OWN = ("rows", "load", "generate", "calibration", "paper", "tasks")  # keys whose values are not taken as they are


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
    calibration: Calibration | None = None  # images for rows that prune
    load: dict[str, str] = field(default_factory=dict)  # Python files that register its operators: their hashes
    paper: tuple[dict[str, Any], ...] = field(default=(), compare=False)

    def identity(self) -> dict[str, Any]:
        """What decides the results: everything except texts and the paper's numbers."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        for key in ("title", "about", "paper", "settings", "n", "tasks"):
            del found[key]
        found["generate"] = None if self.generate is None else asdict(self.generate)
        found["calibration"] = None if self.calibration is None else asdict(self.calibration)
        found["timesteps"] = self.timesteps or "even"
        found["policy"] = policy_identity(self.policy)
        for key in ("load", "image_size", "calibration"):  # records of experiments without them do not have the keys
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
    place = Place(folder, whole["model"])
    rows = [setting for row in found["rows"] for setting in expand(row, whole["n"], tasks, place)]
    whole["timesteps"] = read_timesteps(whole.get("timesteps"))
    experiment = Experiment(
        **whole,
        tasks=tasks,
        settings=tuple(rows),
        load=loaded,
        generate=generation,
        calibration=read_calibration(found["calibration"]) if "calibration" in found else None,
        paper=tuple(found.get("paper", ())),
    )
    check_whole(experiment)
    return experiment


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
    methods = [parse_method(setting.prune) for setting in experiment.settings if setting.prune]
    if any(method.needs_images for method in methods) and experiment.calibration is None:
        raise ValueError("a row with prune needs a table [calibration] with data, of other images than those of data")
    if any("classify" in s.tasks and s.n < 1 for s in experiment.settings):
        raise ValueError("the task classify needs n, the number of images")
