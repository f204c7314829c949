"""The tab that looks inside: which tokens are merged at a site, and what that saves."""

from functools import partial
from typing import Any, NamedTuple

import gradio as gr
import numpy as np
import torch

from bigain.classify.images import to_tensor
from bigain.commands.demo import draw_score
from bigain.commands.show import NOTHING, check_request, choose_site, look, noisy_pass
from bigain.compression import sites
from bigain.compression.status import Status
from bigain.escape import html as escape
from bigain.pictures import to_picture
from bigain.plots.token_map import token_map
from bigain.plots.tokens import VIEWS, View
from bigain.studio.image_picker import Chosen, ImagePicker, given, image_picker
from bigain.studio.limits import AT_ONCE, check_range, in_words
from bigain.studio.models import Models
from bigain.studio.parts import data_uri, figure, flops, less, note
from bigain.studio.setting import OperatorControls, operator_controls, text_of
from bigain.tokens.scores import laplacian_l1

T, DRAWS = 150, 4
MOST = 4096  # tokens that a page can show one by one
INTRO = """A **token** is one position of the model's feature map. The operator groups similar tokens before an
attention and gives the result back to all of a group afterwards. Point at a token, or move with the arrow keys: its
group lights up."""
HINT = "Point at a token to see its group."


class LookTab(NamedTuple):
    """What other tabs need: the controls that a record loads its setting into."""

    controls: OperatorControls
    picker: ImagePicker
    site: gr.Dropdown
    request: dict[str, Any]


def look_tab(models: Models, model: gr.Dropdown, tab: gr.Tab) -> LookTab:
    """Make the tab at this place of the page."""
    gr.Markdown(INTRO)
    with gr.Row(elem_classes="sides"):
        with gr.Column(scale=2, min_width=300):
            picker = image_picker(model, "look")
            controls, fitted = operator_controls("")
            site = gr.Dropdown([], value=None, label="site", info="the attention to look at", filterable=False,
                               allow_custom_value=True, elem_id="site")  # fmt: skip
            t = gr.Slider(0, 999, T, step=1, label="timestep", info="0 is the image, 999 is noise")
        with gr.Column(scale=5, min_width=320):
            shown = gr.HTML("", elem_id="look")
    request = {
        "fn": in_words(partial(inside, models)),
        "inputs": [picker.chosen, model, site, t, *controls],
        "outputs": [shown, site],
        "concurrency_id": "look",
        "concurrency_limit": AT_ONCE,
        "show_progress": "hidden",
    }
    moving = [controls.ratio.change, controls.factor.change, controls.more.submit, t.change,
              site.input, tab.select]  # fmt: skip
    gr.on(moving, **request, trigger_mode="always_last", api_name="look")
    for event in (*picker.ready, fitted):
        event.success(**request, api_visibility="private")
    return LookTab(controls, picker, site, request)


def inside(
    models: Models, chosen: Chosen | None, model: str, site: str | None, t: Any, *operator: Any
) -> tuple[str, Any]:
    """The tokens of an image at one site and timestep, and which sites there are."""
    found, text = given(chosen, model), text_of(*operator)
    denoiser = models.own(model)
    t = check_range("timestep", t, 0, denoiser.schedule.num_train_timesteps - 1)
    check_request(denoiser, [text], t, DRAWS)
    names = [each.name for each in sites(denoiser.network)]
    chosen_site = choose_site(denoiser, [text], site if site in names else None)
    pixels = to_tensor(found.image, denoiser.image_spec)
    noise = torch.randn((DRAWS, *denoiser.latent_shape), generator=torch.Generator().manual_seed(0))
    forward = noisy_pass(denoiser, pixels, None, t, noise)
    dense = look(denoiser, NOTHING, chosen_site, forward, everywhere=False)
    if dense.grid.tokens > MOST:
        raise ValueError(f"{chosen_site.name} has {dense.grid.tokens} tokens; the page shows at most {MOST}")
    seen = look(denoiser, text, chosen_site, forward, everywhere=True)
    drawn = VIEWS[type(seen.plan)](seen.plan, dense.grid)
    score = draw_score(laplacian_l1(dense.tokens, dense.grid).mean(0), dense.grid)
    dense_cost = models.cost(model, None).each
    picture = to_picture(pixels).convert("RGB")
    html = (
        note(sentence(drawn, text, seen.status, dense_cost))
        + f'<div class="maps">{token_figure(drawn, data_uri(picture), text)}'
        + figure(picture, f"as the model sees it, {dense.grid} tokens", f"the image: {found.label or found.name}")
        + figure(score, "Laplacian: bright is detail", "score map, bright where there is detail")
        + "</div>"
        + listing(seen.status)
    )
    return html, gr.update(choices=names, value=chosen_site.name)


def token_figure(drawn: View, picture: str, text: str) -> str:
    return (
        f'<figure class="looked">{token_map(drawn, picture, f"tokens under {text}")}'
        f'<figcaption><span class="token-words" role="status" aria-live="polite">{HINT}</span> '
        f"{escape(signs(drawn))}</figcaption></figure>"
    )


def signs(drawn: View) -> str:
    """The legend of the signs in use."""
    there = {
        "One colour is one group.": (drawn.filled >= 0).any(),
        "Framed tokens stay as they are.": drawn.framed.any(),
        "Dark ones are not used.": drawn.greyed.any(),
    }
    return " ".join(sign for sign, shown in there.items() if shown)


def sentence(drawn: View, text: str, status: Status, dense: int) -> str:
    """Which tokens are merged, and what it saves, in words."""
    groups, kept = int(drawn.filled.max()) + 1, int(drawn.framed.sum())
    if groups:
        merged = int(np.sum(drawn.filled >= 0))
        what = f"{merged} tokens are merged into {groups} groups, {kept} stay on their own"
    elif kept == drawn.cells.size:
        what = "nothing is merged"
    else:
        what = "every token still asks, but fewer answer: its keys and values are those of a cell, or of chosen tokens"
    saved = status.flops_before - status.flops_after
    pass_saved = f" A whole pass takes {less(dense, dense - saved)} computing." if status else ""
    return f"<strong>{escape(drawn.words)}</strong> under <code>{escape(text)}</code>: {what}.{pass_saved}"


def listing(status: Status) -> str:
    """What the operator did at all of its sites."""
    rows = "".join(
        f"<tr><th scope=row>{escape(row.name)}</th><td>{row.tokens}</td><td>{row.queries}</td><td>{row.keys}</td>"
        f"<td>{flops(row.flops_before)}</td><td>{flops(row.flops_after)}</td></tr>"
        for row in status
        if row.ran
    )
    head = "".join(f"<th scope=col>{name}</th>" for name in ("site", "tokens", "queries", "keys", "before", "after"))
    table = f'<div class="wide" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    return f"<details><summary>all compressed sites</summary>{table}</details>" if rows else ""
