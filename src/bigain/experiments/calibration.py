"""What experiments say of pruning: the images it is calibrated on, and methods by row."""

from dataclasses import dataclass
from typing import Any

from bigain.checks import check_count
from bigain.data import Dataset, load_data
from bigain.pruning.methods import parse_method
from bigain.registry import miss


@dataclass(frozen=True)
class Calibration:
    """The table [calibration]: the first n images of a dataset, in the order of the experiment's seed."""

    data: str
    n: int = 128

    def dataset(self, seed: int) -> Dataset:
        return load_data(self.data).subset(self.n, seed)


def read_calibration(found: Any) -> Calibration:
    if not isinstance(found, dict) or not isinstance(found.get("data"), str):
        raise ValueError(f"calibration must be a table, [calibration] with data and n, got {found!r}")
    unknown = [key for key in found if key not in ("data", "n")]
    if unknown:
        raise ValueError(miss("[calibration] key", unknown[0], ("data", "n")))
    check_count("n of [calibration]", found.get("n", 1))
    return Calibration(**found)


def check_text(method: Any) -> None:
    if not isinstance(method, str):
        raise ValueError(f"prune must be a string, such as 'mosaic(sparsity=0.3)', got {method!r}")


def check_prune(method: str) -> str:
    parse_method(method)
    return method
