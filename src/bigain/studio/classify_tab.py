"""The tab that classifies: the race between the classes, compressed and uncompressed side by side."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import gradio as gr
import numpy as np

from bigain.bench.flops import Trial, TrialCost, policy_rounds
from bigain.classify.classifier import DiffusionClassifier
from bigain.classify.decision import Standing
from bigain.classify.images import to_tensor
from bigain.classify.policies import paper_stages
from bigain.classify.presets import PRESETS
from bigain.commands.request import CORRECT, POLICY
from bigain.compression import compress
from bigain.denoisers.base import Denoiser
from bigain.escape import html as escape
from bigain.pictures import to_picture
from bigain.studio.image_picker import Chosen, ImagePicker, given, image_picker
from bigain.studio.limits import AT_ONCE, check_names, in_words
from bigain.studio.models import Models
from bigain.studio.parts import Meter, counted, figure, flops, less, meters, note
from bigain.studio.setting import OperatorControls, compression_of, operator_controls, text_of

MOST = 12  # classes shown of many
NAMES = ("uncompressed", "compressed")
INTRO = """The model predicts the noise in an image under every class; the class with the smallest error wins. A
**trial** is one such comparison, and classes that fall behind drop out. Both races see the same noise."""


class ClassifyTab(NamedTuple):
    """What other tabs need: the controls that a record loads its setting into."""

    controls: OperatorControls
    picker: ImagePicker
    request: dict[str, Any]  # what an event needs to start a race


def classify_tab(models: Models, model: gr.Dropdown) -> ClassifyTab:
    """Make the tab at this place of the page."""
    gr.Markdown(INTRO)
    with gr.Row(elem_classes="sides"):
        with gr.Column(scale=2, min_width=300):
            picker = image_picker(model, "classify")
            controls, _ = operator_controls("")
            policy = gr.Radio(list(PRESETS), value=POLICY, label="policy", info="when classes drop out")
            with gr.Accordion("Class names of your own, for models that take text", open=False):
                names = gr.Textbox(label="class names", placeholder="cat, dog, red fox", lines=2)
                prompts = gr.Textbox(label="template", value="a photo of a {}")
            start = gr.Button("Race", variant="primary", elem_id="start-race")
        with gr.Column(scale=5, min_width=320):
            shown = gr.HTML("", elem_id="race")
    request = {
        "fn": in_words(partial(race, models)),
        "inputs": [picker.chosen, model, policy, names, prompts, *controls],
        "outputs": shown,
        "concurrency_id": "race",
        "concurrency_limit": AT_ONCE,
        "show_progress": "minimal",
    }

    running = [event.success(**request, api_visibility="private") for event in picker.ready]
    start.click(**request, api_name="classify", cancels=running)
    return ClassifyTab(controls, picker, request)


@dataclass
class Lane:
    """One of the two races, and what it cost so far."""

    name: str
    steps: Iterator[Standing]
    cost: TrialCost
    standing: Standing | None = None
    seconds: float = 0.0
    counts: list[int] = field(default_factory=list)  # classes in each trial

    def step(self) -> bool:
        """Run the next trial, if there is one; whether there was."""
        began = time.perf_counter()
        found = next(self.steps, None)
        self.seconds += time.perf_counter() - began
        if found is None:
            return False
        self.standing = found
        self.counts = (~np.isnan(found.decision.errors)).sum(0).tolist()
        return True

    @property
    def flops(self) -> int:
        return sum(self.cost.of(count) for count in self.counts)


def race(
    models: Models, chosen: Chosen | None, model: str, policy: str, names: str, prompts: str, *operator: Any
) -> Iterator[str]:
    """Classify an image twice, trial by trial."""
    found = given(chosen, model)
    if not models.loaded(model):
        yield note("Loading the model …")
    text = text_of(*operator)
    compression = compression_of(text, "input", CORRECT)
    with ExitStack() as stack:
        lanes = []
        for name, wanted in zip(NAMES, (None, compression), strict=True):
            denoiser = models.own(model)
            classes, template = wanted_classes(denoiser, models.classes(model), names, prompts)
            classifier = DiffusionClassifier(denoiser, classes, policy, prompts=template)
            if wanted is not None:
                stack.enter_context(compress(denoiser, wanted))
            lanes.append(Lane(name, classifier.watch(found.image), models.cost(model, wanted)))
        seen = to_picture(to_tensor(found.image, denoiser.image_spec))
        picture = figure(
            seen, found.label or found.name, f"the image as the model sees it: {found.label or found.name}"
        )
        # one after the other, so that both races are at the same trial
        while any([lane.step() for lane in lanes]):
            yield page(lanes, classes, picture, text, verdict="")
    yield page(lanes, classes, picture, text, verdict=verdict(lanes, found, classes))


def wanted_classes(denoiser: Denoiser, own: Sequence[str], names: str, prompts: str) -> tuple[Sequence[str], str]:
    """Names of the visitor's for models that take text, otherwise the model's, or some of them."""
    given_names = check_names(names)
    if denoiser.by_text:
        if len(given_names) < 2:
            raise ValueError("this model takes text: write at least two class names, separated by commas")
        return given_names, prompts
    return given_names or own, "{}"


def page(lanes: Sequence[Lane], classes: Sequence[str], picture: str, operator: str, verdict: str) -> str:
    races = "".join(lane_html(lane, classes) for lane in lanes if lane.standing)
    names = (lanes[0].name, operator)
    paper = paper_evaluations(len(classes))
    evaluations = [lane.standing.decision.evaluations if lane.standing else 0 for lane in lanes]
    rows = [
        Meter("FLOPs", pair([lane.flops for lane in lanes]), texts([flops(lane.flops) for lane in lanes])),
        Meter("evaluations", pair(evaluations), texts([str(count) for count in evaluations]),
              f"of the network; the paper's protocol takes {paper}"),
        Meter("time", pair([lane.seconds for lane in lanes]), texts([f"{1e3 * lane.seconds:.0f} ms" for lane in lanes]),
              "measured just now, so other visitors count"),
    ]  # fmt: skip
    return f'{verdict}<div class="race">{picture}{races}</div>{meters(names, rows)}'


def pair(values: Sequence[float]) -> tuple[float, float]:
    return float(values[0]), float(values[1])


def texts(values: Sequence[str]) -> tuple[str, str]:
    return values[0], values[1]


def lane_html(lane: Lane, classes: Sequence[str]) -> str:
    """The bars of one race: full is the leader, empty is furthest behind."""
    standing = lane.standing
    assert standing is not None  # the caller's condition
    finite = standing.gaps[np.isfinite(standing.gaps)]
    furthest = max(float(finite.max()), 1e-12)
    shown = standing.decision.ranking[:MOST]
    bars = "".join(bar(classes[k], standing, k, furthest) for k in sorted(shown))
    more = f"<p>and {len(classes) - MOST} more classes</p>" if len(classes) > MOST else ""
    left = int(standing.alive.sum())
    state = "decided" if standing.done else f"{left} of {len(classes)} classes left"
    head = f"{escape(lane.name)} <small>{counted(len(lane.counts), 'trial')}, {state}</small>"
    return f'<section class="lane"><h4>{head}</h4><ol>{bars}</ol>{more}</section>'


def bar(name: str, standing: Standing, k: int, furthest: float) -> str:
    gap, chance = float(standing.gaps[k]), float(standing.decision.probabilities[k])
    width = 100 * (1 - gap / furthest) if np.isfinite(gap) else 0.0
    leads, alive = k == standing.decision.index, bool(standing.alive[k])
    kind, word = ("leads", "leads") if leads else ("in", "still in") if alive else ("out", "dropped out")
    return (
        f'<li class="{kind}" aria-label="{escape(str(name))}: {word}, probability {100 * chance:.0f} %">'
        f'<span>{escape(str(name))}</span><span class="track"><i style="width: {max(1.0, width):.1f}%"></i></span>'
        f"<b>{100 * chance:.0f} %</b></li>"
    )


def paper_evaluations(classes: int) -> int:
    """Evaluations of a decision by the paper's protocol."""
    stages = paper_stages(classes)
    text = f"stages(trials={stages.trials!r}, keep={stages.keep!r})"
    return sum(alive * count for alive, count in policy_rounds(Trial(classes, text)).items())


def verdict(lanes: Sequence[Lane], found: Chosen, classes: Sequence[str]) -> str:
    """What happened, in words."""
    plain, own = (lane.standing.decision for lane in lanes if lane.standing)
    same = plain.index == own.index
    answer = (
        f"Both say <strong>{escape(str(plain.label))}</strong>"
        if same
        else f"Uncompressed says <strong>{escape(str(plain.label))}</strong>, compressed "
        f"<strong>{escape(str(own.label))}</strong>"
    )
    truth = f", and it is a {escape(found.label)}" if found.label and found.label in classes else ""
    paper = paper_evaluations(len(classes))
    each = [lane.flops / max(1, sum(lane.counts)) for lane in lanes]
    return note(
        f"{answer}{truth}. Compressed, an evaluation takes {less(*each)} computing, and this decision "
        f"{less(lanes[0].flops, lanes[1].flops)} with {own.evaluations} evaluations instead of {plain.evaluations}; "
        f"the paper's protocol takes {paper}. The winner leads by {own.margin:.2g}, uncompressed by {plain.margin:.2g}."
    )
