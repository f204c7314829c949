"""Times: of an operator by itself, of whole steps, compiled, and of the classifier."""

from text import Record, read, table

SIDES = {64: 512, 96: 768, 128: 1024}  # latents: pixels
EXACT, LOCAL = "gated_merge(ratio=0.7, match='exact')", "gated_merge(ratio=0.7, match='local')"
BASELINE, NONE = "tomesd(ratio=0.7)", "none"
HEAD = """# Performance

Does token compression still pay once attention itself is fast? It does where attention is a large share of the step:
little at 512 px, more at 1024 px. The gain is bounded by that share, whatever an operator costs.

All numbers on this page are written by `python benchmarks/pages` from records in the repository. The times are those of
one machine, so compare the ratios. On yours: `bigain bench --model sd2 --latent 64x64`."""


def by_name(record: Record, mode: str = "eager") -> dict[str, Record]:
    return {row["name"]: row for row in record["rows"] if row["mode"] == mode}


def code(name: str) -> str:
    return name if name == NONE else f"`{name}`"


def overhead() -> str:
    record = read("overhead")
    found = {(row["tokens"], row["name"]): row for row in record["rows"]}
    rows = [
        [f"{row['tokens']:,}", code(row["name"]), f"{1e3 * row['seconds']:.1f}", f"{row['to_tomesd']:.2f}",
         f"{row['peak_bytes'] / 1e6:.1f}", f"{row['peak_to_tomesd']:.2f}"]
        for row in record["rows"]
    ]  # fmt: skip
    small, large = found[4096, LOCAL], found[16384, LOCAL]
    growth = large["seconds"] / small["seconds"]
    peers = found[16384, BASELINE]["seconds"] / found[4096, BASELINE]["seconds"]
    heads = ["tokens", "operator", "ms", "of tomesd's", "peak MB", "of tomesd's"]
    return f"""## What an operator costs by itself

Plan, merge and unmerge at one attention of {record["channels"]} channels, batch {record["batch"]}, {record["dtype"]},
medians of {record["rounds"]} interleaved rounds ({record["machine"]}; `python benchmarks/overhead.py`):

{table(heads, rows)}

tomesd compares each token with a quarter of all tokens. From 4,096 to 16,384 tokens its cost grows {peers:.1f} times.
`match="local"` compares a token with the destinations in its own block of cells and a ring around it, as one batched
matrix product. Its cost grows {growth:.1f} times. Merging and unmerging are one `index_add` and one `index_select` on
flat rows."""


def steps() -> str:
    rows, words, limits = [], [], []
    for side, pixels in SIDES.items():
        record = read(f"bench-sd2-{side}")
        found = by_name(record)
        for name, row in found.items():
            quartiles = "–".join(f"{end:.1f}" for end in row["quartiles"])
            reached = "" if name == NONE else f"{100 * row['speedup'] / row['bound']:.0f} %"
            rows.append([f"{pixels}", code(name), f"{row['seconds']:.1f}", quartiles, f"{row['speedup']:.2f}",
                         f"{row['bound']:.2f}", reached, f"{1 / row['to_tomesd']:.2f}"])  # fmt: skip
        words.append((record["rounds"], record["machine"].replace("1 threads", "1 thread")))
        peer = found[BASELINE]
        share = peer["overhead"] / peer["seconds"]
        limits.append(
            f"- {pixels} px: {100 * share:.1f} % of its step, so at most {1 / (1 - share):.2f} times its speed; "
            f'`match="local"` reaches {1 / found[LOCAL]["to_tomesd"]:.2f}.'
        )
    # of the largest size, whose share the loop left
    out_of_reach = (
        "\n\nSo 1.1 times tomesd's speed at 1024 px is out of reach on this machine, whatever matching costs."
        if 1 / (1 - share) < 1.1
        else ""
    )
    heads = ["pixels", "operator", "s", "quartiles", "speed-up", "FLOPs allow", "reached", "times tomesd's speed"]
    rounds = " and ".join(map(str, sorted({rounds for rounds, _ in words}, reverse=True)))
    return f"""## A step of Stable Diffusion 2.0

The whole U-Net with random weights, one sample, float32, attention by `scaled_dot_product_attention`, medians of
{rounds} interleaved rounds ({words[0][1]}; `python benchmarks/speed.py`). The operators act on their default sites, the
five self-attentions of the finest grid:

{table(heads, rows)}

"FLOPs allow" is the ratio of all operations without and with the operator. More than 100 % of it is reached where the
attention that is saved runs slower, operation for operation, than the convolutions that stay.

How much faster than tomesd can a merge of as many tokens be? By what tomesd spends on planning, merging and unmerging:

{chr(10).join(limits)}{out_of_reach}"""


