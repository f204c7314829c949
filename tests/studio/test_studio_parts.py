"""What the studio is made of, without a browser."""

import sqlite3
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import gradio as gr
import numpy as np
import pytest
import torch
from PIL import Image

from bigain.commands.demo import RECORDS
from bigain.compression import compress
from bigain.compression.attach import site_hooks
from bigain.experiments.report import read_report
from bigain.operators import OPERATORS
from bigain.operators.base import Call, parse, spec
from bigain.plots.points import Axis, marks, scatter
from bigain.plots.token_map import token_map
from bigain.plots.tokens import VIEWS
from bigain.studio import limits
from bigain.studio.classify_tab import paper_evaluations, race
from bigain.studio.compare_tab import load_setting, read_chart, take_record
from bigain.studio.image_picker import Chosen, take_drawing
from bigain.studio.limits import check_image, check_names, check_range, in_words
from bigain.studio.models import Models
from bigain.studio.options import StudioOptions
from bigain.studio.setting import fitting, shown, text_of
from bigain.tokens.grid import Grid
from helpers import pipelines
from helpers.commands import run
from helpers.operator_examples import EXAMPLES

UNET = RECORDS / "main-unet.sqlite"


@pytest.mark.parametrize("text", ["gated_merge(ratio=0.7)", "sito(ratio=0.5)", "kv_downsample(factor=2)"])
def test_a_token_map_is_the_plan(text: str) -> None:
    grid = Grid(4, 6)
    tokens = torch.rand((1, grid.tokens, 5), generator=torch.Generator().manual_seed(0))
    plan = parse(text).plan(tokens, Call(grid, draw_key=torch.tensor([0])))
    seen = VIEWS[type(plan)](plan, grid)
    root = ElementTree.fromstring(token_map(seen, "data:,", 'a "name" <b>'))
    assert root.attrib["aria-label"].startswith('a "name" <b>.')
    squares = [part for part in root.iter("rect") if "data-group" in part.attrib]
    places = [(int(part.attrib["y"]), int(part.attrib["x"])) for part in squares]
    assert places == list(np.ndindex(4, 6))
    groups = [int(part.attrib["data-group"]) for part in squares]
    into = [int(part.attrib["data-into"]) for part in squares]
    assert [groups[token] for token in into] == groups  # who stands for a token is in its group
    assert len(set(into)) == len(set(groups)) == len(set(seen.cells.ravel().tolist()))
    if text.startswith("gated"):
        assert groups == plan.group[0].tolist()
        assert into == plan.target[0].tolist()


def test_points_are_those_of_the_report() -> None:
    report = read_report(UNET)
    found = marks(report, "accuracy")
    rows = [row for row in report.rows if row.flops and row.accuracy]
    assert [(mark.label, mark.cost) for mark in found] == [(row.label, row.flops / 1e6) for row in rows if row.flops]
    assert all(mark.low <= mark.value <= mark.high for mark in found)
    drawn = scatter(report, "accuracy")
    svg = ElementTree.fromstring(drawn[: drawn.index("</svg>") + 6])
    labels = [part.attrib["data-label"] for part in svg.iter("g") if "data-label" in part.attrib]
    assert labels == [mark.label for mark in found]
    assert "has no LRAP with a cost; it has accuracy" in scatter(report, "LRAP")


def test_an_axis_has_round_ticks_inside() -> None:
    axis = Axis.of([0.013, 7.4], 10, 110)
    np.testing.assert_allclose(axis.ticks(), [0, 2, 4, 6])
    assert [axis.place(axis.low), axis.place(axis.high)] == [10, 110]
    single = Axis.of([5.0], 0, 1)
    assert single.low < 5 < single.high


@pytest.mark.parametrize("text", ["none", *(text for texts in EXAMPLES.values() for text in texts[:2])])
def test_controls_show_what_they_are_given(text: str) -> None:
    assert text_of(*(part["value"] for part in shown(text))) == spec(parse(text))


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_can_be_chosen(name: str) -> None:
    """With the sliders as they are and nothing else written."""
    _, _, more = (part.get("value") for part in fitting(name))
    assert text_of(name, 0.5, 2, more).startswith(name)


@pytest.mark.parametrize(
    ("values", "error"),
    [
        (("gated_merge", 0.9, 2, ""), "ratio must be at most 0.75 for cells of 2x2"),
        (("gated_merge", 0.5, 2, "windw=4"), "windw"),
        (("gated_merge", 0.5, 2, "__import__('os')"), "cannot read the operator"),
        (("nothing", 0.5, 2, ""), "unknown operator 'nothing'"),
    ],
)
def test_a_wrong_operator_is_told(values: tuple[Any, ...], error: str) -> None:
    with pytest.raises((ValueError, TypeError), match=error):
        text_of(*values)


def test_an_image_is_limited_before_it_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.png"
    Image.new("L", (40, 30)).save(path)
    assert check_image(str(path)).size == (40, 30)
    monkeypatch.setattr(limits, "MAX_PIXELS", 1000)
    with pytest.raises(ValueError, match="at most 0 million pixels, got 40 x 30; scale it down"):
        check_image(str(path))
    monkeypatch.setattr(limits, "MAX_IMAGE", 10)
    with pytest.raises(ValueError, match="an image must have at most"):
        check_image(str(path))
    path.write_bytes(b"\x89PNG\r\n\x1a\n cut off")
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"a\.png cannot be read as an image; use a PNG"):
        check_image(str(path))


