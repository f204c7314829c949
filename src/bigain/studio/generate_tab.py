"""The tab that generates: the same seeds under two settings, step by step."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import gradio as gr
from PIL import Image

from bigain.compression import compress
from bigain.escape import html as escape
from bigain.generation import Sampling, Step, watch
from bigain.metrics.similarity import ssim
from bigain.pictures import to_picture
from bigain.registry import NONE
from bigain.studio.limits import MAX_IMAGES, MAX_NAME, MAX_STEPS, check_names, check_range, in_words
from bigain.studio.models import Models
from bigain.studio.parts import Meter, data_uri, flops, less, meters, note
from bigain.studio.setting import OperatorControls, compression_of, operator_controls, text_of

STEPS, FIRST = 20, 2
LARGEST_SEED = 2**31 - 1
FORMING = 128  # pixels a side at most, before the last step
INTRO = """The same seeds under two settings, so every difference comes from the operator. Before the last step you see
what the model expects to come out."""


class GenerateTab(NamedTuple):
    """What other tabs need: the controls of the second setting, which a record loads its own into."""

    controls: OperatorControls
    classes: gr.Dropdown
    prompts: gr.Textbox


def generate_tab(models: Models, model: gr.Dropdown) -> GenerateTab:
    """Make the tab at this place of the page."""
    gr.Markdown(INTRO)
    with gr.Row(elem_classes="sides"):
        with gr.Column(scale=2, min_width=300):
            classes = gr.Dropdown(
                [],
                value=[],
                multiselect=True,
                max_choices=MAX_IMAGES,
                label="classes",
                info=f"up to {MAX_IMAGES}",
                allow_custom_value=True,  # the choices come with the model; what was chosen is checked where it is used
            )
            prompts = gr.Textbox(
                label="prompts", info=f"one a line, up to {MAX_IMAGES}", lines=2, visible=False,
                max_length=MAX_IMAGES * MAX_NAME,
            )  # fmt: skip
            steps = gr.Slider(2, MAX_STEPS, STEPS, step=1, label="steps")
            seed = gr.Number(0, label="seed", precision=0, minimum=0, maximum=LARGEST_SEED)
            with gr.Accordion("First setting", open=False):
                first, _ = operator_controls("first ", NONE)
            with gr.Accordion("Second setting", open=True):
                second, _ = operator_controls("second ")
            start = gr.Button("Generate", variant="primary", elem_id="start-generate")
        with gr.Column(scale=5, min_width=320):
            shown = gr.HTML("<p>Choose classes and press Generate.</p>", elem_id="generated")
    start.click(
        in_words(partial(form, models)),
        [model, classes, prompts, steps, seed, *first, *second], shown,
        concurrency_id="generate", concurrency_limit=1, show_progress="minimal", api_name="generate",
    )  # fmt: skip
    return GenerateTab(second, classes, prompts)


def subjects(models: Models, model: str) -> tuple[Any, Any]:
    """Which of classes and prompts a model takes."""
    own = models.classes(model)
    return gr.update(choices=own, value=own[:FIRST], visible=bool(own)), gr.update(visible=not own)


@dataclass
class Side:
    """One of the two settings, and what it cost so far."""

    operator: str
    steps: Iterator[Step]
    flops: int  # of a forward pass for one image
    seconds: float = 0.0
    step: Step | None = None

    def advance(self) -> bool:
        """Take the next step, if there is one; whether there was."""
        began = time.perf_counter()
        found = next(self.steps, None)
        self.seconds += time.perf_counter() - began
        self.step = found or self.step
        return found is not None


def form(models: Models, model: str, classes: Sequence[str], prompts: str, *rest: Any) -> Iterator[str]:
    """Generate the same seeds under two settings, and show both after each step."""
    steps, seed, *operators = rest
    sampling = Sampling(check_range("steps", steps, 1, MAX_STEPS), seed=check_range("seed", seed, 0, LARGEST_SEED))
    wanted = wanted_subjects(models.classes(model), classes, prompts)
    half = len(operators) // 2
    words = [text_of(*operators[:half]), text_of(*operators[half:])]
    if not models.loaded(model):
        yield note("Loading the model …")
    with ExitStack() as stack:
        sides = []
        for text in words:
            denoiser, compression = models.own(model), compression_of(text)
            if compression is not None:
                stack.enter_context(compress(denoiser, compression))
            cost = models.cost(model, compression).of(1)
            sides.append(Side(text, watch(denoiser, wanted, sampling), cost))
        while any([side.advance() for side in sides]):  # one after the other, so that both are at the same step
            yield forming(sides, wanted)
    yield finished(sides, wanted)


def wanted_subjects(own: Sequence[str], classes: Sequence[str], prompts: str) -> list[str]:
    found = list(classes or []) if own else check_names(prompts)
    what = "class" if own else "prompt"
    if not found:
        raise ValueError(f"choose at least one {what}")
    if len(found) > MAX_IMAGES:
        raise ValueError(f"at most {MAX_IMAGES} images at once, got {len(found)}; `bigain generate` has no limit")
    return found


def forming(sides: Sequence[Side], wanted: Sequence[str]) -> str:
    """Both settings in rows, the same seed in the same column."""
    step = next(side.step for side in sides if side.step)
    rows = "".join(
        f'<section><h4>{escape(side.operator)}</h4><div class="formed">'
        + "".join(f'<img src="{small(picture)}" alt="{escape(name)}, forming">' for picture, name in seen(side, wanted))
        + "</div></section>"
        for side in sides
    )
    progress = f'<progress max="{step.steps}" value="{step.number}" aria-label="steps"></progress>'
    return f"{note(f'Step {step.number} of {step.steps}')}{progress}{rows}"


def seen(side: Side, wanted: Sequence[str]) -> list[tuple[Image.Image, str]]:
    images = [] if side.step is None else list(side.step.images)
    return [(to_picture(image), str(name)) for image, name in zip(images, wanted, strict=True)]


def small(picture: Image.Image) -> str:
    """Steps in between of large images are shown small, or they would take longer to send than to make."""
    picture = picture.copy()
    picture.thumbnail((FORMING, FORMING))
    return data_uri(picture)


def finished(sides: Sequence[Side], wanted: Sequence[str]) -> str:
    """The images with a slider that swipes between the two, and what they cost."""
    first, second = sides
    assert first.step is not None  # a sampling has at least one step
    assert second.step is not None
    similar = ssim(first.step.images, second.step.images)
    pairs = zip(seen(first, wanted), seen(second, wanted), similar, strict=True)
    swipes = "".join(
        swipe(data_uri(before), data_uri(after), f"{name}, SSIM {value:.3f}")
        for (before, name), (after, _), value in pairs
    )
    rows = [
        Meter("FLOPs of a forward pass", (float(first.flops), float(second.flops)),
              (flops(first.flops), flops(second.flops))),
        Meter("time", (first.seconds, second.seconds), (f"{first.seconds:.2f} s", f"{second.seconds:.2f} s"),
              "measured just now, so other visitors count"),
    ]  # fmt: skip
    saved = less(first.flops, second.flops)
    text = (
        f"Mean SSIM <strong>{similar.mean():.3f}</strong> (1 means equal; a different image may be as good). "
        f"<code>{escape(second.operator)}</code> takes {saved} computing than <code>{escape(first.operator)}</code>. "
        "Move the slider over an image: left of it is the first setting, right of it the second."
    )
    return f'{note(text)}<div class="swipes">{swipes}</div>{meters((first.operator, second.operator), rows)}'


def swipe(before: str, after: str, words: str) -> str:
    return (
        f'<figure class="swipe" style="--at: 50%"><div><img src="{before}" alt="first setting: {escape(words)}">'
        f'<img class="after" src="{after}" alt="second setting: {escape(words)}">'
        f'<input type="range" min="0" max="100" value="50" aria-label="swipe between the settings: {escape(words)}">'
        f"</div><figcaption>{escape(words)}</figcaption></figure>"
    )
