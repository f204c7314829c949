"""Datasets by name, with parameters, written as strings: `imagenet-100(root='/data/imagenet')`."""

from collections.abc import Callable

from bigain.data.dataset import Dataset
from bigain.registry import Registry, call, miss, parse_call

DATASETS: Registry[Callable[..., Dataset]] = Registry("dataset")


def load_data(spec: str) -> Dataset:
    """`fashion-sample`, `coco(root='/data/coco')`, `folder('my/images')` -> Dataset."""
    if not isinstance(spec, str):
        raise TypeError(f"data must be a string such as \"folder('my/images')\", got {spec!r}")
    name, bracket, rest = spec.strip().partition("(")
    try:
        _, args, kwargs = parse_call(f"{name.replace('-', '_')}{bracket}{rest}", "dataset")
    except ValueError:
        raise ValueError(
            f"cannot read the dataset {spec!r}; write a name, or a call with quoted strings, "
            "like imagenet-100(root='/data/imagenet', split='val') or folder('my/images')"
        ) from None
    name = name.rstrip()
    if name not in DATASETS:
        raise ValueError(miss("dataset", name, DATASETS))
    return call(DATASETS[name], name, args, kwargs)
