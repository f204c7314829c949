"""Figures of a real run of a tiny model: they show the report's numbers, and all that is written can be read."""

import io
import itertools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import rcParams
from matplotlib.figure import Figure
from PIL import Image
from torch.nn import functional as F

from bigain.experiments.evaluator import Evaluator
from bigain.experiments.report import Report, read_report
from bigain.experiments.runner import run_chunks
from bigain.metrics.distances import frechet_to_real, kernel_to_real
from bigain.plots import changes, curves, gallery, loss_curve, pareto, save_figure, spectra, write_figures
from bigain.plots.curves import draw_front
from bigain.plots.style import NothingToDrawError
from helpers.runs import save_tiny, started

pytestmark = pytest.mark.slow

ROWS: list[dict[str, Any]] = [
    {"name": "none", "operator": "none"},
    {"name": "merge", "operator": "gated_merge(ratio={ratio})", "ratio": [0.5, 0.3]},
    {
        "name": "own",
        "operator": "tome(ratio={ratio}, pattern='per_row')",
        "ratio": [0.5],
        "tasks": ["classify"],
        "n": 6,
    },
    {
        "name": "keys",
        "operator": "kv_downsample(factor={factor}, alpha={alpha})",
        "factor": [2],
        "alpha": [-0.2, 1.0],
        "tasks": ["classify"],
    },
]
CARD = {"name": "small", "curve": [{"samples": 1000 * k, "loss": 1 / k, "validation": 2 / k} for k in range(1, 9)]}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Eight images classified, twenty made; a distance in features that need no network."""
    place = tmp_path_factory.mktemp("run")
    changed = {"rows": ROWS, "n": 8, "generate": {"count": 20, "num_inference_steps": 1}}
    run = started(save_tiny(place / "model"), place / "run", **changed)
    run_chunks(run)
    evaluator = Evaluator(run)
    for setting in run.experiment.settings:
        evaluator.evaluate(setting)
        if "generate" in setting.tasks:
            measured = run.store.measures(run.ids[setting.label])["samples"]
            images, real = (
                F.adaptive_avg_pool2d(x, 2).flatten(1).numpy() for x in (evaluator.images(setting), evaluator.real()[0])
            )
            for distance in (frechet_to_real, kernel_to_real):
                found = distance(images, real, features="pixels", source="the sample")
                measured[found.name] = found._asdict()
            run.store.add_measure(run.ids[setting.label], "samples", measured)
    return read_report(place / "run")


def errorbars(axes: Any) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Label -> x, y, and the ends of the bars: (n,), (n,), (n, 2)."""
    found = {}
    for bars in axes.containers:
        line, _, (collection,) = bars
        ends = np.array([segment[:, 1] for segment in collection.get_segments()])
        found[bars.get_label()] = (np.array(line.get_xdata(), float), line.get_ydata(), ends)
    return found


def check_readable(figure: Figure) -> None:
    """Nothing leaves the figure, and title, caption, legend and panels do not lie on each other."""
    figure.canvas.draw()
    drawn, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert min(drawn.x0, drawn.y0) > -0.01
    assert drawn.x1 < width + 0.01
    assert drawn.y1 < height + 0.01
    parts: list[Any] = [figure._suptitle, figure._supxlabel, *figure.legends]
    boxes = [part.get_window_extent() for part in parts] + [axes.get_tightbbox() for axes in figure.axes]
    for one, other in itertools.combinations(boxes, 2):
        assert not one.padded(-1).overlaps(other.padded(-1))


def check_picture(path: Path) -> None:
    with Image.open(path) as opened:
        pixels = np.array(opened.convert("RGB"))
    assert min(pixels.shape[:2]) > 200
    assert (pixels != 255).any(-1).mean() > 0.005  # ink
    assert pixels.std() > 5


