"""Tiny copies of the datasets in their official layouts; `MINIATURES[name](folder)` writes one and gives its spec."""

import csv
import gzip
import json
from pathlib import Path

import numpy as np
from PIL import Image

from bigain.data.cifar10 import STEMS as CIFAR_STEMS
from bigain.data.fashion_mnist import STEMS
from bigain.data.imagenet import HUNDRED, KAGGLE, META, SOLUTION, TRUTH, read_synsets
from bigain.data.pets import BREEDS
from bigain.data.quickdraw import CLASSES as DRAWN
from bigain.data.quickdraw import EACH

COCO_KINDS = {1: "person", 3: "car", 18: "dog", 90: "toothbrush"}  # the official ids have gaps


def pixels(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def write_image(path: Path, seed: int = 0, size: tuple[int, int] = (12, 10)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels(seed, *size, 3)).save(path)
    return path


def write_idx(path: Path, array: np.ndarray) -> None:
    header = np.array([0x0800 + array.ndim, *array.shape], ">u4").tobytes()
    path.write_bytes(gzip.compress(header + array.tobytes()))


def fashion_mnist(root: Path) -> str:
    for seed, stem in enumerate(STEMS.values()):
        write_idx(root / f"{stem}-images-idx3-ubyte.gz", pixels(seed, 30, 28, 28))
        write_idx(root / f"{stem}-labels-idx1-ubyte.gz", (np.arange(30) % 10).astype(np.uint8))
    return f"fashion-mnist(root={str(root)!r})"


def fashion_sample(root: Path) -> str:
    return "fashion-sample"


def cifar_images(split: str) -> tuple[np.ndarray, list[int]]:
    """Four images a file."""
    count = 4 * len(CIFAR_STEMS[split])
    return pixels(len(split), count, 32, 32, 3), [(7 * i) % 10 for i in range(count)]


def cifar_binaries(root: Path) -> str:
    for split, stems in CIFAR_STEMS.items():
        images, labels = cifar_images(split)
        for place, stem in enumerate(stems):
            rows = range(4 * place, 4 * place + 4)
            planes = [bytes([labels[row]]) + images[row].transpose(2, 0, 1).tobytes() for row in rows]
            (root / f"{stem}.bin").write_bytes(b"".join(planes))
    return f"cifar-10(root={str(root)!r})"


def cifar_sheets(root: Path) -> str:
    for split, stems in CIFAR_STEMS.items():
        images, labels = cifar_images(split)
        for place, stem in enumerate(stems):
            Image.fromarray(images[4 * place : 4 * place + 4].reshape(4, 1024, 3)).save(root / f"{stem}.png")
        (root / f"{split}_lables.json").write_text(json.dumps(labels))
    return f"cifar-10(root={str(root)!r})"


def imagenet_truth() -> list[str]:
    """WordNet ids of nine validation images: of classes 0 and 999, and of the first of ImageNet-100."""
    ids = read_synsets().ids
    return [ids[number] for number in (999, 0, HUNDRED[0], HUNDRED[1], 0, HUNDRED[0], HUNDRED[-1], 999, 1)]


def imagenet_names() -> list[str]:
    return [f"ILSVRC2012_val_{place:08d}" for place in range(1, len(imagenet_truth()) + 1)]


def imagenet_folders(root: Path) -> str:
    for seed, (name, wnid) in enumerate(zip(imagenet_names(), imagenet_truth(), strict=True)):
        write_image(root / "val" / wnid / f"{name}.JPEG", seed)
        write_image(root / "train" / wnid / f"{wnid}_{seed}.JPEG", seed)
    return f"imagenet-1k(root={str(root)!r})"


def imagenet_devkit(root: Path) -> str:
    from scipy.io import savemat

    # the development kit counts from 1 in an order of its own, and goes on with groups of classes above 1,000
    ids = read_synsets().ids[::-1]
    kinds = [(float(number), wnid, "words", 0.0) for number, wnid in enumerate(ids, start=1)]
    kinds.append((1001.0, "n00001740", "entity", 2.0))
    fields = [(name, object) for name in ("ILSVRC2012_ID", "WNID", "words", "num_children")]
    (root / META).parent.mkdir(parents=True)
    savemat(root / META, {"synsets": np.array(kinds, dtype=fields)[:, None]})
    (root / TRUTH).write_text("".join(f"{ids.index(wnid) + 1}\n" for wnid in imagenet_truth()))
    for seed, name in enumerate(imagenet_names()):
        write_image(root / "val" / f"{name}.JPEG", seed)
    return f"imagenet-1k(root={str(root)!r})"


def imagenet_kaggle(root: Path) -> str:
    for seed, name in enumerate(imagenet_names()):
        write_image(root / KAGGLE / "val" / f"{name}.JPEG", seed)
    pairs = list(zip(imagenet_names(), imagenet_truth(), strict=True))
    with (root / SOLUTION).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["ImageId", "PredictionString"])
        writer.writerows((name, f"{wnid} 1 2 30 40 {wnid} 5 6 7 8 ") for name, wnid in reversed(pairs))
    return f"imagenet-1k(root={str(root)!r})"


