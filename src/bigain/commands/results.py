"""Classification results as CSV or JSON Lines, written row by row, and continued after an interruption."""

import csv
import hashlib
import io
import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bigain.escape import csv_cell, from_csv_cell


class Result(NamedTuple):
    """One classified file, ready for a table, JSON or CSV."""

    path: str
    label: str
    probability: float
    margin: float
    margin_error: float
    evaluations: int
    top: list[tuple[str, float]]
    truth: str | None


COLUMNS = (*Result._fields, "settings")


class CsvFormat:
    """A header, then one row per image; `top` is JSON, and text that a spreadsheet would run begins with a '."""

    head = (",".join(COLUMNS) + "\n").encode()

    def encode(self, result: Result, settings: str) -> bytes:
        text = io.StringIO()
        texts = [csv_cell(value) for value in result._replace(top=[], truth=result.truth or "")]
        texts[COLUMNS.index("top")] = json.dumps(result.top)
        csv.writer(text, lineterminator="\n").writerow([*texts, settings])
        return text.getvalue().encode(errors="surrogateescape")  # names that are not UTF-8

    def whole(self, data: bytes) -> int:
        """The length of the complete rows: a newline within quotes does not end a row."""
        end, quotes, start = 0, 0, 0
        while (line_end := data.find(b"\n", start)) >= 0:
            quotes += data.count(b'"', start, line_end)
            start = line_end + 1
            end = start if quotes % 2 == 0 else end
        return end

    def rows(self, data: bytes) -> Iterator[dict[str, Any]]:
        for row in csv.DictReader(io.StringIO(data.decode(errors="surrogateescape"), newline="")):
            if None in row or None in row.values():
                raise ValueError(f"a row must have {len(COLUMNS)} cells")
            texts = {key: from_csv_cell(row[key]) for key in ("path", "label", "truth")}
            numbers = {key: float(row[key]) for key in ("probability", "margin", "margin_error")}
            counted = {"evaluations": int(row["evaluations"]), "top": json.loads(row["top"])}
            yield {**row, **texts, **numbers, **counted, "truth": texts["truth"] or None}


class JsonLines:
    """One object per line; null for NaN and infinity."""

    head = b""

    def encode(self, result: Result, settings: str) -> bytes:
        found = {**result._asdict(), "settings": settings}
        known = {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in found.items()}
        return (json.dumps(known) + "\n").encode()

    def whole(self, data: bytes) -> int:
        return data.rfind(b"\n") + 1

    def rows(self, data: bytes) -> Iterator[dict[str, Any]]:
        for line in data.splitlines():
            row = dict(json.loads(line))
            yield row | {key: math.nan if row[key] is None else row[key] for key in ("margin", "margin_error")}


FORMATS: dict[str, CsvFormat | JsonLines] = {".csv": CsvFormat(), ".jsonl": JsonLines()}


class Kept(NamedTuple):
    """The content of an existing file: results by the real path of their image, and the length of its complete rows."""

    results: dict[str, Result]
    length: int


def format_of(path: Path) -> CsvFormat | JsonLines:
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"--out must end in {' or '.join(FORMATS)}, got {path}")
    return FORMATS[path.suffix.lower()]


def settings_key(settings: dict[str, Any]) -> str:
    """A short hash of everything that decides the results."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def check_new(path: Path) -> None:
    """Check that a file does not exist, is empty, or has only a header."""
    form = format_of(path)
    if path.exists() and path.read_bytes()[: len(form.head) + 1] not in (b"", form.head):
        raise ValueError(f"{path} already exists; continue it with --resume, or use another file")


def read_kept(path: Path, settings: str) -> Kept:
    """The results in a file written with the same settings; an incomplete last row, left by a kill, is dropped."""
    form = format_of(path)
    data = path.read_bytes() if path.exists() else b""
    length = form.whole(data)
    if not length:
        return check_half(path, data, form.head)
    if not data.startswith(form.head):
        raise foreign(path, "its first line differs")
    try:
        rows = [(row["settings"], as_result(row)) for row in form.rows(data[:length])]
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise foreign(path, f"{type(error).__name__}: {error}") from error
    for other, _ in rows:
        if other != settings:
            raise ValueError(
                f"{path} was written with other settings ({other}, now {settings}): model, weights, classes, operator, "
                "policy, seed or --top differ; use the same settings, or another file"
            )
    check_here(path, [result.path for _, result in rows])
    return Kept({os.path.realpath(result.path): result for _, result in rows}, length)


def as_result(row: dict[str, Any]) -> Result:
    found = Result(**{key: row[key] for key in Result._fields})
    return found._replace(top=[(str(name), float(chance)) for name, chance in found.top])


def check_half(path: Path, data: bytes, head: bytes) -> Kept:
    """Accept the beginning of a row or of the header, and nothing else."""
    begun = head.startswith(data) if head else data.startswith(b"{") or not data
    if not begun:
        raise foreign(path, "it has no complete line")
    return Kept({}, 0)


def foreign(path: Path, reason: str) -> ValueError:
    return ValueError(f"{path} was not written by `bigain classify --out` ({reason}); use another file")


def check_here(path: Path, names: Sequence[str]) -> None:
    """Relative paths only work in the folder of the first run."""
    relative = [name for name in names if not os.path.isabs(name)]
    if relative and not any(os.path.exists(name) for name in relative):
        raise ValueError(
            f"{path} has image paths relative to another folder, first {relative[0]}; run the command in the folder "
            "of the first run"
        )


class Growing:
    """The file, open for more rows. A row that cannot be written completely is removed again."""

    def __init__(self, path: Path, settings: str, length: int) -> None:
        self.form, self.settings = format_of(path), settings
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = path.open("ab", buffering=0)
        self.file.truncate(length)
        if not length:
            self._write(self.form.head)

    def __enter__(self) -> "Growing":
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def add(self, result: Result) -> None:
        self._write(self.form.encode(result, self.settings))

    def _write(self, data: bytes) -> None:
        length = os.fstat(self.file.fileno()).st_size
        try:
            written = 0
            while written < len(data):
                written += self.file.write(data[written:]) or 0
        except OSError:
            self.file.truncate(length)
            raise
