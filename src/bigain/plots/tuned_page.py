"""The page of `bigain tune`: one self-contained HTML file about a setting."""

import io
from pathlib import Path

import torch

from bigain.escape import html as escape
from bigain.pictures import contact_sheet
from bigain.plots.page import Picture, bare_page, figures, image, section
from bigain.plots.style import save_figure
from bigain.plots.tuned import frontier, sensitivity
from bigain.tuning.goal import Candidate
from bigain.tuning.tune import Tuned

NO_FIGURES = "The sensitivity map and the frontier need matplotlib: pip install bigain[plots]."
HEADS = ("setting", "saved, classification", "saved, generation", "same label", "margin", "SSIM")


def tuned_page(found: Tuned, model: str, folder: Path) -> str:
    """The whole file; figures are also written into the folder, if matplotlib is there."""
    parts = [
        section("Verified", table(found) + f"<p>{escape(judgement(found))}</p>"),
        *charts(found, folder),
        *sheets(found),
        section("The setting", f'<pre tabindex="0"><code>{escape(str(found.setting))}</code></pre>'),
    ]
    target = found.setting.measured["target"]
    wanted = ", ".join(f"{key} {100 * value:g} %" for key, value in target.items() if key != "met")
    head = f"{model}, tuned: {wanted}"
    return bare_page(head, "bigain tune", lead(found), "\n".join(parts))


def lead(found: Tuned) -> str:
    verified = found.chosen.verified
    words = [f"saves {100 * found.goal.saved(verified):.1f} % of all FLOPs"]
    if verified.agreement is not None:
        words.append(f"keeps {verified.agreement.hits} of {verified.agreement.n} decisions")
    if verified.ssim is not None:
        words.append(f"makes images with a mean SSIM of {verified.ssim.value:.3f} to the uncompressed ones")
    return f"The setting {', '.join(words)}: measured on images and seeds that nothing was chosen on."


def judgement(found: Tuned) -> str:
    """Whether the target is met, and how the choice stands beside the best uniform operator."""
    words = "The target is met." if found.met else "The target cannot be met; this is the nearest."
    if not found.chosen.tuned:
        words += " One operator with one strength did best: nothing that was tuned beat it."
    return words + " Intervals are 95 %. Differences within them are no differences."


def table(found: Tuned) -> str:
    cells = "".join(f'<th role="columnheader" scope="col">{escape(head)}</th>' for head in HEADS)
    rows = "\n".join(table_row(one, one is found.chosen) for one in found.candidates)
    return (
        f'<table role="table">\n<thead role="rowgroup"><tr role="row">{cells}</tr></thead>\n'
        f'<tbody role="rowgroup">\n{rows}\n</tbody>\n</table>'
    )


def table_row(candidate: Candidate, chosen: bool) -> str:
    name = escape(candidate.name) + (" (chosen)" if chosen else "")
    cells = [f'<th role="rowheader" scope="row">{name}</th>']
    for head, text in zip(HEADS[1:], texts(candidate), strict=True):
        cells.append(f'<td role="cell" data-head="{escape(head)}"><span>{escape(text)}</span></td>')
    return f'<tr role="row">{"".join(cells)}</tr>'


def texts(candidate: Candidate) -> list[str]:
    """The cells of a row after its name."""
    verified = candidate.verified
    agreement, margin, ssim = verified.agreement, verified.margin, verified.ssim
    return [
        *(f"{100 * share:.1f} %" for share in verified.saved),
        "–" if agreement is None else percent(agreement.value, agreement.low, agreement.high),
        "–" if margin is None else percent(margin.value, margin.low, margin.high, "+"),
        "–" if ssim is None else f"{ssim.value:.3f}" + (f" [{ssim.low:.3f}, {ssim.high:.3f}]" if ssim.bounded else ""),
    ]


def percent(value: float, low: float, high: float, sign: str = "") -> str:
    found = (f"{100 * part:{sign}.1f}".replace("-", "−") for part in (value, low, high))
    return "{} % [{}, {}]".format(*found)


def charts(found: Tuned, folder: Path) -> list[str]:
    """Both figures."""
    parts = []
    for name, draw, alt in (
        ("frontier", frontier, "Saved FLOPs against what is lost, for each verified setting"),
        ("sensitivity", sensitivity, "A grid of sites and actions; colours are errors per FLOP saved"),
    ):
        try:
            path = save_figure(draw(found), folder / f"{name}.png")
        except ModuleNotFoundError:
            return [section("Figures", f"<p>{escape(NO_FIGURES)}</p>")]
        shown = image(Picture(path.read_bytes(), name, "", alt))
        parts.append(section(name.capitalize(), f'<figure><div class="chart" tabindex="0">{shown}</div></figure>'))
    return parts


def sheets(found: Tuned) -> list[str]:
    """The same seeds before and after."""
    if found.images is None:
        return []
    names = {"uncompressed": "the reference", "tuned": "the same seeds in the same places"}
    pictures = []
    for (title, words), images in zip(names.items(), found.images, strict=True):
        across = min(5, len(images))
        scale = max(1, 96 // images.shape[-1])
        data = io.BytesIO()
        contact_sheet(torch.as_tensor(images).cpu(), across, scale).save(data, "PNG", optimize=True)
        pictures.append(Picture(data.getvalue(), title, words, f"{len(images)} generated images, {title}"))
    return [section("Before and after", f'<div class="row two">\n{figures(pictures)}\n</div>')]
