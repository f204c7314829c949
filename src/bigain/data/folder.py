"""Any folder of images in sub-folders named after their classes."""

from pathlib import Path

from bigain.data.dataset import PROMPT, Dataset, Example
from bigain.data.files import find_images
from bigain.data.loaders import DATASETS


@DATASETS.register("folder")
def load_folder(root: str, prompts: str = PROMPT) -> Dataset:
    """A folder of your own: images in sub-folders named after their classes."""
    base = Path(root).expanduser()
    if not base.is_dir():
        raise FileNotFoundError(f"no folder {base}")
    groups = sorted(path for path in base.iterdir() if path.is_dir() and not path.name.startswith("."))
    examples = tuple(
        Example(path.relative_to(base).as_posix(), path, (k,))
        for k, group in enumerate(groups)
        for path in find_images(group)
    )
    if not examples:
        raise ValueError(f"no images in {base}: expected a sub-folder for each class, such as {base}/cat/1.jpg")
    return Dataset(base.resolve().name, "all", tuple(group.name for group in groups), examples, prompts)