def test_curves_show_the_accuracies(report: Report) -> None:
    figure = curves(report)
    ratio, alpha = figure.axes
    assert [axes.get_xlabel() for axes in figure.axes] == [
        "ratio: share of tokens removed",
        "alpha: 0 average, 1 nearest token",
    ]
    assert list(errorbars(ratio)) == ["merge", "own"]
    assert list(errorbars(alpha)) == ["keys, factor 2"]
    rows = {row.label: row for row in report.rows}
    for axes, label, expected in (
        (ratio, "merge", ["merge, ratio 0.3", "merge, ratio 0.5"]),
        (ratio, "own", ["own, ratio 0.5"]),
        (alpha, "keys, factor 2", ["keys, factor 2, alpha -0.2", "keys, factor 2, alpha 1.0"]),
    ):
        x, y, ends = errorbars(axes)[label]
        shares = [rows[name].accuracy for name in expected]
        np.testing.assert_allclose(y, [100 * share.value for share in shares])
        np.testing.assert_allclose(ends, [(100 * share.low, 100 * share.high) for share in shares])
        np.testing.assert_allclose(x, [list(rows[name].values.values())[-1] for name in expected], atol=0.01)
    dense = rows["none"].accuracy
    assert ratio.lines[0].get_ydata() == pytest.approx([100 * dense.value] * 2)
    assert ratio.get_ylabel() == "accuracy, %"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "uncompressed", "merge", "own", "keys, factor 2",
    ]  # fmt: skip
    assert "95 % Wilson intervals, n = 6 to 8." in figure.get_supxlabel()
    assert [label.get_text() for label in alpha.get_xticklabels()] == ["−0.2", "1"]
    check_readable(figure)


@pytest.mark.parametrize("what", ["FD-pixels", "KD-pixels"])
def test_curves_show_distances_with_their_floor(report: Report, what: str) -> None:
    figure = curves(report, what)
    (axes,) = figure.axes
    found = [
        row.samples.distances[what] for row in report.rows if row.label in ("merge, ratio 0.3", "merge, ratio 0.5")
    ][::-1]
    _, y, ends = errorbars(axes)["merge"]
    np.testing.assert_allclose(y, [distance.value for distance in found])
    np.testing.assert_allclose(ends.mean(1), y)
    np.testing.assert_allclose((ends[:, 1] - ends[:, 0]) / 2, [distance.error for distance in found])
    floor = next(line for line in axes.lines if line.get_label() == "real against real")
    assert floor.get_ydata() == pytest.approx([found[0].floor] * 2)
    assert "± one standard error, n = 20." in figure.get_supxlabel()
    check_readable(figure)


def test_changes_show_every_setting_that_was_compared(report: Report) -> None:
    figure = changes(report)
    (axes,) = figure.axes
    rows = [row for row in report.rows if row.change]
    assert [label.get_text() for label in axes.get_yticklabels()] == [row.label for row in rows]
    assert len(axes.containers) == len(rows) == 5
    for bars, row in zip(axes.containers, rows, strict=True):
        line, _, (collection,) = bars
        assert line.get_xdata() == pytest.approx([100 * row.change.value])
        assert collection.get_segments()[0][:, 0] == pytest.approx([100 * row.change.low, 100 * row.change.high])
    assert "on the same images, n = 6 to 8; filled: p < 0.05" in figure.get_supxlabel().replace("\n", " ")
    check_readable(figure)


def test_a_change_that_is_proven_is_filled(report: Report) -> None:
    rows = [replace(row, p=0.01 if row.name == "own" else row.p) for row in report.rows]
    fills = [
        bars[0].get_markerfacecolor() != "white" for bars in changes(replace(report, rows=rows)).axes[0].containers
    ]
    assert fills == [row.name == "own" for row in rows if row.change]


