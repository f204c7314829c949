"""Controls for an operator, which all tabs share: its name, how much it removes, and what else it takes."""

import dataclasses
from typing import Any, NamedTuple

import gradio as gr

from bigain.compression import Compression
from bigain.operators.base import OPERATORS, parse, spec
from bigain.registry import NONE

FIRST = "gated_merge"
LONGEST = 200  # characters of further arguments
RATIO, FACTOR, SHARE = 0.7, 2, 0.5
ABOUT = "ratio is the share of tokens removed; factor divides the sides of the grid of keys"


class OperatorControls(NamedTuple):
    """The components, in the order in which `text_of` takes their values."""

    name: gr.Dropdown
    ratio: gr.Slider
    factor: gr.Slider
    more: gr.Textbox


def operator_controls(prefix: str, first: str = FIRST) -> tuple[OperatorControls, Any]:
    """Make the controls at this place of the page, which show what their operator takes.

    -> the controls, and the event after which they fit an operator that was chosen.
    """
    takes = arguments(first)
    controls = OperatorControls(
        gr.Dropdown([NONE, *OPERATORS], value=first, label=f"{prefix}operator", info=ABOUT, filterable=False),
        gr.Slider(0, 0.9, RATIO, step=0.05, label=f"{prefix}ratio", visible="ratio" in takes),
        gr.Slider(1, 4, FACTOR, step=1, label=f"{prefix}factor", visible="factor" in takes),
        gr.Textbox(
            label=f"{prefix}further arguments", placeholder="window=4, weighted=True", max_length=LONGEST,
            visible=first != NONE,
        ),
    )  # fmt: skip
    fitted = controls.name.input(
        fitting, controls.name, [*controls[1:]], queue=False, show_progress="hidden", api_visibility="private"
    )
    return controls, fitted


def arguments(name: str) -> set[str]:
    """The names of an operator's arguments."""
    return {field.name for field in dataclasses.fields(OPERATORS[name])} if name in OPERATORS else set()


def required(name: str) -> list[str]:
    """The arguments without a default for which there is no slider, such as `keep` of kv_select."""
    fields = dataclasses.fields(OPERATORS[name]) if name in OPERATORS else ()
    return [field.name for field in fields
            if field.default is dataclasses.MISSING and field.name not in ("ratio", "factor")]  # fmt: skip


def fitting(name: str) -> list[Any]:
    """Which controls an operator needs; further arguments of another one are cleared."""
    takes = arguments(name)
    return [
        gr.update(visible="ratio" in takes),
        gr.update(visible="factor" in takes),
        gr.update(visible=name != NONE, value=""),
    ]


def text_of(name: str, ratio: Any, factor: Any, more: str) -> str:
    """The operator of the controls as text, such as `gated_merge(ratio=0.7)`."""
    if name == NONE:
        return NONE
    takes = arguments(name)
    parts = [f"ratio={float(ratio):g}"] if "ratio" in takes else []
    parts += [f"factor={int(factor)}"] if "factor" in takes else []
    parts += [f"{name}={SHARE}" for name in required(name) if f"{name}=" not in str(more)]
    parts += [str(more)[:LONGEST].strip()] if str(more or "").strip() else []
    return spec(parse(f"{name}({', '.join(parts)})"))


def compression_of(text: str, groups: str | None = None, correct: bool = False) -> Compression | None:
    """What `text_of` says, for `compress`; None for no compression."""
    return None if text == NONE else Compression(text, groups=groups, correct=correct)  # type: ignore[arg-type]


def shown(operator: str) -> list[Any]:
    """Updates of the controls so that they show an operator given as text."""
    found = parse(operator)
    text = spec(found)
    name = text.partition("(")[0]
    takes = arguments(name)
    values = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)} if takes else {}
    defaults = {field.name: field.default for field in dataclasses.fields(found)} if takes else {}
    rest = [f"{key}={value!r}" for key, value in values.items()
            if key not in ("ratio", "factor") and value != defaults[key]]  # fmt: skip
    return [
        gr.update(value=name),
        gr.update(visible="ratio" in takes, value=values.get("ratio", RATIO)),
        gr.update(visible="factor" in takes, value=values.get("factor", FACTOR)),
        gr.update(visible=name != NONE, value=", ".join(rest)),
    ]
