"""What `bigain analyze` prints."""

from typing import Any

from rich.table import Table

from bigain.cli.console import cell, out

SIGNS = str.maketrans("-", "−")
RESPONSES = {"tokens": "tokens", "exact": "keys, exactly", "differences": "class differences"}
FORETELLERS = {
    "ratio": "r' / r, measured: the criterion",
    "first_order": "the criterion to first order",
    "margin_kept": "mu' / mu, measured",
    "predicted by tokens": "r' / r, predicted from the tokens' response",
    "predicted by differences": "r' / r, predicted from the response of class differences",
    "difference_error": "the error of class differences, without any theory",
}


def print_analysis(found: dict[str, Any]) -> None:
    """Tables of settings, bands and rank correlations."""
    left = f", {found['left_out']} left out" * bool(found["left_out"])
    title = f"{found['model']}, {found['data']}, n = {found['n']}{left}, {found['trials']} trials"
    out.print(settings_table(found, title))
    if any("bands" in row for row in found["rows"]):
        out.print(predictions_table(found))
        out.print(bands_table(found))
    if found["foretold"]:
        out.print(foretold_table(found))
    signs = found["signs"]
    out.print(
        f"r falls in {signs['ratio_falls']} of {signs['settings']} settings; accuracy rises in "
        f"{signs['accuracy_rises']}; both go the same way in {signs['alike']} of the {signs['accuracy_moves']} where "
        "accuracy moves.",
        highlight=False,
    )


def settings_table(found: dict[str, Any], title: str) -> Table:
    """Accuracy, r and whether the criterion holds, and what bounds the misses."""
    table = Table(title=cell(title))
    table.add_column("setting", overflow="fold", min_width=18)
    for head in ("acc. %", "change", "r", "r'/r", "holds", "bound", "real"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in found["rows"]:
        last = row["misses"][-1] if row["misses"] else {}
        cells = [marked(row["change"], 0, 100, 1), number(row["r"]), marked(row["ratio"], 1, 1, 2), holds(row)]
        if row["label"] == found["dense"]:
            cells = ["", cells[1], "", ""]
        accuracy = f"{100 * row['accuracy']['value']:.1f}"
        table.add_row(cell(row["label"]), accuracy, *cells, share(last.get("bound")), share(last.get("real")))
    trials = next((row["misses"][-1]["trials"] for row in found["rows"] if row["misses"]), None)
    table.caption = (
        "r = sigma / mu of the paired differences to the strongest rivals, r' under compression. holds: the criterion, "
        "also to first order (yes) or only exactly (exact). bound, real: how often the strongest rival wins, by "
        f"Cantelli and in {trials} trials, where mu is positive. *: the 95 % interval leaves out no change."
    )
    return table


def predictions_table(found: dict[str, Any]) -> Table:
    """Measured margins and spreads beside those that the responses predict."""
    table = Table(title="mu, sigma and r, relative to without compression")
    table.add_column("setting", overflow="fold", min_width=14)
    for head in ("measured", "by tokens", "by differences"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in found["rows"]:
        if row["label"] != found["dense"] and row.get("predicted"):
            kinds = [row, *(row["predicted"].get(kind) for kind in ("tokens", "differences"))]
            table.add_row(cell(row["label"]), *(three(kind) for kind in kinds))
    table.caption = "By: predicted as in the paper, from the response of tokens and from that of class differences."
    return table


def three(found: dict[str, Any] | None) -> str:
    parts = [] if found is None else [number(found[key]) for key in ("margin_kept", "spread_kept", "ratio")]
    return "  ".join(parts) or "–"


def bands_table(found: dict[str, Any]) -> Table:
    """Bands from coarse to fine: what the uncompressed model has in each, and what comes back from each setting."""
    bands = found["bands"]
    table = Table(title="bands of the token grid, from coarse to fine")
    table.add_column("from … cycles a token", overflow="fold", min_width=24)
    for edge in bands["from"]:
        table.add_column(f"{edge:.3g}", justify="right")
    dense = next(row for row in found["rows"] if row["label"] == found["dense"])
    total, margins = sum(bands["frequencies"]), [part["value"] for part in dense["bands"]["mu"]]
    table.add_row("share of frequencies", *(f"{count / total:.2f}" for count in bands["frequencies"]))
    table.add_row("share of the margin", *(f"{part / sum(margins):.2f}".translate(SIGNS) for part in margins))
    rich = (marked(part, 0, 1, 2) for part in dense["bands"]["richness"])
    table.add_row("less that of the variance", *rich, end_section=True)
    for kind, words in RESPONSES.items():
        rows = [row for row in found["rows"] if kind in row["response"] and row is not dense]
        if rows:
            table.add_row(f"response of {words}:")
        for row in rows:
            gains = (number(part) for part in row["response"][kind]["gain"])
            table.add_row("  " + cell(row["label"]), *gains, end_section=row is rows[-1])
    table.caption = (
        "A band is margin-rich where its share of mu is above that of sigma². Covariances between bands hold "
        f"{share(dense['neglected']['value'])} of sigma². *: the 95 % interval leaves out 0."
    )
    return table


def foretold_table(found: dict[str, Any]) -> Table:
    table = Table(title="what foretells accuracy, across settings")
    table.add_column("by", overflow="fold")
    for head in ("settings", "same images", "other images"):
        table.add_column(head, justify="right")
    for name, words in FORETELLERS.items():
        if name in found["foretold"]:
            row = found["foretold"][name]
            cells = (between(row[kind], 1, 2).translate(SIGNS) for kind in ("same_images", "other_images"))
            table.add_row(words, str(row["settings"]), *cells)
    table.caption = "Spearman's rank correlation with 95 % bootstrap intervals; other images: halves that share none."
    return table


def holds(row: dict[str, Any]) -> str:
    exact, first = (row["criterion"][name]["value"] for name in ("exact", "first_order"))
    return "yes" if first > 0 else "exact" if exact > 0 else "no"


def number(found: dict[str, Any] | None) -> str:
    return "–" if found is None or found["value"] is None else f"{found['value']:.2f}".translate(SIGNS)


def marked(found: dict[str, Any], none: float, scale: float, places: int) -> str:
    """A value, with a star where its interval leaves out no effect."""
    value, low, high = (found[key] for key in ("value", "low", "high"))
    if value is None:
        return "–"
    beyond = (low is not None and low > none) or (high is not None and high < none)
    return f"{scale * value:.{places}f}{'*' * beyond}".translate(SIGNS)


def share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"


def between(found: dict[str, Any], scale: float, places: int) -> str:
    """A value with its interval."""
    value, low, high = (found[key] for key in ("value", "low", "high"))
    if value is None:
        return "–"
    ends = ["∞" if end is None else f"{scale * end:.{places}f}" for end in (low, high)]
    return f"{scale * value:.{places}f} [{ends[0]}, {ends[1]}]".translate(SIGNS)