def where_it_goes() -> str:
    roof = read("overhead")["roof"]
    rows: list[list[str]] = []
    beyond: list[str] = []
    for side, pixels in SIDES.items():
        record = read(f"bench-sd2-{side}")
        found = by_name(record)
        dense, ours = found[NONE], found[LOCAL]
        attention, rest = dense["parts"]["attention"], dense["seconds"] - dense["parts"]["attention"]
        saved = dense["flops"] - ours["flops"]
        rows.append([
            f"{pixels}", f"{side * side:,}", f"{100 * attention / dense['seconds']:.0f} %",
            f"{dense['flops'] / dense['seconds'] / 1e9:.0f}", f"{dense['seconds'] / rest:.2f}", f"{ours['bound']:.2f}",
            f"{ours['speedup']:.2f}", f"{100 * ours['overhead'] / ours['seconds']:.1f} %",
            f"{100 * saved / dense['flops']:.0f} %",
        ])  # fmt: skip
        if ours["speedup"] > 1.005 * dense["seconds"] / rest:  # not by rounding alone
            beyond.append(f"{pixels} px")
    heads = ["pixels", "tokens", "finest attentions, share of the step", "GFLOP/s", "limit: they cost nothing",
             "limit by FLOPs", "reached", "overhead, share of the step", "FLOPs saved"]  # fmt: skip
    noise = (
        f"\n\nWhat is reached at {' and '.join(beyond)} lies above this limit. The rounds are few, and the times carry "
        "that much noise. The limits are the more careful numbers."
        if beyond
        else ""
    )
    return f"""## Where the time goes, and what the limit is

{table(heads, rows)}

For `{LOCAL}`, from the records of the steps above. One thread of this machine reaches
{roof["operations"] / 1e9:.0f} GFLOP/s in a large matrix product and {roof["bytes"] / 1e9:.1f} GB/s in a copy.

Whatever is done to the tokens of the finest grid, a step cannot be faster than if their attentions cost nothing. At
512 px most of a step goes to convolutions and coarser levels, which no operator touches by default. The larger the
image, the more there is to gain.{noise}"""


def compiled() -> str:
    record = read("bench-compiled")
    eager, fast = by_name(record), by_name(record, "compiled")
    rows = [
        [code(name), f"{1e3 * eager[name]['seconds']:.0f}", f"{1e3 * row['seconds']:.0f}",
         faster(row["to_eager"]), f"{row['speedup']:.2f}", f"{row['bound']:.2f}"]
        for name, row in fast.items()
    ]  # fmt: skip
    slower = [name for name, row in fast.items() if (row["to_eager"]["low"] or 0) > 1]
    verdict = f"Slower compiled than eager, beyond chance: {', '.join(map(code, slower)) or 'no operator'}."
    heads = ["operator", "eager ms", "compiled ms", "times as fast", "speed-up, both compiled", "FLOPs allow"]
    size = "x".join(map(str, record["latent"]))
    return f"""## With `torch.compile`

`{record["model"]}` at {size} latents, batch {record["batch"]}, medians of {record["rounds"]} interleaved rounds.
Each operator stays one graph (`tests/test_compile.py`):

{table(heads, rows)}

{verdict}
Ratios are medians of those within a round, with the 95 % interval of the sign test."""


def faster(found: Record) -> str:
    """How many times as fast, from a ratio of times; fewer than six rounds have no interval."""
    if found["low"] is None:
        return f"{1 / found['value']:.2f} (n = {found['n']})"
    return f"{1 / found['value']:.2f} [{1 / found['high']:.2f}, {1 / found['low']:.2f}]"


def classifying() -> str:
    record = read("classify-speed")
    rows = [
        [row["model"], row["way"], f"{row['images_per_second']:.2f}", f"{row['times_plain_loop']:.2f}"]
        for row in record["rows"]
    ]
    heads = ["model", "way", "images/s", "times the plain loop"]
    return f"""## Classifying

Against a plain loop with the paper's protocol, as in the published diffusion classifier: one image, batches of 16 over
class and timestep, nothing shared. Two threads, medians of {record["rounds"]} interleaved rounds over a few images
(`python benchmarks/classify_speed.py`). Decisions of "classifier" are those of the plain loop, with and without
remembered prompts; what `balanced` and `fast` decide is on [another page](results-evaluations.md):

{table(heads, rows)}

"The network alone" is as many evaluations as the paper's protocol takes, in batches of 50 and nothing else. A plain
loop spends its time in the network, too, so a classifier that evaluates as much gains little. Presets gain because
they evaluate less."""


def many_classes() -> str:
    record = read("classify-overhead")
    rows = [[f"{row['classes']:,}", row["policy"], f"{row['evaluations']:.0f}", f"{row['microseconds']:.1f}",
             f"{row['peak_kb'] / 1024:.1f}"] for row in record["rows"]]  # fmt: skip
    return f"""## Many classes

What the classifier itself costs, measured with a network that costs nothing (`python benchmarks/classify_overhead.py`,
{record["images"]} images, medians of {record["rounds"]} rounds, one thread). An evaluation of the smallest bundled
model takes thousands of microseconds:

{table(["classes", "policy", "evaluations an image", "µs an evaluation", "peak of Python's memory, MB"], rows)}"""


def starting() -> str:
    record = read("startup")
    rows = [
        [row["step"] if row["step"].startswith("import of") else f"`{row['step']}`", f"{row['seconds']:.2f}",
         "–".join(f"{end:.2f}" for end in row["quartiles"])]
        for row in record["rows"]
    ]  # fmt: skip
    return f"""## Starting

Seconds in a new process, medians and quartiles of {record["rounds"]} processes ({record["machine"]}, torch
{record["versions"]["torch"]}, diffusers {record["versions"]["diffusers"]}; `python benchmarks/startup.py`):

{table(["step", "s", "quartiles"], rows)}

`import bigain` does not import diffusers; the first `bigain.load` of a process does."""
