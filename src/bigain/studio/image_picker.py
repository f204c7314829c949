"""Choosing an image: a bundled one, a file, or a drawing."""

import base64
import binascii
import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import gradio as gr
from PIL import Image, UnidentifiedImageError

from bigain.classify.images import to_pil
from bigain.escape import html as escape
from bigain.studio.limits import QUICK, check_image, check_range, in_words
from bigain.studio.models import samples_of
from bigain.studio.parts import data_uri

SHOWN = 20  # bundled images of a model
PAD = 280  # pixels a side of the drawing area
DRAWN = "data:image/png;base64,"
LONGEST = 500_000  # characters of a drawing
CLICK = """element.addEventListener("click", (event) => {
  const sample = event.target.closest("[data-sample]");
  if (sample) trigger("select", { index: Number(sample.dataset.sample) });
});"""
PAD_HTML = f"""<div class="pad"><canvas width="{PAD}" height="{PAD}" role="img"
aria-label="Drawing area, white on black. Draw with the mouse or a finger."></canvas>
<button type="button" class="clear">Clear</button></div>"""
NO_SAMPLES = "<p>No images of this model's kind are bundled. Drop one, or draw one.</p>"


class Chosen(NamedTuple):
    """The image of one visitor."""

    name: str
    image: Image.Image
    label: str | None = None  # its class, where that is known


class ImagePicker(NamedTuple):
    """The components, and the events after which there is an image."""

    chosen: gr.State
    samples: gr.HTML
    ready: Sequence[Any]


def image_picker(model: gr.Dropdown, key: str) -> ImagePicker:
    """Make a picker at this place of the page; `key` tells the two of a page apart."""
    chosen = gr.State(None, time_to_live=None)
    with gr.Tabs(elem_classes="picker"):
        with gr.Tab("Pick"):
            samples = gr.HTML("", js_on_load=CLICK, elem_id=f"samples-{key}")
        with gr.Tab("Drop"):
            file = gr.File(label="an image file", file_types=["image"], height=140, elem_id=f"drop-{key}")
        with gr.Tab("Draw"):
            gr.HTML(PAD_HTML, js_on_load="window.studio.pad(element);", elem_id=f"pad-{key}")
            drawing = gr.Textbox(visible=False)
            use = gr.Button("Use this drawing", size="sm")
    quick = {
        "show_progress": "hidden",
        "concurrency_id": "pick",
        "concurrency_limit": QUICK,
        "api_visibility": "private",
    }
    picked = samples.select(in_words(pick_sample), model, [chosen, samples], **quick)
    dropped = file.upload(in_words(take_file), [model, file], [chosen, samples], **quick)
    drawn = use.click(
        in_words(take_drawing), [model, drawing], [chosen, samples],
        js=f"(model, old) => [model, window.studio.drawing('pad-{key}')]", **quick,
    )  # fmt: skip
    return ImagePicker(chosen, samples, [picked, dropped, drawn])


def first_of(model: str) -> Chosen | None:
    data = samples_of(model)
    return None if data is None else sample(model, 0)


def given(chosen: Chosen | None, model: str) -> Chosen:
    """The chosen image, or the first bundled one."""
    found = chosen or first_of(model)
    if found is None:
        raise ValueError("choose an image first: drop one, or draw one")
    return found


def sample(model: str, number: Any) -> Chosen:
    data = samples_of(model)
    if data is None:
        raise ValueError("no images of this model's kind are bundled")
    number = check_range("the number of an image", number, 0, min(SHOWN, len(data.examples)) - 1)
    example = data.examples[number]
    return Chosen(example.name, to_pil(example.image), data.classes[example.labels[0]])


def gallery(model: str, picked: int | None = 0) -> str:
    """The bundled images of a model as buttons."""
    data = samples_of(model)
    if data is None:
        return NO_SAMPLES
    shown = [sample(model, number) for number in range(min(SHOWN, len(data.examples)))]
    buttons = [
        f'<button type="button" data-sample="{number}" aria-pressed="{str(number == picked).lower()}" '
        f'aria-label="{escape(found.label or found.name)}" title="{escape(found.label or found.name)}">'
        f'<img src="{data_uri(found.image)}" alt=""></button>'
        for number, found in enumerate(shown)
    ]
    return f'<div class="samples" role="group" aria-label="bundled images">{"".join(buttons)}</div>'


def pick_sample(model: str, event: gr.EventData) -> tuple[Chosen, str]:
    number = event._data.get("index") if isinstance(event._data, dict) else None
    found = sample(model, number)
    return found, gallery(model, number)


def take_file(model: str, file: str | None) -> tuple[Chosen, str]:
    if not file:
        raise ValueError("choose an image first: drop one, or draw one")
    return Chosen("your file", check_image(file)), gallery(model, None)


def take_drawing(model: str, drawing: str | None) -> tuple[Chosen, str]:
    """A drawing comes as the PNG of the canvas."""
    if not drawing or not drawing.startswith(DRAWN):
        raise ValueError("nothing was drawn yet; draw with the mouse or a finger")
    if len(drawing) > LONGEST:
        raise ValueError("the drawing is too large; clear it and draw again")
    try:
        with Image.open(io.BytesIO(base64.b64decode(drawing.removeprefix(DRAWN))), formats=["PNG"]) as opened:
            if opened.size != (PAD, PAD):
                raise ValueError(f"a drawing has {PAD} x {PAD} pixels, got {opened.size}")
            found = opened.convert("L")
    except (binascii.Error, UnidentifiedImageError, OSError, SyntaxError):
        raise ValueError("the drawing cannot be read; clear it and draw again") from None
    return Chosen("your drawing", found), gallery(model, None)
