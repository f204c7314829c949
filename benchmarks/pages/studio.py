"""The studio under load."""

from text import RESULTS, read, table

WORDS = {"classify": "classify, twice", "look": "look inside", "generate": "generate 2 images twice, 10 steps"}


def studio_load() -> str:
    """Nothing before it was measured."""
    if not (RESULTS / "studio-load.json").exists():
        return ""
    record = read("studio-load")
    alone = {row["request"]: row for row in record["alone"]}
    rows = [
        [WORDS[row["request"]], f"{alone[row['request']]['first']:.2f}", f"{alone[row['request']]['last']:.2f}",
         f"{row['first']:.1f}", f"{row['last']:.1f}", f"{row['longest']:.1f}", f"{row['failed']} of {row['n']}"]
        for row in record["together"]
    ]  # fmt: skip
    heads = ["request", "alone: first s", "done s", f"{record['visitors']} visitors: first s", "done s", "longest s",
             "failed"]  # fmt: skip
    memory = record["megabytes"]
    return f"""## The studio

`bigain studio` answers after {record["starting"]:.1f} s. {record["visitors"]} visitors at once on loopback, each asking
for everything {record["rounds"]} times, one request after the other ({record["machine"]}, gradio
{record["versions"]["gradio"]}; `python benchmarks/studio_load.py`). Seconds until something is shown and until all is,
medians, with waiting in the queue:

{table(heads, rows)}

The server took {memory["before"]:.0f} MB before the visitors came, {memory["peak"]:.0f} MB at most and
{memory["after"]:.0f} MB after they had gone."""