def test_pareto_has_a_point_for_each_setting(report: Report) -> None:
    figure = pareto(report)
    accuracy, distance = figure.axes
    assert (accuracy.get_ylabel(), distance.get_ylabel()) == ("accuracy, %", "FD-pixels (lower is better)")
    assert accuracy.get_xlabel() == "FLOPs saved, %"
    x, y, _ = errorbars(accuracy)["merge"]
    rows = [row for row in report.rows if row.name == "merge"]
    np.testing.assert_allclose(x, [100 * row.saved for row in rows])
    np.testing.assert_allclose(y, [100 * row.accuracy.value for row in rows])
    assert sum(len(x) for x, _, _ in errorbars(accuracy).values()) == len(report.rows)
    assert list(errorbars(distance)) == ["uncompressed", "merge"]
    check_readable(figure)
    timed, _ = pareto(report, "seconds").axes
    assert timed.get_xlabel() == "milliseconds per evaluation"
    np.testing.assert_allclose(errorbars(timed)["merge"][0], [1000 * row.seconds for row in rows])


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=8), st.booleans(), st.booleans())
def test_the_front_is_the_best_at_each_cost(places: list[tuple[int, int]], more: bool, high: bool) -> None:
    axes = Figure().subplots()
    draw_front(axes, places, more=more, high=high)
    x, y = axes.lines[0].get_data()
    for cost, _ in places:
        within = [v for c, v in places if (c >= cost if more else c <= cost)]
        reached = [v for c, v in zip(x, y, strict=True) if (c >= cost if more else c <= cost)]
        best = max if high else min
        assert best(reached) == best(within)
    assert set(zip(x[:-1], y[:-1], strict=True)) <= set(places)


def test_spectra_are_differences_to_real_images(report: Report) -> None:
    figure = spectra(report)
    (axes,) = figure.axes
    assert axes.get_title(loc="left") == "merge"
    lines = {line.get_label(): line for line in axes.lines}
    row = next(row for row in report.rows if row.label == "merge, ratio 0.5")
    line = lines[f"ratio 0.5: {row.samples.spectra.distance:.2f}"]
    frequency, decibels = (np.array(getattr(row.samples.spectra, key)) for key in ("frequency", "decibels"))
    keep = (frequency > 0) & (frequency <= 0.5)
    np.testing.assert_allclose(line.get_xdata(), frequency[keep])
    np.testing.assert_allclose(line.get_ydata(), (decibels - np.array(row.samples.spectra.real))[keep])
    assert sum(name.startswith("uncompressed: ") for name in lines) == 1
    distance = np.sqrt(np.square(line.get_ydata()).mean())
    assert distance == pytest.approx(row.samples.spectra.distance)  # the legend tells of what is drawn
    assert "n = 20." in figure.get_supxlabel()
    check_readable(figure)


def test_gallery_shows_the_kept_images(report: Report) -> None:
    figure = gallery(report)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "uncompressed",
        "merge, ratio 0.5",
        "merge, ratio 0.3",
    ]
    sheet = axes.images[0].get_array()
    side = sheet.shape[0] // 3
    assert sheet.shape == (3 * side, 10 * side, 3)
    with Image.open(io.BytesIO(report.examples["merge, ratio 0.3"][4])) as opened:
        expected = np.array(opened.convert("RGB"))
    cell = sheet[2 * side : 3 * side, 4 * side : 5 * side]
    edge = (side - len(expected)) // 2
    np.testing.assert_array_equal(cell[edge:-edge, edge:-edge], expected)
    check_readable(figure)
    few = gallery(report, ["merge, ratio 0.3"], columns=3).axes[0]
    np.testing.assert_array_equal(few.images[0].get_array(), sheet[2 * side :, : 3 * side])


def test_long_labels_stay_readable(report: Report) -> None:
    words = "merging in one half of the network and down-sampling in the other, ratio"
    labels = {row.label: row.label.replace("merge, ratio", words) for row in report.rows}
    changed = replace(
        report,
        title="A comparison whose title says much more than anybody needs to know of it",
        rows=[replace(row, label=labels[row.label]) for row in report.rows],
        examples={labels[label]: data for label, data in report.examples.items()},
    )
    for draw in (curves, changes, pareto, spectra, gallery):
        check_readable(draw(changed))


def test_many_methods_differ_in_colour_marker_or_line(report: Report) -> None:
    merge = next(row for row in report.rows if row.name == "merge")
    rows = [
        replace(merge, name=f"method {i}", label=f"method {i}, ratio {ratio}", values={"ratio": ratio})
        for i in range(11)
        for ratio in (0.3, 0.5)
    ]
    many = replace(report, rows=[report.rows[0], *rows])
    figure = curves(many)
    (axes,) = figure.axes
    drawn = {(b[0].get_color(), b[0].get_marker(), b[0].get_linestyle()) for b in axes.containers}
    assert len(drawn) == len(axes.containers) == 11
    check_readable(figure)
    check_readable(pareto(many))


