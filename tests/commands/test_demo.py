"""The demo on the real bundled model, from an empty folder to the table and the page, which a real browser shows."""

import base64
import html
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

from bigain.commands import demo
from bigain.commands.demo import QUICK, DemoResult, Size, demo_table, draw_plan, run_demo
from bigain.compression import Compression
from bigain.experiments.evaluator import setting_cost
from bigain.experiments.experiment import read_experiment
from bigain.experiments.report import Report, Row, read_report
from bigain.experiments.runner import Run, run_chunks
from bigain.experiments.samples import Samples
from bigain.experiments.setting import Setting
from bigain.experiments.tables import columns, latex
from bigain.metrics.intervals import Estimate, wilson
from bigain.models.architectures import build_meta
from bigain.operators.base import Call, parse
from bigain.plots.page import HEADS, OPERATORS, curves, story
from bigain.tokens.grid import Grid
from helpers.runs import save_tiny, started

pytestmark = pytest.mark.slow

SIZE = Size(2, 2)
NAMES = ["uncompressed", "tome", "gated_merge", "kv_downsample"]
VOID = {"meta", "img", "line"}  # elements without an end


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record as the package may carry, of a tiny model."""
    place = tmp_path_factory.mktemp("records")
    row = {"name": "merge", "operator": "gated_merge(ratio={ratio})", "ratio": [0.3, 0.6]}
    rows = [{"name": "none", "operator": "none"}, row]
    run = started(save_tiny(place / "model"), place / "run", n=4, tasks=["classify"], rows=rows, about="A tiny one.")
    run_chunks(run)
    run.store.write_record(place / "main-tiny.sqlite")
    run.store.write_record(place / "other.sqlite")
    return place


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def made(folder: Path, records: Path) -> Iterator[DemoResult]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "RECORDS", records)
        yield run_demo(folder, Console(file=io.StringIO()), SIZE)


@pytest.fixture(scope="module")
def page(made: DemoResult) -> str:
    return made.page.read_text()


class Outline(HTMLParser):
    """What the tests ask of a page; elements must close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[tuple[str, str]] = []  # innermost element, text
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.words.append((self.open[-1], data))

    def texts(self, tag: str) -> list[str]:
        return [text for inside, text in self.words if inside == tag]


def test_the_file_is_what_the_demo_promises() -> None:
    found = read_experiment(demo.FILE)
    assert [setting.label for setting in found.settings] == NAMES
    assert (found.model, found.data, found.n % 10) == ("fashion-unet", "fashion-sample", 0)
    assert QUICK.images % 10 == 0
    assert all(text.split("(")[0] in OPERATORS for text in demo.operators(found).values())


def test_the_numbers_come_from_the_record(made: DemoResult, folder: Path) -> None:
    assert made.report == read_report(folder / "run-2-2")
    assert [row.label for row in made.report.rows] == NAMES
    assert {row.accuracy.n for row in made.report.rows if row.accuracy} == {2}
    assert {row.samples.n for row in made.report.rows if row.samples} == {2}
    assert [row.tokens for row in made.report.rows] == [[], [[256, 77, 77]], [[256, 77, 77]], [[256, 256, 64]]]


def test_the_table_fits_a_terminal(made: DemoResult) -> None:
    console = Console(file=io.StringIO(), width=80)
    console.print(demo_table(made.report))
    text = console.file.getvalue()
    assert all(label in text for label in NAMES)
    assert "…" not in text
    assert text.count("256 → 77") == 2
    assert "256, keys → 64" in text
    for row in made.report.rows:
        assert f"{100 * row.accuracy.value:.1f} [{100 * row.accuracy.low:.1f}, " in text
        assert f"{row.flops / 1e6:.1f}" in text


def test_started_again_it_does_nothing_anew(
    made: DemoResult, page: str, folder: Path, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "RECORDS", records)
    monkeypatch.setattr(Run, "work", lambda *_: pytest.fail("worked again"))
    again = run_demo(folder, Console(file=io.StringIO()), SIZE)
    assert again.page == made.page
    assert again.page.read_text() == page


def test_the_page_needs_nothing_else(page: str) -> None:
    outline = Outline(page)
    assert not {"script", "link", "iframe", "base", "object", "video", "form"} & {tag for tag, _ in outline.tags}
    for tag, attributes in outline.tags:
        for key in ("src", "href", "srcset", "poster", "data"):
            assert attributes.get(key, "data:").startswith("data:"), tag
    assert not re.search(r"https?:|url\(|@import|@font-face", page)
    assert "default-src 'none'" in page
    assert "$" not in page


