"""`bigain bench` of models with joint attention: what runs, what is refused, and narrow versions."""

import io

import pytest
import torch
from rich.console import Console

import bigain
from bigain.bench import runners
from bigain.bench.runners import Bench
from bigain.bench.speed import measure
from bigain.bench.speed_report import advice, speed_table
from bigain.models.architectures import build_random, example_inputs
from bigain.models.named import ARCHITECTURES
from helpers.architectures import JOINT, tiny

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", JOINT)
def test_models_with_joint_attention(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(monkeypatch, name)
    every = ("tomesd(ratio=0.7)", "gated_merge(ratio=0.5)", "kv_downsample(factor=2)")
    monkeypatch.setattr(runners, "OPERATORS", every)
    found = measure(Bench("tiny", rounds=1))
    refused = {"tomesd(ratio=0.7)", "kv_downsample(factor=2)"} if name == "flux2" else {"tomesd(ratio=0.7)"}
    assert set(found.refused) == refused
    assert {row.name for row in found.rows} == {"none", *every} - refused
    for row in found.rows:
        assert row.parts["attention"] > 0
        assert (row.flops == found.rows[0].flops) == (row.name == "none")
    lines = advice(found)
    name_of_class = type(build_random("tiny")).__name__
    assert f"tomesd(ratio=0.7) cannot run here: only works on U-Nets, got {name_of_class}" in lines
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(speed_table(found.rows, Bench("tiny"), found.machine, found.refused))
    shown = console.export_text()
    assert "tiny, 16x16 latents" in shown
    assert all(f"{name} " in shown for name in refused)


def test_an_operator_that_is_named_must_run(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(monkeypatch, "flux2")
    with pytest.raises(ValueError, match="in one matrix"):
        measure(Bench("tiny", ("todo(factor=2)", "gated_merge(0.5)"), rounds=1))
    monkeypatch.setattr(runners, "OPERATORS", ("tomesd(ratio=0.7)", "todo(factor=2)"))
    with pytest.raises(ValueError, match="in one matrix"):  # nothing is left to measure
        measure(Bench("tiny", rounds=1))


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name.endswith("-narrow")])
@torch.no_grad()
def test_narrow_architectures_run(name: str) -> None:
    """With the heads and the kinds of blocks of the whole model; at a small size, as only that it runs is asked."""
    bench, base = Bench(name), build_random(name)
    assert bench.latent == (64, 64)
    inputs = example_inputs(base, (16, 16), text_tokens=ARCHITECTURES[name].text_tokens)
    with bigain.compress(base, "gated_merge(0.5)") as handle:
        assert base(*inputs.args, **inputs.kwargs).sample.isfinite().all()
        assert all(row.ran and row.queries == 32 for row in handle.status())


def test_what_does_not_fit_into_memory_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sysconf", lambda name: 2**17 if name == "SC_PHYS_PAGES" else 4096)
    with pytest.raises(
        ValueError, match=r"flux1-dev has 11.9 billion weights of 48 GB, .* 1 GB of memory; take sd3-na"
    ):
        measure(Bench("flux1-dev"))
