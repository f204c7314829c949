"""Any folder of images in subfolders named after their classes."""

from pathlib import Path

from bigain.data.dataset import PROMPT, Dataset, Example
from bigain.data.images import walk
from bigain.data.loaders import DATASETS


@DATASETS.register("folder")
def load_folder(root: str, prompts: str = PROMPT) -> Dataset:
    """Your own folder: images in subfolders named after their classes."""
    base = Path(root).expanduser()
    if not base.is_dir():
        raise FileNotFoundError(f"no folder {base}")
    groups = sorted(path for path in base.iterdir() if path.is_dir() and not path.name.startswith("."))
    found = [walk(group) for group in groups]
    examples = tuple(
        Example(path.relative_to(base).as_posix(), path, (k,)) for k, one in enumerate(found) for path in one.images
    )
    left_out = [f"{name}: {reason}" for one in found for name, reason in one.left_out.items()]
    if not examples:
        raise ValueError(f"no images in {base}: expected a subfolder for each class, such as {base}/cat/1.jpg")
    note = f"{len(left_out)} left out, first {left_out[0]}" if left_out else ""
    return Dataset(base.resolve().name, "all", tuple(group.name for group in groups), examples, prompts, note=note)
