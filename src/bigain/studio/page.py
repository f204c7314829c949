"""The page: what all tabs share, and the tabs."""

from pathlib import Path
from typing import Any

import gradio as gr

from bigain.studio.classify_tab import classify_tab
from bigain.studio.compare_tab import compare_tab
from bigain.studio.generate_tab import generate_tab, subjects
from bigain.studio.image_picker import Chosen, first_of, gallery
from bigain.studio.limits import HOUR
from bigain.studio.look_tab import look_tab
from bigain.studio.models import Models
from bigain.studio.options import StudioOptions

HERE = Path(__file__).parent
HEAD = f"<script>{(HERE / 'studio.js').read_text()}</script>"
CSS = (HERE / "studio.css").read_text()
HEADER = """<header class="studio"><div><h1>bigain studio</h1>
<p>A diffusion model generates images and classifies them. Merging similar tokens makes both cheaper.
What does it cost?</p>
</div><button type="button" id="theme" aria-label="switch between light and dark">◐</button></header>"""
THEME = gr.themes.Base(
    primary_hue="indigo", font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "Menlo", "monospace"]
)


def build_page(options: StudioOptions, models: Models) -> gr.Blocks:
    """All of the page; nothing is loaded yet."""
    with gr.Blocks(title="bigain studio", analytics_enabled=False, delete_cache=(HOUR, HOUR)) as page:
        gr.HTML(HEADER, js_on_load='window.studio.theme(element.querySelector("#theme"));')
        model = gr.Dropdown(models.names, value=options.model, label="model", filterable=False, elem_id="model")
        with gr.Tabs():
            with gr.Tab("Classify", id="classify"):
                classify = classify_tab(models, model)
            with gr.Tab("Look inside", id="look") as tab:
                look = look_tab(models, model, tab)
            with gr.Tab("Generate", id="generate"):
                generate = generate_tab(models, model)
            with gr.Tab("Compare", id="compare") as tab:
                others = [classify.controls, look.controls, generate.controls]
                compare_tab(options.records, model, tab, others, models.names)
    with page:
        pickers = [classify.picker, look.picker]
        begun = gr.on(
            [page.load, model.change],
            lambda name: beginning(models, name, len(pickers)),
            model,
            [part for picker in pickers for part in (picker.chosen, picker.samples)]
            + [generate.classes, generate.prompts],
            show_progress="hidden",
            api_visibility="private",
        )
        begun.then(**classify.request, api_visibility="private")
        begun.then(**look.request, api_visibility="private")
    return page


def beginning(models: Models, name: str, pickers: int) -> list[Any]:
    """What a model brings: its first image in each picker, and its classes."""
    chosen: Chosen | None = first_of(name)
    return [*[chosen, gallery(name)] * pickers, *subjects(models, name)]
