"""Times of group correction beside what its FLOPs promise."""

from text import RESULTS, Record, read, table


def correction_speed() -> str:
    """The section, or nothing before it was measured."""
    if not (RESULTS / "correction-speed.json").is_file():
        return ""
    record = read("correction-speed")
    heads = ["model", "setting", "corrected", "FLOPs", "time", "of the saving"]
    facts = record["facts"]
    return f"""## Group correction

A decision with [group correction](correction.md) beside the uncompressed one: stages [5, 20] keep [5, 1],
{record["rows"][0]["images"]} images, medians of {record["rounds"]} interleaved rounds, with the 95 % interval of the
sign test ({facts["machine"]}, torch {facts["torch"]}; `python benchmarks/correction_speed.py`). FLOPs and times are
shares of the uncompressed ones; the last column is the share of the saving in FLOPs that the times show:

{table(heads, [cells(row) for row in record["rows"]])}"""


def cells(row: Record) -> list[str]:
    setting, ratio = row["compression"], row["time_ratio"]
    interval = f" [{ratio['low']:.2f}, {ratio['high']:.2f}]" if ratio["low"] is not None else f" (n = {ratio['n']})"
    return [
        row["model"],
        ", ".join(f"`{part}`" for part in (setting["operator"], setting["where"]) if part),
        "yes" if row["correct"] else "no",
        f"{row['flops_ratio']:.2f}",
        f"{ratio['value']:.2f}{interval}",
        f"{100 * row['realised']:.0f} %".replace("-", "−"),
    ]
