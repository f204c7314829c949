"""The options of `bigain analyze`, checked before anything heavy is imported or loaded."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bigain.commands.request import CompressionOptions
from bigain.registry import NONE
from bigain.zoo.catalog import bundled, locate

if TYPE_CHECKING:
    from bigain.commands.measuring import Measurement

DATA, IMAGES = "fashion-sample", 50
OTHER_DATA = {"cifar-unet": "cifar-10", "quickdraw-dit": "quickdraw-sample"}  # of models with other classes
OPERATORS = (
    "gated_merge(ratio=0.5)",
    "tome(ratio=0.5, pattern='fixed')",
    "block_merge(ratio=0.5)",
    "kv_downsample(factor=2)",
)
OF_FILE = ("n", "trials", "bands")  # options that go with an experiment file; a run's record takes none of them


@dataclass(frozen=True)
class AnalyzeRequest:
    """The options of `bigain analyze`; None is not given."""

    subject: str
    operator: tuple[str, ...] | None = None
    where: str | None = None
    groups: str | None = None
    correct: bool | None = None
    reuse: Any = None
    data: str | None = None
    n: int | None = None
    trials: int | None = None
    bands: int | None = None
    seed: int | None = None
    rivals: int = 3

    @property
    def kind(self) -> Literal["record", "file", "model"]:
        """What the subject is: the record of a run or its folder, an experiment file, or a model."""
        place = Path(self.subject)
        if self.subject in bundled():
            return "model"
        if place.suffix == ".toml":
            return "file"
        if place.is_file() or place.suffix == ".sqlite":
            return "record"
        if not place.is_dir():
            return "model"
        from bigain.experiments.folder import FILE

        return "record" if (place / FILE).is_file() else "model"

    def check(self) -> None:
        """Raise for words that cannot be meant."""
        allowed = {"record": (), "file": OF_FILE}.get(self.kind)
        given = [field.name for field in fields(self)[1:-1] if getattr(self, field.name) is not None]
        wrong = [name for name in given if allowed is not None and name not in allowed]
        if wrong:
            what = "a run, whose errors are recorded" if self.kind == "record" else "an experiment file with its rows"
            raise ValueError(f"{self.subject} is {what}; leave out --{wrong[0]}")
        if self.kind == "file" and not Path(self.subject).is_file():
            raise FileNotFoundError(f"no file {self.subject}")
        if self.kind != "model":
            return
        locate(self.subject)
        for options in self.compressions():
            options.check()

    def compressions(self) -> list[CompressionOptions]:
        """The options of each operator."""
        same = CompressionOptions(None, self.where, self.reuse, self.groups, self.correct)
        return [replace(same, operator=text) for text in self.operator or OPERATORS]

    def measurement(self) -> "Measurement":
        """What is to be measured of a model, or of an experiment's."""
        from bigain.classify.policies import Exhaustive, parse_policy
        from bigain.classify.presets import is_preset
        from bigain.commands.measuring import Measurement
        from bigain.compression import Compression
        from bigain.experiments.attaching import Place, attachments
        from bigain.experiments.experiment import Experiment, read_experiment
        from bigain.experiments.setting import Setting

        asked = {"trials": self.trials, "bands": self.bands, "rivals": self.rivals}
        given = {key: value for key, value in asked.items() if value is not None}
        if self.kind == "file":
            experiment = read_experiment(Path(self.subject))
            policy = None if is_preset(experiment.policy) else parse_policy(experiment.policy)
            own = {"trials": policy.trials} if isinstance(policy, Exhaustive) else {}
            return Measurement(experiment, **own | given)
        n, rows = self.n or IMAGES, list[Setting]()
        for options in self.compressions():
            compression = options.compression("input" if self.correct else None)  # what is corrected is shared
            if compression is None or isinstance(compression, Compression):
                attach: tuple[Compression, ...] = () if compression is None else (compression,)
                name = NONE if compression is None else str(compression)
            else:  # a preset or a setting
                name = str(options.name)
                attach = attachments({"operator": name}, Place(Path(), self.subject)).parts
            rows.append(Setting(name, {}, attach, n, ("classify",)))
        twice = next((row.name for row in rows if sum(row.name == other.name for other in rows) > 1), None)
        if twice is not None:
            raise ValueError(f"operators must differ, got {twice} more than once")
        data, seed = self.data or OTHER_DATA.get(self.subject, DATA), self.seed or 0
        experiment = Experiment(self.subject, self.subject, data, n, ("classify",), tuple(rows), seed=seed)
        return Measurement(experiment, **given)
