"""The output of `bigain bench`: tables, JSON, and which operators do not pay off."""

from collections.abc import Iterable
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from bigain.bench.flops import by_reason
from bigain.bench.ratios import FEWEST_ROUNDS
from bigain.bench.runners import Bench
from bigain.bench.speed import Machine, Measured, Result
from bigain.bench.stopwatch import PARTS
from bigain.registry import NONE


def title(bench: Bench, machine: Machine) -> str:
    size = "x".join(map(str, bench.latent or machine.native))
    return f"{bench.model}, {size} latents, batch {bench.batch}, {bench.dtype}, {machine.text}"


def speed_table(rows: list[Measured], bench: Bench, machine: Machine, refused: Iterable[str] = ()) -> Table:
    """The time of a step, its speed-up, and the speed-up that FLOPs allow; the last rows are what does not run."""
    caption = (
        f"ms: median of {bench.rounds} interleaved rounds. speed-up: the time of none divided by its own in the same "
        "round, median and 95 % interval; it may differ from the ratio of medians. allowed: the limit set by FLOPs. "
        "to tomesd: its time divided by tomesd's in the same round, median"
    )
    heads = ("ms", "quartiles", "speed-up", "95 %", "allowed", "to tomesd")
    table = new_table(title(bench, machine), caption, heads)
    for row in rows:
        table.add_row(
            name_of(row),
            milliseconds(row.seconds),
            "–".join(milliseconds(end) for end in row.quartiles),
            f"{row.speedup:.2f}",
            "–".join(f"{end:.2f}" for end in row.speedup_interval or ()),
            f"{row.bound:.2f}",
            f"{row.to_tomesd:.2f}" if row.to_tomesd else "",
        )
    for name in refused:
        table.add_row(name, *["–"] * len(heads))
    return table


def parts_table(rows: list[Measured]) -> Table:
    """Time of an eager step at the compressed attentions, by part, and its memory."""
    table = new_table("milliseconds at the compressed attentions", None, (*PARTS, "peak MB", "GFLOPs"))
    for row in rows:
        if row.parts is not None:
            parts = [milliseconds(row.parts[part]) for part in PARTS]
            table.add_row(row.name, *parts, f"{(row.peak_bytes or 0) / 1e6:.1f}", f"{row.flops / 1e9:.3g}")
    return table


def new_table(title: str, caption: str | None, heads: tuple[str, ...]) -> Table:
    """Fits 80 characters; only the operators' names may wrap."""
    table = Table(title=title, caption=caption, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("operator", overflow="fold")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    return table


def name_of(row: Measured) -> str:
    return row.name + ("" if row.mode == "eager" else ", compiled")


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.2f}" if seconds < 0.01 else f"{1e3 * seconds:.0f}"


def speed_json(found: Result, bench: Bench) -> dict[str, Any]:
    machine = found.machine
    return {
        "model": bench.model,
        "latent": list(bench.latent or machine.native),
        "batch": bench.batch,
        "dtype": bench.dtype,
        "rounds": bench.rounds,
        "machine": machine.text,
        "versions": machine.versions,
        "rows": [row.as_json() for row in found.rows],
        "break_even": found.pays,
        "not_compiled": found.failed,
        "refused": found.refused,
    }


def advice(found: Result) -> list[str]:
    """One line for each operator that is significantly slower, cannot be compiled or does not run on this model.

    With too few rounds to tell, a line says how many are needed.
    """
    lines = by_reason(found.refused.items())
    lines += [f"{name} cannot be compiled: {reason}" for name, reason in found.failed.items()]
    if any(row.name != NONE and row.interval is None for row in found.rows):
        lines.append(f"too few rounds to say which operators pay off; use --rounds {FEWEST_ROUNDS} or more")
    for row in found.rows:
        if row.mode == "eager" and row.name in found.pays:
            side = found.pays[row.name]
            from_there = f"from {side}x{side} tokens on" if side else "at none of the sizes tried"
            noise = "[{:.2f}, {:.2f}]".format(*row.interval or (row.to_none,) * 2)
            lines.append(
                f"{row.name} is slower than no compression here ({row.to_none:.2f} {noise} of its time); with "
                f"tokens of this width it pays off {from_there}"
            )
    return lines
