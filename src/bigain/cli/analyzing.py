"""What `bigain analyze` prints."""

from typing import Any

from rich.table import Table

from bigain.cli.console import cell, out

SIGNS = str.maketrans("-", "−")
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
    table = Table(title=cell(title))
    table.add_column("setting", overflow="fold")
    predicted = any(row.get("predicted") for row in found["rows"])
    heads = ["accuracy %", "change", "mu'/mu", "sigma'/sigma", "r", "r'/r", "criterion"]
    heads += ["predicted by tokens", "by differences"] * predicted
    for head in [*heads, "bound", "real"]:
        table.add_column(head, justify="right")
    for row in found["rows"]:
        change = row["change"]
        cells = [f"{100 * row['accuracy']['value']:.1f}", between(change, 100, 1), number(row["margin_kept"]),
                 number(row["spread_kept"]), number(row["r"]), between(row["ratio"], 1, 2), holds(row)]  # fmt: skip
        if row["label"] == found["dense"]:
            cells = [cells[0], "", "", "", cells[4], "", ""]
        if predicted:
            ratios = [row["predicted"].get(kind, {}).get("ratio") for kind in ("tokens", "differences")]
            dense = row["label"] == found["dense"]
            cells += ["" if dense or ratio is None else number(ratio) for ratio in ratios]
        last = row["misses"][-1] if row["misses"] else {}
        cells += [share(last.get("bound")), share(last.get("real"))]
        table.add_row(cell(row["label"]), *(text.translate(SIGNS) for text in cells))
    last = next((row["misses"][-1]["trials"] for row in found["rows"] if row["misses"]), None)
    table.caption = (
        "mu, sigma: of the paired differences to the strongest rival; r = sigma / mu. criterion: does r fall? "
        f"bound, real: Cantelli's and the real misses of {last} trials, of images with a margin."
    )
    return table


def bands_table(found: dict[str, Any]) -> Table:
    """Bands from coarse to fine: what the uncompressed model has in each, and what comes back from each setting."""
    bands = found["bands"]
    table = Table(title="bands, from coarse to fine")
    table.add_column("cycles a token, from", overflow="fold")
    for edge in bands["from"]:
        table.add_column(f"{edge:.3g}", justify="right")
    dense = next(row for row in found["rows"] if row["label"] == found["dense"])
    total = sum(bands["frequencies"])
    table.add_row("share of frequencies", *(f"{count / total:.2f}" for count in bands["frequencies"]))
    margins = [part["value"] for part in dense["bands"]["mu"]]
    table.add_row("share of the margin", *(signed(part / sum(margins)) for part in margins))
    rich = (between(part, 1, 2) for part in dense["bands"]["richness"])
    table.add_row("margin less variance", *rich, end_section=True)
    for row in found["rows"]:
        for kind, words in (("tokens", "tokens"), ("differences", "class differences"), ("exact", "keys, exactly")):
            if kind in row["response"] and row is not dense:
                gains = (number(part) for part in row["response"][kind]["gain"])
                table.add_row(cell(f"{row['label']}: {words}"), *gains)
    table.caption = (
        "margin less variance: share of mu less share of sigma², above zero where a band is margin-rich. Below: the "
        f"response. Covariances between bands hold {share(dense['neglected']['value'])} of sigma²."
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
    slack = row["criterion"]["exact"]["value"]
    return "" if slack is None else "yes" if slack > 0 else "no"


def number(found: dict[str, Any]) -> str:
    value = found["value"]
    return "–" if value is None else f"{value:.2f}".translate(SIGNS)


def signed(value: float) -> str:
    return f"{value:.2f}".translate(SIGNS)


def share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"


def between(found: dict[str, Any], scale: float, places: int) -> str:
    """A value with its interval."""
    value, low, high = (found[key] for key in ("value", "low", "high"))
    if value is None:
        return "–"
    ends = ["∞" if end is None else f"{scale * end:.{places}f}" for end in (low, high)]
    return f"{scale * value:.{places}f} [{ends[0]}, {ends[1]}]".translate(SIGNS)
