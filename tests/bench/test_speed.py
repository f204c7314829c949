"""`bigain bench` measures what it says; how fast anything is, no test says."""

import io
import json
from functools import partial
from pathlib import Path

import pytest
import torch
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner

import bigain
from bigain.bench import speed
from bigain.bench.runners import Bench, Runner
from bigain.bench.speed import Details, Machine, Measured, Result, measure, measured
from bigain.bench.speed_report import advice, speed_table
from bigain.bench.stopwatch import PARTS
from bigain.cli import app
from bigain.compression.attach import site_hooks
from bigain.denoisers.base import ImageSpec
from bigain.denoisers.labelled import LabelledDenoiser, build_labelled
from bigain.denoisers.schedule import Schedule
from bigain.models.architectures import share_weights
from bigain.plots.speed import stacked
from bigain.zoo.loop import save_labelled
from helpers.models import BACKBONES, run

pytestmark = pytest.mark.slow

UNET = {
    "sample_size": 16,
    "block_out_channels": (8,),
    "layers_per_block": 1,
    "down_block_types": ("CrossAttnDownBlock2D",),
    "up_block_types": ("UpBlock2D",),
    "mid_block_type": None,
    "attention_head_dim": 1,
}

QUICK = {"model": "fashion-unet", "rounds": 2}


@pytest.fixture(scope="module")
def result() -> speed.Result:
    return measure(Bench(**QUICK, operators=("tomesd(ratio=0.7)", "tome(ratio=0.7)", "todo(factor=2)")))


def test_all_are_measured_in_the_same_rounds(result: speed.Result) -> None:
    assert [row.name for row in result.rows] == ["none", "tomesd(ratio=0.7)", "tome(ratio=0.7)", "todo(factor=2)"]
    dense, peer, tome, todo = result.rows
    assert dense.to_none == 1
    assert peer.to_tomesd == 1
    assert peer.flops == tome.flops
    assert dense.bound == 1
    assert todo.bound == pytest.approx(dense.flops / todo.flops)
    for row in result.rows:
        assert row.quartiles[0] <= row.seconds <= row.quartiles[1]
        assert row.speedup == pytest.approx(1 / row.to_none)
        assert row.peak_bytes > 0


def test_parts_are_those_of_the_operator(result: speed.Result) -> None:
    dense, peer, tome, todo = (row.parts for row in result.rows)
    assert [dense[part] > 0 for part in PARTS] == [False, False, True, False]
    assert all(part > 0 for part in peer.values())
    assert all(part > 0 for part in tome.values())
    assert todo["merge"] > 0


