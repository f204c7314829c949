"""One request of the command line: load, compress, classify, with a progress bar."""

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from bigain.bench.files import Result, classify_files, find_images
from bigain.classify.classifier import DiffusionClassifier
from bigain.classify.decision import Decision
from bigain.compress import compress
from bigain.loading import load
from bigain.progress import progress_bars


@dataclass(frozen=True)
class Request:
    """What to classify with, as the command line says it."""

    model: str = "fashion-dit"
    classes: str | None = None
    prompts: str = "{}"
    operator: str | None = None
    reuse: Any = None
    policy: str = "stages"
    seed: int = 0
    device: str = "cpu"


def classify_all(words: list[str], request: Request, console: Console) -> tuple[list[Result], dict[str, str]]:
    """Results of all readable images, and the reasons for the others."""
    denoiser = load(request.model, device=request.device)
    names = class_names(request.classes, denoiser)
    classifier = DiffusionClassifier(denoiser, names, request.policy, prompts=request.prompts, seed=request.seed)
    found = find_images(words, names)
    attached = compress(denoiser.network, request.operator, reuse=request.reuse) if request.operator else nullcontext()
    with attached, progress_bars(console) as bars:
        task = bars.add_task("classifying", total=len(found))
        spent, full = 0, 0

        def show(decision: Decision) -> None:
            nonlocal spent, full
            spent += decision.evaluations
            full += decision.errors.size
            bars.update(task, advance=1, description=f"classifying, {1 - spent / full:.0%} of evaluations saved")

        return classify_files(classifier, found, show)


def class_names(text: str | None, denoiser: Any) -> list[str]:
    """Names from a comma-separated text, from a file with one a line, or the model's own."""
    if text is None:
        own = getattr(denoiser, "classes", None)
        if own is None:
            raise ValueError("this model has no classes of its own; name them with --classes")
        return list(own)
    if Path(text).is_file():
        return [line.strip() for line in Path(text).read_text().splitlines() if line.strip()]
    return [name.strip() for name in text.split(",") if name.strip()]