def test_every_image_is_there_and_described(page: str) -> None:
    pictures = [attributes for tag, attributes in Outline(page).tags if tag == "img"]
    assert len(pictures) == 4 + 4 + 2 * 5 + 1  # answers, generated, maps, curves
    assert len({picture["alt"] for picture in pictures}) == len(pictures)
    for picture in pictures:
        assert len(picture["alt"]) > 10
        with Image.open(io.BytesIO(base64.b64decode(picture["src"].removeprefix("data:image/png;base64,")))) as opened:
            opened.load()
            assert opened.format == "PNG"
            assert min(opened.size) >= 64
            assert np.array(opened.convert("L")).std() > 5


def test_headings_are_in_order(page: str) -> None:
    outline = Outline(page)
    levels = [int(tag[1]) for tag, _ in outline.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
    assert outline.tags[0] == ("html", {"lang": "en"})
    assert outline.texts("title") == ["bigain demo"]


def test_the_page_has_the_table_and_the_words(made: DemoResult, page: str) -> None:
    outline = Outline(page)
    assert [text for text in outline.texts("th") if text in NAMES] == NAMES
    heads = [attributes["data-head"] for tag, attributes in outline.tags if "data-head" in attributes]
    assert heads == list(HEADS)[1:] * 4
    cells = [column.text(row) for row in made.report.rows for column in columns(made.report) if column.head in HEADS]
    shown = set(outline.texts("span") + outline.texts("th"))
    assert {cell for cell in cells if cell} <= shown
    assert all(text in outline.texts("p") for text in story(made.report).values())
    assert f"{made.report.rows[0].accuracy.hits} of 2 right" in shown
    assert "A tiny one. From the record main-tiny.sqlite, n up to 4." in shown
    assert "other.sqlite" not in page


def test_commands_of_the_page_exist(page: str) -> None:
    from bigain.cli import app

    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    named = [
        line.split()[1] for text in Outline(page).texts("code") for line in text.splitlines() if line[:7] == "bigain "
    ]
    assert len(named) == 5
    assert set(named) <= known


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def test_text_stands_out_in_both_schemes(page: str) -> None:
    """WCAG 2: a contrast of 4.5 for text of normal size."""
    schemes = [dict(re.findall(r"--(\w+): (#\w{6})", text)) for text in re.findall(r":root \{(.*?)\}", page)]
    assert len(schemes) == 2
    for scheme in schemes:
        for ground in ("paper", "card"):
            for ink in ("ink", "soft", "accent", "wrong"):
                low, high = sorted(luminance(scheme[name]) for name in (ground, ink))
                assert (high + 0.05) / (low + 0.05) >= 4.5


def test_without_records_there_is_no_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "RECORDS", tmp_path / "none")
    assert demo.figures(tmp_path) == []
    assert curves([]) == ""


def test_without_matplotlib_the_extra_is_named(records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "RECORDS", records)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert demo.figures(tmp_path) is None
    assert "The accuracy curves need matplotlib: pip install bigain[plots], then start the demo again." in curves(None)


def report_with(p: float) -> Report:
    change = Estimate(-0.1, -0.184, -0.02, 60)
    rows = [
        Row("none", "none", {}, accuracy=wilson(52, 60), seconds=0.005, saved=0.0),
        Row("a", "a", {}, wilson(46, 60), change=change, p=p, seconds=0.004, saved=0.08, samples=Samples(20)),
        Row("b", "b", {}, wilson(52, 60), change=Estimate(0, -0.1, 0.1, 60), p=1.0, saved=0.1, samples=Samples(20)),
    ]
    return Report("t", "", {}, [], rows, {}, dense="none")


def test_the_words_say_what_is_too_small_to_conclude() -> None:
    classify, generate, faster = story(report_with(0.2)).values()
    assert "60 real test images" in classify
    assert "52 right as it is, 46 with a (−10.0 [−18.4, −2.0] points) and 52 with b (+0.0 [−10.0, +10.0]" in classify
    assert "None of these differences is beyond chance (n = 60" in classify
    assert "anything from −18 to +10 points would fit, so this demo is too small to tell" in classify
    assert "n = 20 a setting" in generate
    assert "Fréchet" in generate
    assert "save 8.0 to 10.0 %" in faster
    assert "none 5.0 ms and a 4.0 ms" in faster
    classify = story(report_with(0.01))["Does it still classify?"]
    assert "Beyond chance (n = 60, McNemar's test with Holm's correction): a. Of all else" in classify


