"""Pieces of HTML that several tabs show. All text from outside is escaped here."""

import base64
from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image

from bigain.escape import html as escape
from bigain.experiments.compute import png


def data_uri(picture: Image.Image) -> str:
    return f"data:image/png;base64,{base64.b64encode(png(picture)).decode()}"


def figure(picture: Image.Image, title: str, alt: str) -> str:
    return (
        f'<figure class="pixels"><img src="{data_uri(picture)}" alt="{escape(alt)}">'
        f"<figcaption>{escape(title)}</figcaption></figure>"
    )


class Meter(NamedTuple):
    """One cost under two settings."""

    name: str
    values: tuple[float, float]
    texts: tuple[str, str]
    note: str = ""


def meters(names: tuple[str, str], rows: Sequence[Meter]) -> str:
    """Bars of costs under two settings, each row on its own scale."""
    return f'<div class="meters" role="group" aria-label="costs">{"".join(meter(names, row) for row in rows)}</div>'


def meter(names: tuple[str, str], row: Meter) -> str:
    whole = max(*row.values, 1e-12)
    bars = "".join(
        f'<div class="meter {kind}"><span>{escape(name)}</span><span class="track" aria-hidden="true">'
        f'<i style="width: {100 * value / whole:.1f}%"></i></span><b>{escape(text)}</b></div>'
        for kind, name, value, text in zip(("plain", "own"), names, row.values, row.texts, strict=True)
    )
    return f"<section><h4>{escape(row.name)} <small>{escape(row.note)}</small></h4>{bars}</section>"


def less(before: float, after: float) -> str:
    """`12.3 % less`, or more."""
    if not before:
        return ""
    change = 100 * (1 - after / before)
    return f"{abs(change):.1f} % {'less' if change >= 0 else 'more'}"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def flops(count: float) -> str:
    """`12.3 MFLOPs`, or GFLOPs, or TFLOPs."""
    for size, unit in ((1e12, "TFLOPs"), (1e9, "GFLOPs")):
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count / 1e6:.1f} MFLOPs"


def note(text: str) -> str:
    """A sentence that says what is to be seen; screen readers hear it when it changes."""
    return f'<p class="verdict" role="status" aria-live="polite">{text}</p>'