def test_loss_curve() -> None:
    figure = loss_curve(CARD)
    (axes,) = figure.axes
    training, validation = axes.lines
    np.testing.assert_allclose(training.get_xdata(), range(1, 9))
    np.testing.assert_allclose(training.get_ydata(), [1 / k for k in range(1, 9)])
    np.testing.assert_allclose(validation.get_ydata(), [2 / k for k in range(1, 9)])
    assert "training 0.1250, validation 0.2500" in figure.get_supxlabel()
    check_readable(figure)
    with pytest.raises(NothingToDrawError, match="the card of net has no loss curve"):
        loss_curve({"name": "net"})


def test_all_figures_are_written_and_the_same_each_time(report: Report, tmp_path: Path) -> None:
    names = ["accuracy", "FD-pixels", "KD-pixels", "changes", "pareto", "spectra", "gallery"]
    paths = write_figures(report, tmp_path / "one")
    assert [path.name for path in paths] == [f"{name}.{form}" for name in names for form in ("png", "svg")]
    for draw, name in ((curves, "accuracy.svg"), (curves, "accuracy.png"), (gallery, "gallery.svg")):
        again = save_figure(draw(report), tmp_path / name)  # in another order, too
        assert again.read_bytes() == (tmp_path / "one" / name).read_bytes()
    for path in paths:
        if path.suffix == ".png":
            check_picture(path)
        else:
            assert "<dc:date>" not in path.read_text()


def test_one_setting_is_enough(report: Report, tmp_path: Path) -> None:
    alone = next(row for row in report.rows if row.label == "merge, ratio 0.3")
    single = replace(report, rows=[alone], examples={alone.label: report.examples[alone.label]})
    assert [path.stem for path in write_figures(single, tmp_path, ["png"])] == ["changes", "spectra", "gallery"]
    dense = replace(report, rows=report.rows[:1], examples={})
    assert [path.stem for path in write_figures(dense, tmp_path, ["png"])] == ["spectra"]
    assert spectra(dense).axes[0].get_title(loc="left") == "uncompressed"


def test_what_is_missing_is_said(report: Report) -> None:
    bare = [replace(row, accuracy=None, change=None, samples=None, saved=None) for row in report.rows]
    empty = replace(report, rows=bare, examples={})
    for draw, words in (
        (curves, "'Tiny' has no results yet; create them with `bigain run FILE`"),
        (changes, "'Tiny' has no setting to compare with uncompressed"),
        (pareto, "'Tiny' has no two settings with a result and FLOPs saved, %"),
        (spectra, "'Tiny' has no spectra; add the task generate"),
        (gallery, "'Tiny' has no generated images; add the task generate"),
    ):
        with pytest.raises(NothingToDrawError, match=words):
            draw(empty)
    with pytest.raises(NothingToDrawError, match=r"unknown measure 'FD-pixel'\. Did you mean 'FD-pixels'"):
        curves(report, "FD-pixel")
    with pytest.raises(
        NothingToDrawError, match="no method with two values of a swept variable, so accuracy has no curve"
    ):
        curves(replace(report, rows=report.rows[:2]))
    with pytest.raises(NothingToDrawError, match=r"unknown setting 'own'\. Available: none, merge"):
        gallery(report, ["own"])
    with pytest.raises(ValueError, match=r"unknown cost 'second'\. Did you mean 'seconds'"):
        pareto(report, "second")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"unknown figure format 'pdf'\. Available: png, svg"):
        save_figure(loss_curve(CARD), Path("figure.pdf"))


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"figures need matplotlib: pip install bigain\[plots\]"):
        loss_curve(CARD)


def test_the_users_style_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plain = save_figure(loss_curve(CARD), tmp_path / "plain.png").read_bytes()
    monkeypatch.setitem(rcParams, "font.size", 20)
    monkeypatch.setitem(rcParams, "lines.linewidth", 9)
    before = dict(rcParams)
    assert save_figure(loss_curve(CARD), tmp_path / "again.png").read_bytes() == plain
    assert dict(rcParams) == before


def test_no_state_of_pyplot_is_touched() -> None:
    code = (
        "import sys, bigain.plots as plots; assert 'matplotlib' not in sys.modules;"
        f"plots.loss_curve({CARD}).canvas.draw(); print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
