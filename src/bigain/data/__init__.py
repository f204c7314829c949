"""The datasets; a new one is a new file and a line here."""

from bigain.data import cifar10, coco, fashion_mnist, folder, huggingface, imagenet, pets, quickdraw, table
from bigain.data.arrays import LabelledImages
from bigain.data.dataset import Dataset, Example
from bigain.data.loaders import DATASETS, load_data

__all__ = [
    "DATASETS",
    "Dataset",
    "Example",
    "LabelledImages",
    "cifar10",
    "coco",
    "fashion_mnist",
    "folder",
    "huggingface",
    "imagenet",
    "load_data",
    "pets",
    "quickdraw",
    "table",
]
