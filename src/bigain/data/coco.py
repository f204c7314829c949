"""COCO-2017 from the official images and annotations: several labels and captions per image."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from bigain.data.dataset import Dataset, Example
from bigain.data.files import Home, check_split, listed
from bigain.data.loaders import DATASETS

HOME = Home(
    title="COCO-2017",
    variable="BIGAIN_COCO",
    places=("data/coco",),
    layout="val2017/*.jpg, annotations/instances_val2017.json and annotations/captions_val2017.json (train2017 "
    "likewise), the official val2017.zip and annotations_trainval2017.zip unpacked in one folder",
)


@DATASETS.register("coco")
def load_coco(root: str | None = None, split: str = "val", unlabelled: bool = False) -> Dataset:
    """COCO-2017, 80 object classes, with captions, from the official files (split: val or train).

    Images without labels cannot be classified and are left out; `unlabelled=True` keeps them, for generation from
    captions.
    """
    check_split(HOME.title, split, ("val", "train"))
    files = [f"annotations/{what}_{split}2017.json" for what in ("instances", "captions")]
    folder, instances, captions_file = HOME.find(root, [f"{split}2017", *files])
    found = read_json(
        instances,
        images=("id", "file_name"),
        annotations=("image_id", "category_id"),
        categories=("id", "name"),
    )
    kinds = sorted(found["categories"], key=lambda kind: kind["id"])
    label = {kind["id"]: k for k, kind in enumerate(kinds)}
    labels: dict[int, set[int]] = defaultdict(set)
    for annotation in found["annotations"]:
        if annotation["category_id"] not in label:
            raise ValueError(f"{instances}: an annotation has the unknown category {annotation['category_id']}")
        labels[annotation["image_id"]].add(label[annotation["category_id"]])
    captions: dict[int, list[str]] = defaultdict(list)
    for annotation in read_json(captions_file, annotations=("image_id", "caption"))["annotations"]:
        captions[annotation["image_id"]].append(annotation["caption"].strip())
    images = sorted(found["images"], key=lambda image: image["id"])
    kept = [image for image in images if unlabelled or image["id"] in labels]
    paths = listed(folder, [image["file_name"] for image in kept], instances)
    examples = tuple(
        Example(path.stem, path, tuple(sorted(labels[image["id"]])), tuple(captions[image["id"]]))
        for path, image in zip(paths, kept, strict=True)
    )
    out = len(images) - len(kept)
    note = f"{out} images without labels are left out; unlabelled=True keeps them" if out else ""
    return Dataset("coco", split, tuple(kind["name"] for kind in kinds), examples, multilabel=True, note=note)


def read_json(path: Path, **lists: tuple[str, ...]) -> Any:
    """A JSON object with at least these lists, whose members have these keys."""
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}; unpack it again") from error
    for name, keys in lists.items():
        members = found.get(name) if isinstance(found, dict) else None
        if not isinstance(members, list) or not all(isinstance(m, dict) and m.keys() >= set(keys) for m in members):
            raise ValueError(
                f"{path} is not an official COCO file: expected {name}, a list of objects with {', '.join(keys)}"
            )
    return found
