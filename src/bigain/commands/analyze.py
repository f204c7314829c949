"""`bigain analyze`: the paper's theory on a model's errors, or on those that a run has recorded."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from bigain.bench.trajectory import Size
from bigain.commands.measuring import Arrays, Measurement, Measuring
from bigain.denoisers.base import Denoiser
from bigain.experiments.evaluator import setting_cost
from bigain.experiments.folder import write_whole
from bigain.experiments.machine import environment
from bigain.experiments.report import find_record, is_dense
from bigain.experiments.rows import DecisionRow
from bigain.experiments.setting import Setting
from bigain.experiments.store import Store
from bigain.experiments.subjects import chosen_data, whole_data
from bigain.loading import best_dtype, load_denoiser
from bigain.models.architectures import meta_copy
from bigain.theory.analysis import Measured
from bigain.theory.bands import band_edges, frequencies
from bigain.theory.foretelling import FEWEST_IMAGES, Analysis, analyse
from bigain.theory.margins import strongest_rivals

DETAIL = 0.25  # cycles a token from which on a band is called detail: waves of four tokens or less
Progress = Callable[[str, int], None]  # the label of a setting and how many images are to be measured in all


def analyze_model(
    measurement: Measurement, device: str, folder: Path | None, progress: Progress, n: int | None = None
) -> dict[str, Any]:
    """Measure what is missing, and analyse it: on all of the experiment's images, or on the first n."""
    experiment = measurement.experiment
    data = chosen_data(experiment, whole_data(experiment))
    if data.multilabel:
        raise ValueError(f"{data.name} has several labels an image; the theory is of one true class")
    count = len(data) if n is None else n
    if not FEWEST_IMAGES <= count <= len(data):
        raise ValueError(f"n must be from {FEWEST_IMAGES} to {len(data)}, the images of the experiment, got {count}")
    dtype, size = best_dtype(device), experiment.image_size
    denoiser = load_denoiser(experiment.model, device=device, dtype=dtype, image_size=size)
    measuring = Measuring(measurement, denoiser, data, folder)
    total = count * len(measuring.settings)
    arrays = measuring.run(count, lambda label: progress(label, total))
    truth = np.array([data.examples[i].labels[0] for i in range(count)])
    names = {setting.label: (setting.name, setting.values) for setting in measuring.settings}
    edges = band_edges(measurement.bands)
    upper = np.array(edges) >= DETAIL
    how = Analysis(measuring.settings[0].label, arrays[measuring.settings[0].label]["rivals"], upper)
    found = analyse({label: as_measured(own) for label, own in arrays.items()}, names, truth, how)
    return {
        "title": experiment.title,
        "model": experiment.model,
        "data": experiment.data,
        "without": experiment.without,
        "seed": experiment.seed,
        "trials": measurement.trials,
        "classes": len(measuring.classifier.classes),
        "grid": list(measuring.grid),
        "bands": {"from": edges, "frequencies": frequencies(measuring.grid, measurement.bands).int().tolist(),
                  "detail": upper.tolist()},
        **with_costs(found, measuring.settings, denoiser),
        "facts": environment(denoiser),
    }  # fmt: skip


def as_measured(arrays: Arrays) -> Measured:
    bands, tokens = arrays["bands"], arrays["tokens"]
    errors = bands.sum(-1)
    exact = (arrays["exact"][0, 0], arrays["exact"][0, 1]) if "exact" in arrays else None
    known = tokens if np.isfinite(tokens).all() else None
    return Measured(errors, errors.mean(2).argmin(1), bands, arrays["differences"], known, exact)


def with_costs(found: dict[str, Any], settings: list[Setting], denoiser: Denoiser) -> dict[str, Any]:
    """The analysis with the operators of each row, and the share of FLOPs that each saves in a pass of one sample."""
    network, (height, width) = meta_copy(denoiser.network), denoiser.latent_shape[1:]
    size: Size = {"latent": (height, width), "text_tokens": denoiser.text_tokens}
    costs = {setting.label: setting_cost(network, setting, **size)["flops"] for setting in settings}
    attach = {setting.label: [part.as_dict() for part in setting.attach] for setting in settings}
    rows = [row | {"attach": attach[row["label"]], "saved": 1 - costs[row["label"]] / costs[found["dense"]]}
            for row in found["rows"]]  # fmt: skip
    return found | {"rows": rows}


def analyze_record(place: Path, rivals: int = 3) -> dict[str, Any]:
    """What the errors in a run's record say; it has no bands, and its trials are those of its policy."""
    path = find_record(place)
    with closing(Store(path, read_only=True)) as store:
        meta = store.meta()
        usable = [(number, label, spec) for number, label, spec in store.settings()
                  if is_dense(spec) or not spec.keys() & {"policy", "timesteps", "num_inference_steps"}]  # fmt: skip
        decisions = {label: store.decisions(number) for number, label, _ in usable}
    names = {label: (spec["name"], spec["values"]) for _, label, spec in usable if decisions[label]}
    dense = next((label for _, label, spec in usable if is_dense(spec) and decisions[label]), None)
    if dense is None:
        raise ValueError(f'{path} has no uncompressed row that classifies; add one with operator = "none"')
    images = sorted(set.intersection(*(set(decisions[label]) for label in names)))
    rows = {label: [decisions[label][image] for image in images] for label in names}
    if any(row.errors is None for own in rows.values() for row in own):
        raise ValueError(f"{path} is a small copy without the errors of each trial; use the folder of the run")
    if any(len(row.truth) != 1 for row in rows[dense]):
        raise ValueError(f"{path} has images with several labels; the theory is of one true class")
    if not images:
        raise ValueError(f"{path} has no image that all settings have classified; continue the run")
    classes = len(rows[dense][0].ranking)
    if not 1 <= rivals < classes:
        raise ValueError(f"rivals must be from 1 to {classes - 1}, got {rivals}")
    measured = aligned(rows, dense)
    truth = np.array([row.truth[0] for row in rows[dense]])
    nearest = strongest_rivals(measured[dense].errors, truth, rivals)  # there is no other noise to choose them by
    experiment = meta["experiment"]
    return {
        "title": meta["title"],
        "model": experiment["model"],
        "data": experiment["data"],
        "without": experiment.get("without"),
        "seed": experiment["seed"],
        "trials": int(max(one.errors.shape[2] for one in measured.values())),
        "classes": classes,
        **analyse(measured, names, truth, Analysis(dense, nearest)),
    }


def aligned(rows: dict[str, list[DecisionRow]], dense: str) -> dict[str, Measured]:
    """Errors by setting, (n, K, R) with NaN where a class was not tried; trial r of an image is the same in all."""
    longest = max(row.errors.shape[1] for own in rows.values() for row in own if row.errors is not None)
    found = {}
    for label, own in rows.items():
        for row, other in zip(own, rows[dense], strict=True):
            count = min(len(row.timesteps), len(other.timesteps))
            if row.timesteps[:count] != other.timesteps[:count]:
                raise ValueError(f"{label}: {row.image} was tried at other timesteps than without compression")
        errors = [np.pad(row.errors, ((0, 0), (0, longest - row.errors.shape[1])), constant_values=np.nan)
                  for row in own if row.errors is not None]  # fmt: skip
        predicted = np.array([row.predicted for row in own])
        found[label] = Measured(np.stack(errors).astype(np.float64), predicted)
    return found


def write_analysis(found: dict[str, Any], path: Path) -> None:
    write_whole(path, (json.dumps(found, indent=1, allow_nan=False) + "\n").encode())
