"""ImageNet (ILSVRC 2012) from the official files, whole or the 100 classes of the paper."""

import csv
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from bigain.data.dataset import Dataset, Example
from bigain.data.files import Home, check_split, listed
from bigain.data.images import walk
from bigain.data.loaders import DATASETS

NAMES = Path(__file__).parent / "imagenet_classes.txt"
KAGGLE = "ILSVRC/Data/CLS-LOC"
SOLUTION = "LOC_val_solution.csv"
META = "ILSVRC2012_devkit_t12/data/meta.mat"
TRUTH = "ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt"
HOME = Home(
    title="ImageNet",
    variable="BIGAIN_IMAGENET",
    places=("data/imagenet",),
    layout="val/n01440764/*.JPEG and so on, a folder for each WordNet ID (train/ likewise); or "
    f"val/ILSVRC2012_val_*.JPEG beside {META} and {TRUTH}; or the Kaggle download, {KAGGLE}/val/*.JPEG and {SOLUTION}",
)
# the classes of ImageNet-100 as in the paper's prompts, by label number
HUNDRED = (
    15, 45, 54, 57, 64, 74, 90, 99, 119, 120, 122, 131, 137, 151, 155, 157, 158, 166, 167, 169,
    176, 180, 209, 211, 222, 228, 234, 236, 242, 246, 267, 268, 272, 275, 277, 281, 299, 305, 313, 317,
    331, 342, 368, 374, 407, 421, 431, 449, 452, 455, 479, 494, 498, 503, 508, 544, 560, 570, 592, 593,
    599, 606, 608, 619, 620, 653, 659, 662, 665, 667, 674, 682, 703, 708, 717, 724, 748, 758, 765, 766,
    772, 775, 796, 798, 830, 854, 857, 858, 872, 876, 882, 904, 908, 936, 938, 953, 959, 960, 993, 994,
)  # fmt: skip


class Synsets(NamedTuple):
    """The 1,000 WordNet IDs by label number, which is their rank in sorted order, and their names in prompts."""

    ids: tuple[str, ...]
    names: tuple[str, ...]


@DATASETS.register("imagenet-1k")
def load_imagenet_1k(root: str | None = None, split: str = "val") -> Dataset:
    """ImageNet with its 1,000 classes, from the official files (split: val or train)."""
    check_split(HOME.title, split, ("val", "train"))
    synsets = read_synsets()
    label = {wnid: number for number, wnid in enumerate(synsets.ids)}
    examples = tuple(Example(path.stem, path, (label[wnid],)) for path, wnid in labelled_files(root, split))
    return Dataset("imagenet-1k", split, synsets.names, examples, numbers=tuple(range(len(label))))


@DATASETS.register("imagenet-100")
def load_imagenet_100(root: str | None = None, split: str = "val") -> Dataset:
    """The paper's 100 classes of ImageNet, from the official files (split: val or train)."""
    whole = load_imagenet_1k(root, split)
    label = {number: k for k, number in enumerate(HUNDRED)}
    examples = tuple(
        example._replace(labels=(label[example.labels[0]],)) for example in whole.examples if example.labels[0] in label
    )
    classes = tuple(whole.classes[number] for number in HUNDRED)
    return replace(whole, name="imagenet-100", classes=classes, examples=examples, numbers=HUNDRED)


@cache
def read_synsets() -> Synsets:
    lines = [line for line in NAMES.read_text().splitlines() if not line.startswith("#")]
    pairs = [line.split(" ", 1) for line in lines]
    return Synsets(tuple(wnid for wnid, _ in pairs), tuple(name for _, name in pairs))


def labelled_files(root: str | None, split: str) -> Iterator[tuple[Path, str]]:
    """Image files with the WordNet IDs of their classes, in any supported layout."""
    (folder,) = HOME.find(root, [split], [f"{KAGGLE}/{split}"])
    base = folder.parents[len(Path(KAGGLE).parts)] if folder.parent.match(KAGGLE) else folder.parent
    known = [folder / wnid for wnid in read_synsets().ids if (folder / wnid).is_dir()]
    if known:
        return ((path, each.name) for each in known for path in walk(each).images)
    if split == "train":
        raise HOME.lost(base, gap=f" ({folder} has no folder such as n01440764)")
    truth = HOME.find(base, [SOLUTION], [META, TRUTH])
    answers = read_solution(truth[0]) if truth[0].suffix == ".csv" else read_devkit(truth[0], truth[1])
    paths = listed(folder, [f"{name}.JPEG" for name in answers], truth[-1])
    return zip(paths, answers.values(), strict=True)


def read_solution(path: Path) -> dict[str, str]:
    """Kaggle's answers: name of each image -> WordNet id, the first word of its boxes."""
    known, answers = set(read_synsets().ids), {}
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        for row in reader:
            name, words = row.get("ImageId"), (row.get("PredictionString") or "").split()
            if not name or not words or words[0] not in known:
                raise ValueError(
                    f"{path}, line {reader.line_num}: expected the columns ImageId and PredictionString, such as "
                    f"ILSVRC2012_val_00000001,n01440764 1 2 3 4, got {row}"
                )
            answers[name] = words[0]
    return dict(sorted(answers.items()))


def read_devkit(meta: Path, truth: Path) -> dict[str, str]:
    """The development kit's answers: name of each image -> WordNet id. Its numbers are not the label numbers."""
    from scipy.io import loadmat

    synsets = loadmat(meta, squeeze_me=True)["synsets"]
    wnids = {int(number): str(wnid) for number, wnid in zip(synsets["ILSVRC2012_ID"], synsets["WNID"], strict=True)}
    numbers = [int(word) if word.isdigit() else 0 for word in truth.read_text().split()]
    wrong = [place for place, number in enumerate(numbers, start=1) if number not in wnids]
    if wrong:
        raise ValueError(f"{truth}, line {wrong[0]}: expected one of the {len(wnids)} numbers of classes in {meta}")
    return {f"ILSVRC2012_val_{place:08d}": wnids[number] for place, number in enumerate(numbers, start=1)}