def imagenet_100(root: Path) -> str:
    return imagenet_folders(root).replace("1k", "100")


def pets(root: Path) -> str:
    (root / "annotations").mkdir()
    for split, first in (("test", 200), ("trainval", 1)):
        lines = []
        for number, breed in enumerate(BREEDS[:6], start=1):
            for place in (first, first + 1):
                write_image(root / "images" / f"{breed}_{place}.jpg", place)
                lines.append(f"{breed}_{place} {number} {1 if breed[0].isupper() else 2} 1\n")
        (root / "annotations" / f"{split}.txt").write_text("".join(lines))
    return f"pets(root={str(root)!r})"


def quickdraw(root: Path) -> str:
    """A line for each drawing: grey on one side, and one pixel whose place is the number of the drawing."""
    lines = []
    for place in range(EACH):
        drawing = [0.0] * 392 + [0.25] * 392
        drawing[place] = 1.0
        lines.append(json.dumps(drawing).replace("0.0", "0"))
    packed = gzip.compress("\n".join(lines).encode())
    for name in DRAWN:
        (root / f"{name}.ndjson.gz").write_bytes(packed)
    return f"quickdraw(root={str(root)!r})"


def quickdraw_sample(root: Path) -> str:
    return "quickdraw-sample"


def coco(root: Path) -> str:
    """Five images: three with labels, of which one has a kind twice, and two without."""
    objects = {139: [18, 1, 18], 285: [90], 632: [3, 1], 724: [], 776: []}
    images = [{"id": key, "file_name": f"{key:012d}.jpg", "height": 12, "width": 10} for key in reversed(objects)]
    boxes = [{"image_id": key, "category_id": kind, "iscrowd": 0} for key, kinds in objects.items() for kind in kinds]
    kinds = [{"id": key, "name": name, "supercategory": "thing"} for key, name in reversed(COCO_KINDS.items())]
    told = [{"image_id": key, "caption": f"Picture {key}, {time}.\n"} for time in ("once", "again") for key in objects]
    for key in objects:
        write_image(root / "val2017" / f"{key:012d}.jpg", key)
    (root / "annotations").mkdir()
    instances = {"images": images, "annotations": boxes, "categories": kinds}
    (root / "annotations/instances_val2017.json").write_text(json.dumps(instances))
    (root / "annotations/captions_val2017.json").write_text(json.dumps({"images": images, "annotations": told}))
    return f"coco(root={str(root)!r})"


def folder(root: Path) -> str:
    for seed, name in enumerate(("tabby cat/1.png", "tabby cat/more/1.JPG", "dog/1.png", "dog/2.png", "ant/1.webp")):
        write_image(root / name, seed)
    return f"folder({str(root)!r})"


def table(root: Path) -> str:
    lines = ["path,label"]
    for seed, (name, label) in enumerate({"a.png": "cat", "b/c.png": "dog", "d.png": "cat"}.items()):
        write_image(root / name, seed)
        lines.append(f"{name},{label}")
    (root / "labels.csv").write_text("\n".join(lines) + "\n")
    return f"csv({str(root / 'labels.csv')!r})"


def huggingface(root: Path) -> str:
    import datasets

    pictures = [Image.fromarray(pixels(seed, 12, 10, 3)) for seed in range(6)]
    columns = {"id": list(range(6)), "picture": pictures, "kind": [0, 1, 2, 0, 1, 0]}
    kinds = datasets.ClassLabel(names=["cat", "dog", "ant"])
    features = datasets.Features({"id": datasets.Value("int64"), "picture": datasets.Image(), "kind": kinds})
    whole = datasets.Dataset.from_dict(columns, features=features)
    datasets.DatasetDict({"test": whole, "train": whole.select([0, 1])}).save_to_disk(root / "saved")
    return f"huggingface({str(root / 'saved')!r})"


MINIATURES = {
    "fashion-mnist": fashion_mnist,
    "fashion-sample": fashion_sample,
    "cifar-10": cifar_binaries,
    "quickdraw": quickdraw,
    "quickdraw-sample": quickdraw_sample,
    "imagenet-1k": imagenet_folders,
    "imagenet-100": imagenet_100,
    "pets": pets,
    "coco": coco,
    "folder": folder,
    "csv": table,
    "huggingface": huggingface,
}