def test_twins_share_their_weights_and_nothing_else() -> None:
    for backbone in BACKBONES.values():
        model = backbone.build()
        other = share_weights(model)
        assert torch.equal(run(backbone, model), run(backbone, other))
        assert {p.data_ptr() for p in model.parameters()} == {p.data_ptr() for p in other.parameters()}
        with bigain.compress(other, "gated_merge(0.5)"):
            assert not torch.equal(run(backbone, model), run(backbone, other))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a U-Net of one block."""
    sizes = UNET | {"in_channels": 4, "out_channels": 4, "cross_attention_dim": 32, "norm_num_groups": 8}
    denoiser = LabelledDenoiser(build_labelled("unet", sizes, 3, 2), Schedule(), ImageSpec(28, 1, 2), tuple("abc"))
    folder = tmp_path_factory.mktemp("small")
    save_labelled(folder, denoiser, "unet")
    return str(folder)


@pytest.fixture(scope="module")
def compiled(small: str) -> speed.Result:
    """What is compiled, not how: test_compile.py tells what Inductor makes of it. Dynamo would run eager beyond its
    limit without an error; here the limit is one graph.
    """
    import torch._dynamo

    operators = ("todo(factor=2)", "gated_merge(0.5)")
    with (
        pytest.MonkeyPatch.context() as patch,
        torch._dynamo.config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True),
    ):
        patch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
        return measure(Bench(small, operators, rounds=2, compiled=True))


def test_compiled_runs_beside_eager(compiled: speed.Result) -> None:
    rows = compiled.rows
    assert [(row.name, row.mode) for row in rows] == [
        (name, mode) for mode in ("eager", "compiled") for name in ("none", "todo(factor=2)", "gated_merge(0.5)")
    ]
    assert rows[5].parts is None
    assert rows[2].to_eager is None
    assert rows[5].to_eager.value > 0
    assert not rows[5].to_eager.bounded  # of two rounds
    assert rows[5].as_json()["to_eager"]["low"] is None


def test_all_models_are_compiled_however_many(compiled: speed.Result) -> None:
    assert compiled.failed == {}
    assert sum(row.mode == "compiled" for row in compiled.rows) == 3


def test_a_step_that_does_not_pay_is_named() -> None:
    row = Measured("sito(ratio=0.7)", "eager", 1.2, (1.1, 1.3), 1.2, None, 10, 1.1, interval=(1.1, 1.3))
    machine = Machine("cpu", {}, (8, 8))
    (line,) = advice(Result([row], {"sito(ratio=0.7)": None}, machine, {}, {}))
    assert "1.20 [1.10, 1.30] of its time" in line
    assert "at none of the sizes tried" in line
    (line,) = advice(Result([row], {"sito(ratio=0.7)": 48}, machine, {}, {}))
    assert "it pays off from 48x48 tokens on" in line
    assert advice(Result([row], {}, machine, {}, {})) == []


def row_of(own: list[float], dense: list[float]) -> Measured:
    runner = Runner("todo(2)", "eager", torch.nn.Identity(), lambda: None, None)
    times = {("none", "eager"): dense, ("todo(2)", "eager"): own}
    return measured(runner, times, {"none": 10, "todo(2)": 5}, Details(None, None))


def test_the_speedup_is_of_the_same_round_and_has_an_interval() -> None:
    """One slow spell of the machine moves the times, not the ratio."""
    dense = [1.0, 1.1, 0.9, 5.0, 1.0, 1.2, 1.0]
    row = row_of([0.5 * t for t in dense], dense)
    assert row.speedup == pytest.approx(2)
    assert row.speedup_interval == pytest.approx((2, 2))
    assert row.as_json()["speedup_interval"] == pytest.approx((2, 2))
    assert row.as_json()["interval"] == pytest.approx((0.5, 0.5))
    row = row_of([0.5, 2.0, 0.9, 1.1, 1.2, 0.8, 1.3], [1.0] * 7)
    assert row.interval == (0.5, 2.0)
    low, high = row.speedup_interval
    assert low <= row.speedup <= high


@pytest.mark.parametrize(
    ("own", "slower"),
    [
        ([1.2, 1.3, 1.1, 1.2, 1.4, 1.1], True),  # in six of six rounds
        ([1.2, 1.3, 1.1, 1.2, 1.4, 0.99], False),  # slower in the middle, not beyond the noise
        ([1.2, 1.3, 1.1, 1.2, 1.4], False),  # too few to know
        ([0.8] * 7, False),
    ],
)
def test_a_verdict_is_beyond_the_noise(own: list[float], slower: bool) -> None:
    assert row_of(own, [1.0] * len(own)).slower == slower


def test_too_few_rounds_for_a_verdict_are_told() -> None:
    row = row_of([1.2, 1.3], [1.0, 1.0])
    assert (row.interval, row.speedup_interval, row.as_json()["speedup_interval"]) == (None, None, None)
    lines = advice(Result([row], {}, Machine("cpu", {}, (8, 8)), {}, {}))
    assert lines == ["too few rounds to say which operators pay off; use --rounds 6 or more"]


def test_the_table_says_how_the_speedup_is_formed() -> None:
    row = row_of([0.5, 0.6, 0.5, 0.4, 0.5, 0.5, 0.5], [1.0] * 7)
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(speed_table([row], Bench(rounds=7), Machine("cpu", {}, (8, 8))))
    text = " ".join(console.export_text().split())
    assert "2.00 1.67–2.50" in text
    assert "speed-up: the time of none divided by its own in the same round, median and 95 % interval" in text


def test_what_cannot_be_compiled_is_named_and_the_rest_measured(small: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def compiler(model: torch.nn.Module) -> object:
        def fail(*args: object, **kwargs: object) -> None:
            raise RuntimeError("no such kernel\nand much more")

        return fail if site_hooks(model) else model

    monkeypatch.setattr(torch, "compile", compiler)
    result = measure(Bench(small, ("tomesd(ratio=0.5)", "gated_merge(0.5)"), rounds=2, compiled=True))
    assert result.failed == {"gated_merge(0.5)": "RuntimeError: no such kernel"}
    assert [row.name for row in result.rows if row.mode == "compiled"] == ["none", "tomesd(ratio=0.5)"]
    assert [row.name for row in result.rows if row.mode == "eager"][-1] == "gated_merge(0.5)"
    assert advice(result)[0] == "gated_merge(0.5) cannot be compiled: RuntimeError: no such kernel"


def test_bars_add_up_to_the_step() -> None:
    parts = {"plan": 0.1, "merge": 0.1, "attention": 0.5, "unmerge": 0.1}
    row = Measured("x", "eager", 1.0, (0.9, 1.1), 1.0, None, 10, 1.0, parts=parts)
    assert sum(stacked(row).values()) == pytest.approx(1.0)
    assert row.overhead == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"dtype": "float8"}, "unknown dtype 'float8'"),
        ({"batch": 0}, "batch must be an int of at least 1, got 0"),
        ({"rounds": 2.5}, "rounds must be an int of at least 1, got 2.5"),
        ({"model": "sd3"}, "unknown bundled model 'sd3'"),
        ({"operators": ("gated_merg(0.5)",)}, "Did you mean 'gated_merge'"),
    ],
)
def test_bad_input(changes: dict, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        measure(Bench(**QUICK | changes))


def test_tomesd_is_for_unets() -> None:
    with pytest.raises(ValueError, match="only works on U-Nets"):
        measure(Bench("fashion-dit", ("tomesd(ratio=0.5)",), rounds=1))


def test_the_command_writes_a_table_json_and_a_chart(tmp_path: Path) -> None:
    words = [
        "bench",
        "--model",
        "fashion-dit",
        "--operator",
        "block_merge(0.5)",
        "--rounds",
        "1",
        "--out",
        str(tmp_path),
    ]
    done = CliRunner().invoke(
        app,
        words,
    )
    assert done.exit_code == 0, done.output
    assert "block_merge(0.5)" in done.stdout
    assert all(head in done.stdout for head in ("speed-up", "allowed", "unmerge", "peak MB"))
    found = json.loads((tmp_path / "bench.json").read_text())
    assert [row["name"] for row in found["rows"]] == ["none", "block_merge(0.5)"]
    with Image.open(tmp_path / "bench.png") as chart:
        assert chart.width > 600
