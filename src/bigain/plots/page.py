"""The page of `bigain demo`: one self-contained HTML file. It lays out what was measured."""

import base64
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import NamedTuple

from bigain.escape import html as escape
from bigain.experiments.report import Report, Row
from bigain.experiments.tables import Column, columns, footnote, signed
from bigain.metrics.intervals import Share
from bigain.plots.parts import bars, first_line
from bigain.plots.reading import counted, uncompressed

TEMPLATE = Path(__file__).with_name("page.html")
HEADS = {
    "setting": "what is attached to the model",
    "accuracy %": "share of right answers with its 95 % interval, on a scale from 0 to 100 %",
    "same label %": "share of answers that agree with the uncompressed model, right or wrong",
    "SSIM": "similarity of generated images to the uncompressed ones of the same seeds; 1 means equal",
    "MFLOPs": "millions of operations in one forward pass of one sample",
    "saved %": "share of these operations that is saved",
    "tokens": "at each compressed attention, before and after; only keys where all queries stay",
}
OPERATORS = {
    "tome": "Similar tokens are merged. The tokens that others merge into are drawn at random.",
    "gated_merge": "Similar tokens are merged. In each 2x2 cell, others merge into the smoothest token.",
    "kv_downsample": "All queries stay. Keys and values come from a coarser grid.",
}
CHANCE = 0.05
NO_CURVES = "The accuracy curves need matplotlib: pip install bigain[plots], then start the demo again."


class Picture(NamedTuple):
    """A PNG with its caption; `details` are lines that are shown on demand."""

    png: bytes
    title: str
    words: str
    alt: str
    details: Sequence[str] = ()


class Maps(NamedTuple):
    """What happens to the tokens of one image."""

    name: str
    pictures: list[Picture]


class Content(NamedTuple):
    """All that the page shows."""

    report: Report
    fast: Report  # of what each part contributes to a faster decision
    specs: dict[str, str]  # operator of each compressed setting
    answers: list[Picture]
    generated: list[Picture]
    maps: list[Maps]
    maps_words: str
    curves: list[Picture] | None  # None where they cannot be drawn
    commands: list[str]


def chosen_columns(report: Report) -> list[Column]:
    """The columns that a newcomer needs."""
    found = {column.head: column for column in columns(report)}
    return [found[head] for head in HEADS]


def make_page(content: Content) -> str:
    """The whole file."""
    report = content.report
    specs = {f"{escape(label)} <code>{escape(spec)}</code>": about(spec) for label, spec in content.specs.items()}
    parts = {
        "title": escape(report.title),
        "model": escape(report.experiment["model"]),
        "data": escape(report.experiment["data"]),
        "first_line": escape(first_line(content.fast)),
        "bars": bars(content.fast),
        "fast_footnote": escape(footnote(content.fast)),
        "table": table(report),
        "story": "\n".join(f"<div><h3>{escape(a)}</h3><p>{escape(b)}</p></div>" for a, b in story(report).items()),
        "operators": definitions(specs),
        "columns": definitions(dict(list(HEADS.items())[1:])),
        "answers": figures(content.answers),
        "generated": figures(content.generated),
        "maps_words": escape(content.maps_words),
        "maps": "\n".join(map_row(maps) for maps in content.maps),
        "curves": curves(content.curves),
        "commands": escape("\n".join(content.commands)),
        "footnote": escape(footnote(report)),
    }
    return Template(TEMPLATE.read_text()).substitute(parts)


def bare_page(title: str, name: str, lead: str, body: str) -> str:
    """A page in the style of the demo's with another content, which is HTML."""
    head = Template(TEMPLATE.read_text().partition("<body>")[0]).substitute(title=escape(title))
    top = f'<p class="name">{escape(name)}</p>\n<h1>{escape(title)}</h1>\n<p class="lead">{escape(lead)}</p>'
    return f"{head}<body>\n<header>\n{top}\n</header>\n<main>\n{body}\n</main>\n</body>\n</html>\n"


def section(head: str, body: str) -> str:
    """A section whose body is HTML."""
    return f"<section>\n<h2>{escape(head)}</h2>\n{body}\n</section>"


def about(spec: str) -> str:
    return OPERATORS[spec.split("(")[0]]


def table(report: Report) -> str:
    """Roles are written out because narrow screens show a row as a card, and display: block would hide them."""
    heads = chosen_columns(report)
    cells = "".join(f'<th role="columnheader" scope="col">{escape(column.head)}</th>' for column in heads)
    rows = "\n".join(table_row(row, heads) for row in report.rows)
    return (
        f'<table role="table">\n<thead role="rowgroup"><tr role="row">{cells}</tr></thead>\n'
        f'<tbody role="rowgroup">\n{rows}\n</tbody>\n</table>'
    )


def table_row(row: Row, heads: Sequence[Column]) -> str:
    found = [f'<th role="rowheader" scope="row">{escape(row.label)}</th>']
    for column in heads[1:]:
        text = f"<span>{escape(column.text(row)) or '–'}</span>"
        if column.head == "accuracy %" and row.accuracy:
            text += bar(row.accuracy)
        found.append(f'<td role="cell" data-head="{escape(column.head)}">{text}</td>')
    return f'<tr role="row">{"".join(found)}</tr>'