def test_numbers_and_names_are_limited() -> None:
    assert check_range("steps", 20.0, 2, 50) == 20
    for wrong in (51, 1.5, "20", None, True, float("nan")):
        with pytest.raises(ValueError, match="steps must be a whole number from 2 to 50"):
            check_range("steps", wrong, 2, 50)
    assert check_names("cat, dog\nred fox,,") == ["cat", "dog", "red fox"]
    with pytest.raises(ValueError, match="at most 50 names, got 51"):
        check_names(",".join(map(str, range(51))))
    with pytest.raises(ValueError, match="at most 200 characters, got 201"):
        check_names("x" * 201)


def test_errors_of_bad_input_become_words() -> None:
    @in_words
    def once() -> None:
        raise ValueError("a <b> word")

    @in_words
    def streaming() -> Any:
        yield 1
        raise TypeError("another")

    with pytest.raises(gr.Error, match="a &lt;b&gt; word"):
        once()
    found = streaming()
    assert next(found) == 1
    with pytest.raises(gr.Error, match="another"):
        next(found)

    @in_words
    def broken() -> None:
        raise KeyError("of ours")

    with pytest.raises(KeyError):  # is not shown to visitors
        broken()


@pytest.mark.parametrize(
    "drawing", ["", "data:image/png;base64,", "data:image/png;base64,AAAA", "http://else.where/x.png"]
)
def test_only_a_drawing_is_a_drawing(drawing: str) -> None:
    with pytest.raises(ValueError, match=r"nothing was drawn|cannot be read"):
        take_drawing("fashion-unet", drawing)


def test_a_record_is_checked_and_kept_for_one(tmp_path: Path) -> None:
    own, _ = take_record(str(UNET), {}, [])
    assert list(own) == ["main-unet (yours)"]
    chart = own["main-unet (yours)"]
    assert chart.report.rows == read_report(UNET).rows
    assert chart.report.examples == {}  # images are not kept
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as base:
        base.execute("create table notes (text)")
    with pytest.raises(ValueError, match=r"^other\.sqlite is not a bigain record"):
        take_record(str(other), own, [])
    view = tmp_path / "view.sqlite"
    view.write_bytes(UNET.read_bytes())
    with sqlite3.connect(view) as base:  # reading it would never end
        base.execute("alter table measures rename to kept")
        base.execute("create view measures as with recursive n(setting, name, value) as "
                     "(select 1, '', '' union all select setting + 1, '', '' from n) select * from n")  # fmt: skip
    with pytest.raises(ValueError, match=r"view\.sqlite is a damaged record \(no table measures\)"):
        take_record(str(view), own, [])
    for number in range(5):
        path = tmp_path / f"{number}.sqlite"
        path.write_bytes(UNET.read_bytes())
        own, _ = take_record(str(path), own, [])
    assert len(own) == 4


def test_a_point_loads_its_setting_or_says_why_not() -> None:
    chart = read_chart(UNET)
    label = next(label for label, text in chart.operators.items() if text.startswith("gated_merge"))
    details, model, *updates = load_setting(chart, label, ["fashion-unet"], 2)
    assert f"<code>{chart.operators[label].partition('(')[0]}" in details
    assert model["value"] == "fashion-unet"
    assert text_of(*(part["value"] for part in updates[:4])) == chart.operators[label]
    assert updates[:4] == updates[4:]
    assert not any(a is b for a, b in zip(updates[:4], updates[4:], strict=True))
    with pytest.raises(ValueError, match="not in the record any more"):
        load_setting(chart, "nothing", [], 2)


def test_visitors_share_weights_and_nothing_else() -> None:
    models = Models(["fashion-unet"])
    first, second = models.own("fashion-unet"), models.own("fashion-unet")
    with compress(first, "gated_merge(ratio=0.5)"):
        assert site_hooks(first.network)
        assert not site_hooks(second.network)
        assert not site_hooks(models.get("fashion-unet").network)
    assert next(first.network.parameters()).data_ptr() == next(second.network.parameters()).data_ptr()
    with pytest.raises(ValueError, match="unknown model '/etc'"):
        models.own("/etc")


def test_the_papers_protocol() -> None:
    assert paper_evaluations(10) == 125


def test_own_names_for_a_model_that_takes_text(tmp_path: Path) -> None:
    pipelines.sd(tmp_path).save_pretrained(tmp_path / "sd")
    name = str(tmp_path / "sd")
    models, image = Models([name]), Chosen("mine", Image.new("RGB", (64, 64), "red"))
    operator = ("gated_merge", 0.5, 2, "")
    pages = list(race(models, image, name, "fast", "cat, <i>dog</i>", "a photo of a {}", *operator))
    assert "&lt;i&gt;dog&lt;/i&gt;" in pages[-1]
    assert "<i>dog" not in pages[-1]
    assert "an evaluation takes" in pages[-1]
    with pytest.raises(ValueError, match="write at least two class names"):
        list(race(models, image, name, "fast", "cat", "{}", *operator))


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--port", "70000"], 2, "port must be an int from 0 (any free one) to 65535, got 70000"),
        (["--model", "fashion-unit"], 2, "Did you mean 'fashion-unet'?"),
        (["--records", "nowhere"], 3, "no folder nowhere; expected one with records"),
    ],
)
def test_the_command_checks_its_words_first(words: list[str], code: int, text: str) -> None:
    assert text in run("studio", *words, code=code)


def test_without_gradio_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bigain.studio.options.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"the studio needs gradio: pip install bigain\[studio\]"):
        StudioOptions().check()