def test_tokens_of_several_operators_and_their_text() -> None:
    hybrid = (
        Compression("gated_merge(ratio=0.7)", where="part='down'"),
        Compression("kv_downsample(factor=2)", where="part='up'"),
    )
    found = setting_cost(build_meta("sd2"), Setting("both", {}, hybrid, 1, ("classify",)))["tokens"]
    assert found == [(4096, 1229, 1229), (4096, 4096, 1024)]
    row = Row("both", "both", {}, tokens=[list(kind) for kind in found])
    report = Report("t", "", {"model": "m", "data": "d", "seed": 0, "policy": "p", "timesteps": "t"}, [], [row], {})
    text = {column.head: column.text(row) for column in columns(report)}
    assert text["tokens"] == "4096 → 1229; 4096, keys → 1024"
    assert r"4096 $\to$ 1229" in latex(report)


@pytest.mark.parametrize("text", ["gated_merge(ratio=0.5)", "tome(ratio=0.7)", "kv_downsample(factor=2)"])
def test_a_map_shows_means_of_merged_patches(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "DRAWS", 1)
    grid = Grid(4, 4)
    generator = torch.Generator().manual_seed(0)
    pixels = torch.rand((1, 8, 8), generator=generator) * 2 - 1
    plan = parse(text).plan(torch.rand((1, 16, 3), generator=generator), Call(grid, draw_key=torch.tensor([0])))
    found = np.array(draw_plan(pixels, plan, grid).convert("RGB"))
    assert found.shape == (80, 80, 3)
    side = 20 if text.startswith("kv") else 10  # of a patch's pixel in the map
    inner = found[side // 2 :: side, side // 2 :: side, 0].astype(float)
    patches = pixels.view(4, 2, 4, 2).permute(0, 2, 1, 3).reshape(16, 4)
    if text.startswith("kv"):
        cells = patches.view(2, 2, 2, 2, 4)  # row, within, column, within
        expected = 0.9 * cells[:, 1, :, 1] + 0.1 * cells.mean((1, 3))
    else:
        group = plan.group[0]
        expected = torch.stack([patches[group == number].mean(0) for number in group]).view(4, 4, 4)
    rows = len(expected)
    image = expected.view(rows, rows, 2, 2).permute(0, 2, 1, 3).reshape(2 * rows, 2 * rows)
    np.testing.assert_allclose(inner, (image.numpy() + 1) * 127.5, atol=1)


def browser() -> str:
    found = next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
    )
    if not found and os.environ.get("BIGAIN_NEED_BROWSER") == "1":
        pytest.fail("BIGAIN_NEED_BROWSER=1, but there is no chromium")
    if not found:
        pytest.skip("no chromium; install it, the page is looked at with it")
    return found


def browse(tmp_path: Path, *arguments: str) -> str:
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={tmp_path}/profile",
    ]
    done = subprocess.run([browser(), *options, *arguments], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


@pytest.mark.parametrize(("dark", "width"), [(False, 1280), (True, 400)])
def test_a_browser_shows_the_page(made: DemoResult, tmp_path: Path, dark: bool, width: int) -> None:
    shot = tmp_path / "shot.png"
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    browse(tmp_path, scheme, f"--screenshot={shot}", f"--window-size={width},3000", made.page.as_uri())
    with Image.open(shot) as opened:
        pixels = np.array(opened.convert("RGB"))
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 500
    ground = np.median(pixels.reshape(-1, 3), axis=0)
    assert (ground < 60).all() if dark else (ground > 200).all()
    rows = (pixels != ground.astype(np.uint8)).any((1, 2))
    assert rows.mean() > 0.5


@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_is_wider_than_the_screen(page: str, tmp_path: Path, width: int) -> None:
    """Measured in a frame, with all that can be unfolded unfolded."""
    wrapper = tmp_path / "wrapper.html"
    wrapper.write_text(
        f'<iframe width="{width}" height="900" style="border: 0" srcdoc="{html.escape(page)}"></iframe><p></p>'
        "<script>onload = () => { const inner = document.querySelector('iframe').contentDocument;"
        "inner.querySelectorAll('details').forEach(part => part.open = true);"
        "const root = inner.documentElement, missing = [...inner.images].filter(image => !image.naturalWidth);"
        "document.querySelector('p').textContent = [root.clientWidth, root.scrollWidth, missing.length].join(' '); }"
        "</script>"
    )
    found = re.search(r"<p>(\d+) (\d+) (\d+)</p>", browse(tmp_path, "--dump-dom", wrapper.as_uri()))
    assert found is not None
    assert found.groups() == (str(width), str(width), "0")
