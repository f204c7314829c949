"""A plan over its image as SVG for pages with a script: each token says which group it is in."""

import numpy as np

from bigain.escape import html as escape
from bigain.plots.tokens import View, borders, fills


def token_map(seen: View, picture: str, name: str) -> str:
    """The tokens of a plan over an image, which is a data URI.

    A token has the number of its group (`data-group`), of the one that stands for it (`data-into`), and its place.
    """
    height, width = seen.cells.shape
    return (
        f'<svg class="tokens" viewBox="0 0 {width} {height}" tabindex="0" role="application" data-width="{width}" '
        f'data-merges="{"yes" if (seen.filled >= 0).any() else ""}" '
        f'aria-label="{escape(name)}. Arrow keys move from token to token.">'
        f'<image href="{picture}" width="{width}" height="{height}" preserveAspectRatio="none"/>'
        f'<g class="groups">{"".join(squares(seen))}</g>'
        f'<path class="cells" d="{path(seen.cells)}"/>{"".join(frames(seen))}</svg>'
    )


def squares(seen: View) -> list[str]:
    colours = (255 * fills(seen)[..., :3]).round().astype(int)
    opacity = fills(seen)[..., 3]
    groups = seen.filled if seen.soft else seen.cells  # the largest share counts; the cells of shares are tiles
    return [
        f'<rect x="{x}" y="{y}" width="1" height="1" data-group="{groups[y, x]}" data-into="{seen.into[y, x]}" '
        f'fill="rgb({",".join(map(str, colours[y, x]))})" fill-opacity="{opacity[y, x]:.2f}"/>'
        for y, x in np.ndindex(seen.cells.shape)
    ]


def frames(seen: View) -> list[str]:
    """Marks of the tokens that stay as they are."""
    return [
        f'<rect class="kept" x="{x + 0.15:.2f}" y="{y + 0.15:.2f}" width="0.7" height="0.7"/>'
        for y, x in np.argwhere(seen.framed)
    ]


def path(cells: np.ndarray) -> str:
    """The lines between tokens of different groups."""
    return "".join(f"M{a[0]} {a[1]}L{b[0]} {b[1]}" for a, b in borders(cells))
