"""Which share of an experiment a process computes, as text or from what a scheduler sets."""

from collections.abc import Mapping
from pathlib import Path

from bigain.experiments.chunks import Shard

SLURM = ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT")
RANKS = ("RANK", "WORLD_SIZE")
ADVICE = "write the share itself, such as --shard 3/8"


def parse_shard(text: str, environment: Mapping[str, str]) -> Shard:
    """`3/8`, or `auto`: from a Slurm array or from RANK and WORLD_SIZE."""
    if text.strip() != "auto":
        return Shard.parse(text)
    slurm, ranks = (all(name in environment for name in names) for names in (SLURM, RANKS))
    if slurm and ranks:
        raise ValueError(f"--shard auto finds both {SLURM[0]} and {RANKS[0]}; {ADVICE}")
    if slurm:
        return of_array(environment)
    if ranks:
        rank, size = (number(environment, name) for name in RANKS)
        if not 0 <= rank < size:
            raise ValueError(f"RANK must be from 0 to {size - 1}, as WORLD_SIZE is {size}, got {rank}; {ADVICE}")
        return Shard(rank + 1, size)
    raise ValueError(
        f"--shard auto needs {' and '.join(SLURM)} of a Slurm array, or {' and '.join(RANKS)}, and finds neither; "
        f"{ADVICE}"
    )


def of_array(environment: Mapping[str, str]) -> Shard:
    """A Slurm array may begin at 0, 1 or elsewhere, and take steps; one with gaps has no shares that stay the same."""
    task, count = (number(environment, name) for name in SLURM)
    first = number(environment, "SLURM_ARRAY_TASK_MIN", 1)
    last = number(environment, "SLURM_ARRAY_TASK_MAX", first + count - 1)
    step = number(environment, "SLURM_ARRAY_TASK_STEP", 1)
    if last != first + step * (count - 1) or (task - first) % step or not first <= task <= last:
        raise ValueError(
            f"--shard auto needs a Slurm array without gaps, got {count} tasks from {first} to {last}; to run some "
            f'shares again, {ADVICE}, with "$SLURM_ARRAY_TASK_ID/8" in the script'
        )
    return Shard((task - first) // step + 1, count)


def number(environment: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = environment.get(name, "" if default is None else str(default))
    if not text.isdecimal():
        raise ValueError(f"{name} must be a whole number, got {text!r}; {ADVICE}")
    return int(text)


def shard_folder(folder: Path, shard: Shard) -> Path:
    """The folder of a share's own record: shares may run where no file system is shared."""
    return folder / f"shard-{shard.part}-of-{shard.parts}"
