"""Names from outside, as each writer writes them."""

import csv
import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigain import escape
from bigain.experiments.folder import FILE
from bigain.experiments.report import Report, read_report
from bigain.experiments.rows import DecisionRow
from bigain.experiments.store import Store
from bigain.experiments.tables import comma_separated, latex, markdown
from bigain.plots import changes, save_figure
from bigain.plots.page import definitions, table_row
from helpers.runs import experiment

NASTY = "=1+1|<script>x</script>\\input{a}$b$ \x1b[31m\u202e"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain name.png", "plain name.png"),
        ("Größe 5 ± 1 → 2, 猫.png", "Größe 5 ± 1 → 2, 猫.png"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("evil\u202egnp.exe", "evil\\u202egnp.exe"),
        ("a\u2066b\u200fc\u061cd", "a\\u2066b\\u200fc\\u061cd"),
        ("\x7f\x9b1m", "\\x7f\\x9b1m"),
        ("no utf-8 \udcff", "no utf-8 \\udcff"),
        ("a\u2028b\ufeff", "a\\u2028b\\ufeff"),
        ("👩\u200d🔬", "👩\u200d🔬"),
    ],
)
def test_terminal(text: str, shown: str) -> None:
    assert escape.terminal(text) == shown


def test_a_terminal_keeps_the_lines_of_texts() -> None:
    assert escape.terminal("a\n\tb\x1b", lines=True) == "a\n\tb\\x1b"


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("+1+cmd", "'+1+cmd"),
        ("-x.png", "'-x.png"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("'=1", "''=1"),
        ("name", "name"),
        ("-0.5", "-0.5"),
        ("-1e-05", "-1e-05"),
        ("+1.0 [-2.2, +1.4]", "+1.0 [-2.2, +1.4]"),
        ("-0.10 ± 0.20", "-0.10 ± 0.20"),
        (-0.5, -0.5),
        ("", ""),
    ],
)
def test_csv_cells(value: object, cell: object) -> None:
    assert escape.csv_cell(value) == cell


@given(st.text())
def test_csv_cells_are_read_back(text: str) -> None:
    assert escape.from_csv_cell(escape.csv_cell(text)) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", "a\\|b"),
        ("<script>", "&lt;script>"),
        ("[x](javascript:y)", "[x]\\(javascript:y)"),
        ("a\\|b", "a\\\\\\|b"),
        ("&lt;b", "&amp;lt;b"),
        ("R&D 86.2 [83.9, 88.2]", "R&D 86.2 [83.9, 88.2]"),
        ("two\nlines", "two lines"),
    ],
)
def test_markdown(text: str, shown: str) -> None:
    assert escape.markdown(text) == shown


def test_html() -> None:
    assert escape.html("<b a=\"1\" c='2'>&\x1b") == "&lt;b a=&quot;1&quot; c=&#x27;2&#x27;&gt;&amp;\\x1b"


@given(st.text())
def test_latex_has_no_commands_of_the_text(text: str) -> None:
    """What is left after our own replacements has no special character."""
    found = escape.latex(text)
    for own in [*escape.LATEX.values(), "{[}", "{*}"]:
        found = found.replace(own, "")
    assert not re.search(r"[\\{}$&%#_^~\n]", found)


def test_latex() -> None:
    assert escape.latex(r"\input{a_b} 5 % $x$") == r"\textbackslash{}input\{a\_b\} 5 \% \$x\$"
    assert escape.latex("[1pt] ± 2") == r"{[}1pt] $\pm$ 2"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """A record whose row, title and description have every kind of bad character."""
    folder = tmp_path_factory.mktemp("run")
    rows = [{"name": "none", "operator": "none"}, {"name": NASTY, "operator": "tome(0.5)"}]
    store = Store(folder / FILE)
    ids = store.begin(experiment(folder, rows=rows, tasks=["classify"]))
    for right, key in enumerate(ids.values()):
        found = [
            DecisionRow(str(i), (3,), 3 + right * (i % 2), (3, 4), (0.5, 0.5), 10, (500,), None, 1.0) for i in range(9)
        ]
        store.add_decisions(key, found, {})
    store.close()
    return replace(read_report(folder), title=NASTY, about=f"{NASTY}\nand more")


def test_tables_of_a_report(report: Report) -> None:
    shown = markdown(report)
    assert not {"<script", "\x1b", "\u202e"} & set(re.findall(r"<script|\x1b|\u202e", shown))
    heads, *lines = [re.sub(r"\\.", "", line) for line in shown.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in lines} == {heads.count("|")}
    cells = [row[0] for row in csv.reader(io.StringIO(comma_separated(report)))]
    assert cells == ["setting", "none", f"'{report.rows[1].label}"]
    tex = latex(report)
    assert r"\input" not in tex
    assert "\x1b" not in tex
    assert tex.count("\n") == 9  # the footnote is one comment


def test_the_page_escapes_labels(report: Report) -> None:
    assert "<script" not in table_row(report.rows[1], [])
    assert "<script" not in definitions({"a": NASTY})


def test_figures_take_dollars_as_they_are(report: Report, tmp_path: Path) -> None:
    rows = [replace(row, label=f"$\\x$ {row.name}") for row in report.rows]
    named = replace(report, title=r"$\nonsense$ of 5 $", rows=rows)
    drawn = save_figure(changes(named), tmp_path / "changes.svg").read_text()
    assert r"$\nonsense$ of 5 $" in drawn
    assert "\x1b" not in drawn
