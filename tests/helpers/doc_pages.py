"""Pages as a reader runs them: the blocks of a Markdown file in their order, in one folder and one namespace."""

import importlib
import io
import os
import re
import runpy
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from typer.testing import CliRunner

from bigain.classify.policies import POLICIES
from bigain.cli import app
from bigain.data import DATASETS
from bigain.models import FAMILIES
from bigain.operators import OPERATORS
from bigain.tokens.scores import SCORERS

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
REGISTRIES: tuple[Any, ...] = (DATASETS, OPERATORS, POLICIES, SCORERS)
TITLE = re.compile(r'(\w+)(?: title="([^"]+)")?')
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.(\d+))?(?:e([-+]\d+))?(?![\w.])")
SKIP = "…"


class Block(NamedTuple):
    """A fenced block; `line` is that of its first line of code, from 1."""

    page: str
    line: int
    language: str
    title: str | None
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}, line {self.line}"

    @property
    def kind(self) -> str:
        """What is done with it: written to a file, run, compared with what the block before it printed, or nothing."""
        if self.title is not None:
            return "file"
        kinds = {"python": "python", "sh": "commands", "text": "output", "bibtex": "quote", "math": "quote"}
        if self.language not in kinds:
            raise ValueError(
                f"{self.place}: cannot tell what a block of {self.language!r} is for; write python or sh to have it "
                'run, text for what the block before printed, or give it a title="name" to have it written to a file'
            )
        return kinds[self.language]


def read_blocks(path: Path) -> list[Block]:
    """All blocks of code of a page; indented ones are refused, as nothing says what they are."""
    found = []
    for token in MarkdownIt("commonmark").parse(path.read_text()):
        if token.type not in ("fence", "code_block"):
            continue
        line = (token.map or [0])[0] + 2
        match = TITLE.fullmatch(token.info.strip())
        if token.type == "code_block" or match is None:
            raise ValueError(f"{path.name}, line {line - 1}: a block of code needs a fence and a language")
        found.append(Block(path.name, line, match[1], match[2], token.content))
    return found


class StandIn(NamedTuple):
    """What a test puts in the place of a text on a page, and why; {name} in `new` is a folder of the test's."""

    old: str
    new: str
    why: str


class Page:
    """A page that is being run, in the current folder."""

    def __init__(self, stand_ins: tuple[StandIn, ...], not_run: dict[str, str], folders: Callable[[str], str]) -> None:
        self.stand_ins = stand_ins
        self.not_run = not_run
        self.folders = folders
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.printed: str | None = None  # by the last block that ran as it stands on the page

    def run(self, block: Block) -> None:
        text = self.replaced(block.text)
        if block.kind == "quote":
            return
        if block.kind == "output":
            if self.printed is None:
                raise ValueError(f"{block.place}: output needs a block before it that ran as it is, without stand-ins")
            compare(block.text, self.printed, block.place)
            self.printed = None
            return
        if block.kind == "file":
            Path(str(block.title)).write_text(text)
            return
        output = io.StringIO()
        with redirect_stdout(output):
            if block.kind == "python":
                code = "\n" * (block.line - 1) + text  # so that errors name the line of the page
                exec(compile(code, block.page, "exec"), self.names)
            else:
                for command in commands(text):
                    self.command(command, block.place)
        self.printed = output.getvalue() if text == block.text else None

    def replaced(self, text: str) -> str:
        for stand_in in self.stand_ins:
            if stand_in.old in text:
                new = re.sub(r"{(\w+)}", lambda match: self.folders(match[1]), stand_in.new)
                text = text.replace(stand_in.old, new)
        return text

    def command(self, line: str, place: str) -> None:
        if line in self.not_run:
            return
        words = shlex.split(line, comments=True)
        if words[:1] == ["bigain"]:
            sys.stdout.write(run_bigain(words[1:], place))
        elif words[:1] == ["python"] and words[1].endswith(".py"):
            run_script(Path(words[1]), words[2:])
        else:
            raise ValueError(f"{place}: cannot run {line!r}; name it in NOT_RUN with a reason, or take it off the page")


def commands(text: str) -> list[str]:
    """The lines of a shell block without comments, those that end in a backslash joined."""
    lines = [re.sub(r"(^|\s)#.*", "", line).strip() for line in text.replace("\\\n", " ").splitlines()]
    return [" ".join(line.split()) for line in lines if line]


def run_bigain(words: list[str], place: str) -> str:
    """A command as if in a process of its own: what it registers is forgotten."""
    with isolated():
        result = CliRunner().invoke(app, words)
    if result.exit_code:
        raise AssertionError(f"{place}: bigain {shlex.join(words)} ended with {result.exit_code}:\n{result.output}")
    return result.stdout


def run_script(path: Path, words: list[str]) -> None:
    before = sys.argv
    sys.argv = [str(path), *words]
    try:
        with isolated():
            runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.argv = before


@contextmanager
def isolated() -> Iterator[None]:
    """What is registered or imported from the current folder inside is forgotten afterwards."""
    known = [(registry._items, dict(registry._items)) for registry in REGISTRIES]
    families, modules = list(FAMILIES), set(sys.modules)
    try:
        yield
    finally:
        for items, before in known:
            items.clear()
            items.update(before)
        FAMILIES[:] = families
        here = os.getcwd()
        for name in set(sys.modules) - modules:
            if str(getattr(sys.modules[name], "__file__", None) or "").startswith(here):
                del sys.modules[name]


@contextmanager
def world(folder: Path) -> Iterator[None]:
    """Work in a folder whose Python files can be imported, as at a prompt there."""
    before = os.getcwd()
    with ExitStack() as stack:
        os.chdir(folder)
        sys.path.insert(0, str(folder))
        stack.callback(os.chdir, before)
        stack.callback(sys.path.remove, str(folder))
        stack.callback(importlib.invalidate_caches)
        stack.enter_context(isolated())
        stack.enter_context(warnings.catch_warnings())
        # what diffusers' own schedulers do with numpy 2
        warnings.filterwarnings("ignore", "__array_", DeprecationWarning)
        yield


def compare(shown: str, printed: str, place: str) -> None:
    """Line by line; a line … stands for any number of lines, and numbers may differ as those of other machines do."""
    lines = [line for line in printed.splitlines() if line.strip()]
    at, free = 0, False
    for expected in [line for line in shown.splitlines() if line.strip()]:
        if expected.strip() == SKIP:
            free = True
            continue
        while free and at < len(lines) and not alike(expected, lines[at]):
            at += 1
        if at == len(lines) or not alike(expected, lines[at]):
            raise AssertionError(f"{place}: the page shows\n{expected}\nbut what was printed is\n{printed}")
        at, free = at + 1, False
    if not free and at < len(lines):
        raise AssertionError(f"{place}: the page lacks the line\n{lines[at]}\nof what was printed:\n{printed}")


def alike(expected: str, found: str) -> bool:
    """The same words, and numbers that differ by no more than one in their last place or one per cent."""
    if squeezed(NUMBER.sub("#", expected)) != squeezed(NUMBER.sub("#", found)):
        return False
    pairs = zip(NUMBER.finditer(expected), NUMBER.finditer(found), strict=True)
    return all(abs(float(a[0]) - float(b[0])) <= max(last_place(a), abs(float(a[0])) / 100) for a, b in pairs)


def last_place(number: re.Match[str]) -> float:
    return 1.01 * 10.0 ** (int(number[2] or 0) - len(number[1] or "")) if number[1] or number[2] else 0.0


def squeezed(line: str) -> str:
    """Without what depends on the widths of columns."""
    return " ".join(re.sub(r"[━─═]+", "─", line).split())
