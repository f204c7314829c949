"""Models and users' own code on the nodes of a cluster: read there by name, or from what was sent."""

import importlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from bigain.cluster.parcels import Parcel, pack, unpacked
from bigain.loading import best_dtype, load_denoiser
from bigain.plugins import load_file
from bigain.zoo.catalog import locate

if TYPE_CHECKING:
    from bigain.denoisers.base import Denoiser

Code = Sequence[tuple[str, bytes]]  # names and contents of Python files, in the order in which they ran


def send_model(ray: ModuleType, name: str) -> Parcel:
    """Put the files of a model into the cluster's store."""
    place = locate(name)
    if isinstance(place, Path):
        return pack(ray, place)
    from bigain.denoisers.pipelines import fetch

    return pack(ray, fetch(place))


def load_sent(name: str, device: str, image_size: int | None, parcel: Parcel | None) -> "Denoiser":
    """A model by its name, or from what was sent."""
    dtype = best_dtype(device)
    if parcel is None:
        return load_denoiser(name, dtype=dtype, device=device, image_size=image_size)
    import ray

    with unpacked(ray, parcel) as folder:
        return load_denoiser(folder, dtype=dtype, device=device, image_size=image_size)


def load_code(code: Code) -> None:
    """Run the files that users' own operators and the like come from, as they were at home."""
    if not code:
        return
    folder = Path(tempfile.mkdtemp(prefix="bigain-code-"))  # kept: errors show its lines
    importlib.invalidate_caches()
    for name, data in code:
        (folder / name).write_bytes(data)
        load_file(folder / name)