def bar(share: Share) -> str:
    """The interval as a line with a mark at the value, on a scale from 0 to 100 %."""
    value, low, high = (f"{100 * part:.1f}" for part in (share.value, share.low, share.high))
    return (
        '<svg class="range" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        '<line class="axis" x1="0" x2="100" y1="5" y2="5"/>'
        f'<line x1="{low}" x2="{high}" y1="5" y2="5"/>'
        f'<line class="value" x1="{value}" x2="{value}" y1="0" y2="10"/></svg>'
    )


def story(report: Report) -> dict[str, str]:
    """What the numbers say in plain words, and what they cannot say."""
    dense = uncompressed(report)
    assert dense is not None  # a row of the demo's file
    rows = [row for row in report.rows if row is not dense]
    return {
        "Does it still classify?": f"{accuracies(dense, rows)} {verdict(rows)}",
        "Does it still generate?": likeness(rows),
        "Is it faster?": times([dense, *rows]),
    }


def accuracies(dense: Row, rows: Sequence[Row]) -> str:
    shares = [row.accuracy for row in [dense, *rows] if row.accuracy]
    others = [
        f"{share.hits} with {row.label} ({minus(signed(row.change))} points)"
        for row, share in zip(rows, shares[1:], strict=True)
    ]
    return (
        f"Of the same {shares[0].n} real test images, none of them seen in training, the model gets "
        f"{listed([f'{shares[0].hits} right as it is', *others])}."
    )


def verdict(rows: Sequence[Row]) -> str:
    changes = [row.change for row in rows if row.change]
    n = counted(change.n for change in changes)
    clear = [row.label for row in rows if row.p is not None and row.p < CHANCE]
    if clear:
        return (
            f"Beyond chance ({n}, McNemar's test with Holm's correction): {listed(clear)}. Of all else, and of which "
            "operator is best, this demo is too small to tell."
        )
    low, high = (100 * end for end in (min(c.low for c in changes), max(c.high for c in changes)))
    return (
        f"None of these differences is beyond chance ({n}, McNemar's test with Holm's correction). That is not the "
        f"same as no difference: anything from {minus(f'{low:+.0f}')} to {minus(f'{high:+.0f}')} points would fit, so "
        "this demo is too small to tell which operator is best."
    )


def likeness(rows: Sequence[Row]) -> str:
    found = counted(row.samples.n for row in rows if row.samples)
    return (
        f"Compare the same seeds below ({found} a setting). SSIM says how much an image differs from the uncompressed "
        "one, not how good it is: a different image may be as good. A Fréchet distance would judge quality. With so "
        "few images it would mostly measure how few they are, so there is none here."
    )


def times(rows: Sequence[Row]) -> str:
    saved = sorted(100 * row.saved for row in rows if row.saved)
    found = [f"{row.label} {1000 * row.seconds:.1f} ms" for row in rows if row.seconds]
    return (
        f"The operators save {saved[0]:.1f} to {saved[-1]:.1f} % of the operations. Operations are not time, and this "
        f"model is small. In this run one evaluation took: {listed(found)}. Other work on the machine changes these "
        "times, but no other number on this page."
    )


def minus(text: str) -> str:
    """Numbers with the proper sign."""
    return text.replace("-", "−")


def listed(words: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def definitions(found: dict[str, str]) -> str:
    """Terms may hold HTML; their meanings are text."""
    return "<dl>\n" + "\n".join(f"<div><dt>{a}</dt><dd>{escape(b)}</dd></div>" for a, b in found.items()) + "\n</dl>"


def figures(pictures: Sequence[Picture]) -> str:
    return "\n".join(figure(picture) for picture in pictures)


def figure(picture: Picture) -> str:
    caption = f"<strong>{escape(picture.title)}</strong><span>{escape(picture.words)}</span>"
    if picture.details:
        lines = "".join(f"<li>{escape(line)}</li>" for line in picture.details)
        caption += f"<details><summary>which ones</summary><ul>{lines}</ul></details>"
    return f"<figure>{image(picture)}<figcaption>{caption}</figcaption></figure>"


def image(picture: Picture) -> str:
    data = base64.b64encode(picture.png).decode()
    return f'<img src="data:image/png;base64,{data}" alt="{escape(picture.alt)}">'


def map_row(maps: Maps) -> str:
    return f'<h3>{escape(maps.name)}</h3>\n<div class="row maps">\n{figures(maps.pictures)}\n</div>'


def curves(pictures: list[Picture] | None) -> str:
    """The section of the committed records; nothing where there are none."""
    if pictures == []:
        return ""
    head = "<h2>Accuracy curves from larger runs</h2>"
    if pictures is None:
        return f"<section>\n{head}\n<p>{escape(NO_CURVES)}</p>\n</section>"
    charts = [
        f'<figure><div class="chart" tabindex="0">{image(picture)}</div>'
        f"<figcaption><span>{escape(picture.words)}</span></figcaption></figure>"
        for picture in pictures
    ]
    return f"<section>\n{head}\n" + "\n".join(charts) + "\n</section>"
