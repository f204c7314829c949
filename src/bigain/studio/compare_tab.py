"""The tab that compares: records as points that can be looked at, and loaded into the other tabs."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr

from bigain.commands.demo import RECORDS
from bigain.escape import html as escape
from bigain.experiments.report import Report, read_report
from bigain.experiments.store import Store
from bigain.experiments.tables import columns, footnote
from bigain.plots.points import scatter
from bigain.plots.reading import label_of, measured
from bigain.studio.limits import MAX_UPLOAD, MB, QUICK, in_words
from bigain.studio.parts import note
from bigain.studio.setting import OperatorControls, shown

INTRO = """Each point is a setting on hundreds of images. Choose one with the mouse or with Tab and Enter; its operator
is then set in the other tabs."""
POINTS = """const choose = (event) => {
  const mark = event.target.closest("[data-label]");
  if (!mark || (event.key && event.key !== "Enter" && event.key !== " ")) return;
  event.preventDefault();
  trigger("select", { label: mark.dataset.label });
};
element.addEventListener("click", choose);
element.addEventListener("keydown", choose);"""
OWN = 4  # records of one visitor


class Chart(NamedTuple):
    """A report with the operator of each of its settings, where it is one that the other tabs can load."""

    report: Report
    operators: dict[str, str]


class CompareTab(NamedTuple):
    """The components that other parts of the page fill."""

    record: gr.Dropdown


def read_chart(path: Path) -> Chart:
    """A record, with the checks that reports make."""
    report = read_report(path, errors=False)  # a stranger's record may unfold to anything
    with closing(Store(path, read_only=True)) as store:
        settings = {label: spec for _, label, spec in store.settings()}
    found = {label: spec["attach"][0]["operator"] for label, spec in settings.items() if len(spec["attach"]) == 1}
    light = report.__class__(**{**vars(report), "examples": {}})  # images are not shown here
    return Chart(light, found)


class Charts:
    """The records that everybody sees, read when they are first looked at."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.paths = {path.stem: path for folder in folders for path in sorted(folder.glob("*.sqlite"))}
        self._read: dict[str, Chart] = {}

    def get(self, name: str, own: dict[str, Chart] | None) -> Chart:
        if own and name in own:
            return own[name]
        if name not in self.paths:
            raise ValueError(f"no record {name!r}; choose one of the list, or upload one")
        if name not in self._read:
            self._read[name] = read_chart(self.paths[name])
        return self._read[name]


def compare_tab(
    records: Path | None, model: gr.Dropdown, tab: gr.Tab, others: Sequence[OperatorControls], names: Sequence[str]
) -> CompareTab:
    """Make the tab at this place of the page; `others` are the controls of the other tabs."""
    charts = Charts([RECORDS, *([records] if records else [])])
    first = next(iter(charts.paths), None)
    own = gr.State({})
    gr.Markdown(INTRO)
    with gr.Row(elem_classes="sides"):
        with gr.Column(scale=2, min_width=300):
            record = gr.Dropdown(list(charts.paths), value=first, label="record", filterable=False,
                                 allow_custom_value=True, elem_id="record")  # fmt: skip
            what = gr.Dropdown(
                ["accuracy"], value="accuracy", label="measure", filterable=False, allow_custom_value=True
            )
            file = gr.File(label="a record of your own (.sqlite of bigain run)", file_types=[".sqlite"], height=140,
                           elem_id="upload-record")  # fmt: skip
        with gr.Column(scale=5, min_width=320):
            plot = gr.HTML("", js_on_load=POINTS, elem_id="points")
            chosen = gr.HTML(note("Choose a point."), elem_id="point")
    quick = {"concurrency_id": "compare", "concurrency_limit": QUICK, "show_progress": "minimal"}
    draw = in_words(lambda name, measure, mine: drawn(charts.get(name, mine), measure))
    inputs = [record, what, own]
    gr.on([tab.select, record.input, what.input], draw, inputs, [plot, what], api_name="compare", **quick)
    take = in_words(lambda path, mine: take_record(path, mine, list(charts.paths)))
    loaded = file.upload(take, [file, own], [own, record], api_visibility="private", **quick)
    loaded.success(draw, inputs, [plot, what], api_visibility="private", **quick)

    @in_words
    def choose(name: str, mine: dict[str, Chart], event: gr.EventData) -> list[Any]:
        label = event._data.get("label") if isinstance(event._data, dict) else None
        return load_setting(charts.get(name, mine), label, names, len(others))

    targets = [chosen, model, *(part for controls in others for part in controls)]
    plot.select(choose, [record, own], targets, api_visibility="private", **quick)
    return CompareTab(record)


def drawn(chart: Chart, what: str) -> tuple[str, Any]:
    """The points of a record, and which measures it has."""
    known = measured(chart.report)
    what = what if what in known else next(iter(known), "accuracy")
    title = f"<h4>{escape(chart.report.title)}</h4><p>{escape(chart.report.about)}</p>"
    foot = f'<p class="foot">{escape(footnote(chart.report))}</p>' if chart.report.rows else ""
    choices = [(label_of(name), name) for name in known] or [("accuracy", "accuracy")]
    return f"{title}{scatter(chart.report, what)}{foot}", gr.update(choices=choices, value=what)


def load_setting(chart: Chart, label: Any, models: Sequence[str], tabs: int) -> list[Any]:
    """All numbers of a setting, and updates for the other tabs."""
    row = next((row for row in chart.report.rows if row.label == label), None)
    if row is None:
        raise ValueError("this point is not in the record any more; choose another")
    cells = "".join(
        f"<div><dt>{escape(column.head)}</dt><dd>{escape(text)}</dd></div>"
        for column in columns(chart.report)
        if (text := column.text(row))
    )
    operator, model = chart.operators.get(row.label, "none"), chart.report.experiment["model"]
    updates, words = [gr.skip()] * (4 * tabs), "It has several operators, or options of its own, so it stays here."
    if row.label in chart.operators or row.label == chart.report.dense:
        updates = [part for _ in range(tabs) for part in shown(operator)]  # gradio changes what it gets
        words = f"<code>{escape(operator)}</code> is now set in the other tabs."
    details = f'{note(f"<strong>{escape(row.label)}</strong>. {words}")}<dl class="numbers">{cells}</dl>'
    return [details, gr.update(value=model) if model in models else gr.skip(), *updates]


def take_record(file: str | None, own: dict[str, Chart], known: Sequence[str]) -> tuple[dict[str, Chart], Any]:
    """A visitor's own record: read, checked, and kept for this visitor only."""
    if not file:
        raise ValueError("choose a record: the results.sqlite of a run, or a copy of it")
    path = Path(file)
    if path.stat().st_size > MAX_UPLOAD:
        raise ValueError(
            f"a record must have at most {MAX_UPLOAD // MB} MB; `bigain report --record` makes a small one"
        )
    try:
        chart = read_chart(path)
    except (ValueError, OSError) as error:
        raise ValueError(str(error).replace(str(path), path.name)) from None
    name = f"{path.stem} (yours)"
    kept = dict(list(own.items())[-(OWN - 1) :]) | {name: chart}
    return kept, gr.update(choices=[*known, *kept], value=name)
