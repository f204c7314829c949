"""Images listed in a CSV file."""

import csv
from pathlib import Path
from typing import NamedTuple

from bigain.data.dataset import PROMPT, Dataset, Example
from bigain.data.files import listed
from bigain.data.loaders import DATASETS


class Row(NamedTuple):
    """One line of the file."""

    path: str
    labels: tuple[str, ...]
    captions: tuple[str, ...]


@DATASETS.register("csv")
def load_csv(file: str, prompts: str = PROMPT) -> Dataset:
    """Your own CSV file with columns path and label (several labels: cat|dog), and optionally caption."""
    source = Path(file).expanduser()
    rows = read_rows(source)
    classes = sorted({label for row in rows for label in row.labels})
    number = {label: k for k, label in enumerate(classes)}
    paths = listed(source.parent, [row.path for row in rows], source)
    examples = tuple(
        Example(row.path, path, tuple(number[label] for label in row.labels), row.captions)
        for row, path in zip(rows, paths, strict=True)
    )
    multilabel = any(len(row.labels) > 1 for row in rows)
    return Dataset(source.stem, "all", tuple(classes), examples, prompts, multilabel=multilabel)


def read_rows(source: Path) -> list[Row]:
    """Paths are relative to the file's folder, or absolute."""
    with source.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        columns = list(reader.fieldnames or ())
        if not {"path", "label"} <= set(columns):
            raise ValueError(f"{source} must have the columns path and label, got {', '.join(columns)}")
        rows = []
        for row in reader:
            labels = tuple(label.strip() for label in (row["label"] or "").split("|"))
            if not row["path"] or not all(labels) or len(set(labels)) < len(labels):
                raise ValueError(f"{source}, line {reader.line_num}: expected a path and unique labels, got {row}")
            caption = row.get("caption")
            rows.append(Row(row["path"], labels, (caption,) if caption else ()))
    if not rows:
        raise ValueError(f"{source} lists no images")
    return rows
