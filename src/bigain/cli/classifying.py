"""The work of `bigain classify`: rows one by one, the output file, and the summary."""

import hashlib
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer
from rich.cells import cell_len
from rich.progress import Progress, TaskID

from bigain.cli.console import Code, err, interrupted, left_out, out, print_json, say, warn
from bigain.escape import terminal

if TYPE_CHECKING:
    from bigain.cluster.connect import ClusterOptions
    from bigain.commands.request import ClassifyRequest
    from bigain.commands.results import Result
    from bigain.data.images import Found

WIDEST = 60  # letters of a path for which the other columns make room


class Output(NamedTuple):
    """Where results go."""

    file: Path | None
    resume: bool
    as_json: bool
    top: int

    def check(self) -> None:
        """Check first that the file can be created or continued."""
        from bigain.commands.results import check_new, format_of

        if self.file is None:
            if self.resume:
                raise ValueError("--resume needs --out FILE, the file to continue")
            return
        format_of(self.file)
        if not self.resume:
            check_new(self.file)


def settings_of(request: "ClassifyRequest", top: int, loaded: Sequence[Path]) -> str:
    """A hash of everything that decides the results, including files given to --load."""
    from bigain.commands.results import settings_key

    files = [hashlib.sha256(path.read_bytes()).hexdigest() for path in loaded]
    return settings_key(request.settings(top=top, load=files))


class Classifying:
    """One run of the command."""

    def __init__(self, found: "Found", output: Output, settings: str) -> None:
        from bigain.commands.classify import Tally
        from bigain.commands.results import Kept, read_kept

        self.output, self.settings = output, settings
        self.left_out: dict[str, str] = {}
        self.spent = 0  # evaluations of the network
        self.tally, self.rows = Tally(), Rows(found.images)
        self.results: dict[str, Result] = {}  # all of them only for --json
        self.images = found.images
        self.kept = read_kept(output.file, settings) if output.file and output.resume else Kept({}, 0)
        for name, reason in found.left_out.items():
            self.leave_out(name, reason)

    def run(self, request: "ClassifyRequest", options: "ClusterOptions | None" = None) -> None:
        todo = [path for path in self.images if not self.take_kept(path)]
        if self.tally.done:
            warn("", f"{self.tally.done} of {len(self.images)} images are already in {self.output.file}")
        try:
            self.classify(todo, request, options)
        except KeyboardInterrupt:
            self.report()
            interrupted(self.standing())
        self.report()
        if self.left_out:
            raise typer.Exit(Code.LEFT_OUT)

    def take_kept(self, path: Path) -> bool:
        """Whether the file already has the result of an image; if so, count it."""
        known = self.kept.results.get(os.path.realpath(path))
        if known is not None:
            self.count(known._replace(path=str(path)))
        return known is not None

    def count(self, result: "Result") -> None:
        self.tally.add(result)
        self.spent += result.evaluations
        if self.output.as_json:
            self.results[result.path] = result

    def classify(self, todo: list[Path], request: "ClassifyRequest", options: "ClusterOptions | None") -> None:
        from bigain.commands.results import Growing

        with ExitStack() as stack:
            file = None
            if self.output.file:
                file = stack.enter_context(Growing(self.output.file, self.settings, self.kept.length))
            if not todo:
                return
            with err.status("loading the model"):  # imports, too
                from bigain.commands.classify import classify_each
            bars, task = stack.enter_context(shown_progress(len(todo)))

            def unreadable(name: str, reason: str) -> None:
                self.leave_out(name, reason)
                bars.advance(task)

            if options is None:
                found = classify_each(todo, request, unreadable)
            else:
                from bigain.commands.on_cluster import classify_on_cluster

                found = classify_on_cluster(todo, request, options, unreadable, lambda text: warn("", text))
            for _, whole in found:
                result = whole._replace(top=whole.top[: self.output.top])
                if file:
                    file.add(result)
                self.count(result)
                if not self.output.as_json:
                    self.rows.show(result, [name for name, _ in whole.top])
                text = f"classifying, {self.spent / self.tally.done:.0f} evaluations per image"
                bars.update(task, advance=1, description=text)

    def leave_out(self, name: str, reason: str) -> None:
        self.left_out[name] = reason
        left_out("not classified", name, reason)

    def report(self) -> None:
        """The JSON document, or the accuracy."""
        from bigain.commands.classify import as_json

        if self.output.as_json:
            order = [str(path) for path in self.images]
            print_json(as_json([self.results[p] for p in order if p in self.results], self.left_out, self.tally))
            return
        share = self.tally.accuracy()
        if share is not None:
            rest = self.tally.done - share.n
            left = f"; {rest} other image{'s' * (rest > 1)} in folders not named after a class" if rest else ""
            say(f"accuracy {share}{left}")

    def standing(self) -> str:
        """What is done and kept after an interruption."""
        done = f"{self.tally.done} of {len(self.images)} images are done"
        if self.output.file:
            return f"{done} and saved in {self.output.file}; continue with --resume"
        return f"{done}; use --out FILE to keep results"


@contextmanager
def shown_progress(total: int) -> Iterator[tuple[Progress, TaskID]]:
    """A progress bar below the rows if they are on a terminal, otherwise on standard error."""
    from bigain.progress import progress_bars

    with progress_bars(out if out.is_terminal else err) as bars:
        yield bars, bars.add_task("classifying", total=total)


class Rows:
    """Results as lines with aligned columns, after a header."""

    def __init__(self, images: Sequence[Path]) -> None:
        self.width = min(WIDEST, max((cell_len(terminal(str(path))) for path in images), default=0))
        self.begun = False

    def show(self, result: "Result", classes: Sequence[str]) -> None:
        label = max(map(cell_len, map(terminal, ["label", *classes])))
        if not self.begun:
            self.begun = True
            more = "next" if len(result.top) > 1 else ""
            say(line([("image", self.width), ("label", label), ("probability", -11), ("margin", -16), (more, 0)]))
        chance, others = f"{result.probability:.3f}", ", ".join(f"{name} {p:.3f}" for name, p in result.top[1:])
        cells = [(result.path, self.width), (result.label, label), (chance, -11), (margin_text(result), -16)]
        say(line([*cells, (others, 0)]))


def line(cells: Sequence[tuple[str, int]]) -> str:
    """Texts padded to their widths; negative widths align right."""
    return "  ".join(padded(terminal(text), width) for text, width in cells).rstrip()


def padded(text: str, width: int) -> str:
    space = " " * (abs(width) - cell_len(text))
    return text + space if width >= 0 else space + text


def margin_text(result: "Result") -> str:
    """The margin with its standard error, which one trial does not have."""
    if math.isnan(result.margin):
        return "–"
    return f"{result.margin:.2e}" + ("" if math.isnan(result.margin_error) else f" ± {result.margin_error:.0e}")
