"""What `bigain bench` says: a table, JSON, a chart, and when an operator does not pay."""

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from bigain.bench.ratios import FEWEST_ROUNDS
from bigain.bench.speed import Bench, Machine, Measured, Result
from bigain.bench.stopwatch import PARTS
from bigain.registry import NONE


def title(bench: Bench, machine: Machine) -> str:
    size = "x".join(map(str, bench.latent or machine.native))
    return f"{bench.model}, {size} latents, batch {bench.batch}, {bench.dtype}, {machine.text}"


def speed_table(rows: list[Measured], bench: Bench, machine: Machine) -> Table:
    """A step: its time, how many times as fast as uncompressed it is, and what FLOPs allow."""
    caption = (
        f"ms: medians of {bench.rounds} interleaved rounds. speed-up: the time of none over its own in the same round, "
        "median and 95 % interval, so it need not be the ratio of two ms. allowed: by the FLOPs. to tomesd: its time "
        "over that of tomesd in the same round, median"
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
    return table


def parts_table(rows: list[Measured]) -> Table:
    """Where the time of an eager step goes, at the attentions that are compressed, and its memory."""
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
    }


def advice(found: Result) -> list[str]:
    """One line for each operator that costs more than it saves, or cannot be compiled.

    Slower is what is slower beyond the noise; with too few rounds to know, a line says how many it takes.
    """
    lines = [f"{name} cannot be compiled: {reason}" for name, reason in found.failed.items()]
    if any(row.name != NONE and row.interval is None for row in found.rows):
        lines.append(f"to say which operators pay takes {FEWEST_ROUNDS} rounds or more: --rounds {FEWEST_ROUNDS}")
    for row in found.rows:
        if row.mode == "eager" and row.name in found.pays:
            side = found.pays[row.name]
            from_there = f"from {side}x{side} tokens on" if side else "at no size that was tried"
            noise = "[{:.2f}, {:.2f}]".format(*row.interval or (row.to_none,) * 2)
            lines.append(
                f"{row.name} costs more than it saves here ({row.to_none:.2f} {noise} of the time without); at this "
                f"width of the tokens it pays {from_there}"
            )
    return lines
