"""What the driver of a cluster can do, and how much of twice the speed two workers have."""

from text import RESULTS, Record, read, table

CHUNK = 16  # decisions
SECONDS = 10  # a chunk of a large model, for an example


def scale() -> str:
    """The section of docs/cluster.md: what was measured so far."""
    parts = [part() for name, part in PARTS.items() if (RESULTS / f"{name}.json").is_file()]
    return "\n\n".join(["## How far it goes", *parts]) if parts else ""


def efficiency() -> str:
    record = read("cluster-efficiency")
    found, facts = record["efficiency"], record["facts"]
    interval = "" if found["low"] is None else f" [{found['low']:.2f}, {found['high']:.2f}]"
    return f"""Two workers of one thread each do {found["value"]:.2f}{interval} of twice the work of one:
{record["images"]} images of `fashion-unet` under two settings, median of {record["rounds"]} interleaved rounds with the
95 % interval of the sign test ({facts["machine"]}, torch {facts["torch"]}; `python benchmarks/cluster_efficiency.py`)."""


def limits() -> str:
    record = read("cluster-scale")
    schedule, writer, ray = (record[part] for part in ("schedule", "writer", "ray"))
    speeds, size = writer["chunks_per_second"], writer["bytes_a_decision"]
    rows = [
        ["schedule alone", rate(schedule["chunks_per_second"]), megabytes(schedule)],
        [f"writer, {writer['decisions']:,} decisions, first tenth", rate(speeds[0]), ""],
        ["writer, last tenth", rate(speeds[-1]), megabytes(writer)],
        ["asking what is done, when a run continues", rate(writer["asked_per_second"]), ""],
        [f"Ray, {ray['workers']} workers that compute nothing", rate(ray["chunks_per_second"]), ""],
    ]
    return f"""{record["workers"]} simulated workers, a network and a model that cost nothing, {record["settings"]}
settings, chunks of {CHUNK} decisions (`python benchmarks/cluster_scale.py`, Ray {record["versions"]["ray"]}):

{table(["part", "chunks a second", "memory of the driver"], rows)}

The memory of the schedule is that for {schedule["decisions"]:,} decisions. A decision takes {size:,.0f} bytes of the
record, so ten million take {size / 100:,.0f} GB. {first_to_break(min(speeds), schedule, ray)}"""


def first_to_break(writer: float, schedule: Record, ray: Record) -> str:
    """Which of the three is slowest, and how many workers that is."""
    rates = {
        "the writer": writer,
        "the schedule": schedule["chunks_per_second"],
        "Ray's messages": ray["chunks_per_second"],
    }
    name = min(rates, key=lambda part: rates[part])
    most = f"{rates[name] * SECONDS:,.0f}"
    return f"What gives first is {name}: with chunks of {SECONDS} seconds, beyond {most} workers."


def megabytes(part: Record) -> str:
    return f"{part['bytes'] / 2**20:,.0f} MB"


def rate(value: float) -> str:
    return f"{value:,.0f}"


PARTS = {"cluster-efficiency": efficiency, "cluster-scale": limits}
