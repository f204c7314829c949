"""Slow and obvious versions of every score and operator: one token at a time, in double precision.

Tokens of one image are a list of lists of numbers, row by row over the grid. The public functions take and give
tensors with a batch.
"""

import cmath
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Tokens = list[list[float]]
Window = int | tuple[int, int]
DIRECTIONS = ((-1, 0), (1, 0), (0, -1), (0, 1))


class Merged(NamedTuple):
    """The shorter sequence (B, M, C) and its copy back to full length (B, N, C)."""

    tokens: Tensor
    restored: Tensor


def random_tokens(height: int, width: int, rows: int = 2, channels: int = 5, seed: int = 0) -> Tensor:
    """Normal numbers: (B, N, C)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, height * width, channels, generator=generator)


# ---- scores


def laplacian(tokens: Tokens, height: int, width: int, outside: str) -> Tokens:
    """Sum of the four neighbours minus four times the token, per channel."""
    result = []
    for number, token in enumerate(tokens):
        row, column = divmod(number, width)
        total = [-4 * value for value in token]
        for down, right in DIRECTIONS:
            if 0 <= row + down < height and 0 <= column + right < width:
                other = tokens[(row + down) * width + column + right]
            else:
                other = token if outside == "replicate" else [0.0] * len(token)
            total = [a + b for a, b in zip(total, other, strict=True)]
        result.append(total)
    return result


def laplacian_l1(tokens: Tokens, height: int, width: int, outside: str = "zero") -> list[float]:
    field = laplacian(tokens, height, width, outside)
    return [sum(abs(value) for value in token) / len(token) for token in field]


def laplacian_l2(tokens: Tokens, height: int, width: int, outside: str = "zero") -> list[float]:
    field = laplacian(tokens, height, width, outside)
    return [math.sqrt(sum(value**2 for value in token) / len(token)) for token in field]


def laplacian_l1_replicate(tokens: Tokens, height: int, width: int) -> list[float]:
    return laplacian_l1(tokens, height, width, "replicate")


def laplacian_l2_replicate(tokens: Tokens, height: int, width: int) -> list[float]:
    return laplacian_l2(tokens, height, width, "replicate")


def mean_token(tokens: Tokens) -> list[float]:
    return [sum(channel) / len(tokens) for channel in zip(*tokens, strict=True)]


def length(token: list[float]) -> float:
    return math.sqrt(sum(value**2 for value in token))


def cosine(a: list[float], b: list[float]) -> float:
    """Zero where a token has no direction."""
    product = length(a) * length(b)
    return sum(p * q for p, q in zip(a, b, strict=True)) / product if product else 0.0


def mean_deviation(tokens: Tokens, height: int, width: int) -> list[float]:
    centre = mean_token(tokens)
    return [length([a - b for a, b in zip(token, centre, strict=True)]) for token in tokens]


def l1_norm(tokens: Tokens, height: int, width: int) -> list[float]:
    return [sum(abs(value) for value in token) for token in tokens]


def l2_norm(tokens: Tokens, height: int, width: int) -> list[float]:
    return [length(token) for token in tokens]


def channel_variance(tokens: Tokens, height: int, width: int) -> list[float]:
    scores = []
    for token in tokens:
        mean = sum(token) / len(token)
        scores.append(sum((value - mean) ** 2 for value in token) / len(token))
    return scores


def amplitudes(token: list[float]) -> list[float]:
    """|DFT| of bins 1 to C, which have the frequencies 0 to C - 1."""
    channels = len(token)
    turns = [[cmath.exp(-2j * math.pi * c * k / channels) for c in range(channels)] for k in range(channels)]
    return [abs(sum(value * turn for value, turn in zip(token, row, strict=True))) for row in turns]


def dft_centroid(tokens: Tokens, height: int, width: int) -> list[float]:
    scores = []
    for token in tokens:
        spectrum = amplitudes(token)
        weighted = sum(k * amplitude for k, amplitude in enumerate(spectrum, start=1))
        scores.append(weighted / sum(spectrum) if sum(spectrum) else 0.0)
    return scores


def dft_amplitude(tokens: Tokens, height: int, width: int) -> list[float]:
    return [sum(amplitudes(token)) for token in tokens]


def neighbour_cosine(tokens: Tokens, height: int, width: int) -> list[float]:
    """Negated, so that high means detail."""
    scores = []
    for number, token in enumerate(tokens):
        row, column = divmod(number, width)
        near = [
            tokens[(row + down) * width + column + right]
            for down, right in DIRECTIONS
            if 0 <= row + down < height and 0 <= column + right < width
        ]
        scores.append(-sum(cosine(token, other) for other in near) / max(1, len(near)))
    return scores


def mean_cosine(tokens: Tokens, height: int, width: int) -> list[float]:
    """Negated, so that high means detail."""
    centre = mean_token(tokens)
    return [-cosine(token, centre) for token in tokens]


SCORES: dict[str, Callable[[Tokens, int, int], list[float]]] = {
    function.__name__: function
    for function in (
        laplacian_l1,
        laplacian_l1_replicate,
        laplacian_l2,
        laplacian_l2_replicate,
        mean_deviation,
        l1_norm,
        l2_norm,
        channel_variance,
        dft_centroid,
        dft_amplitude,
        neighbour_cosine,
        mean_cosine,
    )
}


def score(name: str, x: Tensor, height: int, width: int) -> Tensor:
    """(B, N, C) -> (B, N)."""
    return torch.tensor([SCORES[name](tokens, height, width) for tokens in x.tolist()], dtype=torch.float64)


# ---- cells


def sides(window: Window) -> tuple[int, int]:
    return (window, window) if isinstance(window, int) else window


def cells(height: int, width: int, window: Window) -> list[list[int]]:
    """Token numbers of every whole cell, cells and tokens row by row."""
    tall, wide = sides(window)
    return [
        [(top * tall + down) * width + left * wide + right for down in range(tall) for right in range(wide)]
        for top in range(height // tall)
        for left in range(width // wide)
    ]


def lowest(values: list[float]) -> int:
    return min(range(len(values)), key=values.__getitem__)


def highest(values: list[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


def row_order_places(scores: list[float], height: int, width: int, window: Window) -> list[int]:
    """The part of the grid in whole cells is read row by row; every A numbers give one cell's place."""
    tall, wide = sides(window)
    stream = [scores[r * width + c] for r in range(height // tall * tall) for c in range(width // wide * wide)]
    size = tall * wide
    return [lowest(stream[start : start + size]) for start in range(0, len(stream), size)]


def anchors(scores: list[float], height: int, width: int, window: Window, anchor: str) -> list[int]:
    """Token number of each cell's destination."""
    members = cells(height, width, window)
    if anchor == "row_order":
        places = row_order_places(scores, height, width, window)
    else:
        pick = lowest if anchor == "lowest" else highest
        places = [pick([scores[number] for number in cell]) for cell in members]
    return [cell[place] for cell, place in zip(members, places, strict=True)]


# ---- merging


def stacked(rows: list[tuple[Tokens, Tokens]]) -> Merged:
    return Merged(*(torch.tensor(part, dtype=torch.float64) for part in zip(*rows, strict=True)))


def average(tokens: Tokens, leader: list[int]) -> tuple[Tokens, Tokens]:
    """Each leader becomes the equal-weight mean of its followers and itself; followers are copies of it."""
    followers = {i: [j for j in range(len(leader)) if leader[j] == i] for i in range(len(leader)) if leader[i] == i}
    merged = {i: mean_token([tokens[j] for j in group]) for i, group in followers.items()}
    return list(merged.values()), [merged[i] for i in leader]


def prune(tokens: Tokens, leader: list[int]) -> tuple[Tokens, Tokens]:
    """Each leader stays as it is; the others are copies of theirs."""
    kept = [tokens[i] for i in range(len(leader)) if leader[i] == i]
    return kept, [tokens[i] for i in leader]


def merge_closest(tokens: Tokens, destinations: list[int], removed: int) -> tuple[Tokens, Tokens]:
    """The `removed` sources that are most similar to a destination are merged into it."""
    pairs = []
    for source in range(len(tokens)):
        if source not in destinations:
            similar = [cosine(tokens[source], tokens[d]) for d in destinations]
            pairs.append((max(similar), source, destinations[highest(similar)]))
    pairs.sort(key=lambda pair: -pair[0])
    leader = list(range(len(tokens)))
    for _, source, destination in pairs[:removed]:
        leader[source] = destination
    return average(tokens, leader)


def gated_merge(
    x: Tensor, size: tuple[int, int], ratio: float, window: Window, scorer: str = "laplacian_l1", anchor: str = "lowest"
) -> Merged:
    rows = []
    for tokens in x.tolist():
        destinations = anchors(SCORES[scorer](tokens, *size), *size, window, anchor)
        rows.append(merge_closest(tokens, destinations, int(len(tokens) * ratio)))
    return stacked(rows)


def tome(x: Tensor, size: tuple[int, int], ratio: float, window: Window, places: list[int]) -> Merged:
    """`places` is the position of the destination in each cell."""
    destinations = [cell[place] for cell, place in zip(cells(*size, window), places, strict=True)]
    return stacked([merge_closest(tokens, destinations, int(len(tokens) * ratio)) for tokens in x.tolist()])


def block_merge(
    x: Tensor, size: tuple[int, int], ratio: float, window: Window, scorer: str = "laplacian_l1", tile: str = "max"
) -> Merged:
    reduce = {"max": max, "min": min, "mean": lambda values: sum(values) / len(values)}[tile]
    tall, wide = sides(window)
    rows = []
    for tokens in x.tolist():
        scores = SCORES[scorer](tokens, *size)
        count = int(len(tokens) * ratio) // (tall * wide - 1)
        by_smoothness = sorted(cells(*size, window), key=lambda cell: reduce([scores[i] for i in cell]))
        leader = list(range(len(tokens)))
        for cell in by_smoothness[:count]:
            for number in cell:
                leader[number] = cell[0]
        rows.append(average(tokens, leader))
    return stacked(rows)


def sito(x: Tensor, size: tuple[int, int], ratio: float, window: Window, noise: list[float]) -> Merged:
    """`noise` is added to each token's similarity to all tokens before the base tokens are chosen."""
    rows = []
    for tokens in x.tolist():
        similar = [[cosine(a, b) for b in tokens] for a in tokens]
        scores = [sum(row) + extra for row, extra in zip(similar, noise, strict=True)]
        bases = anchors(scores, *size, window, "highest")
        others = [i for i in range(len(tokens)) if i not in bases]
        others.sort(key=lambda i: -max(similar[i][b] for b in bases))
        gone = set(others[: int(len(tokens) * ratio)])
        kept = [i for i in range(len(tokens)) if i not in gone]
        leader = [max(kept, key=similar[i].__getitem__) if i in gone else i for i in range(len(tokens))]
        rows.append(prune(tokens, leader))
    return stacked(rows)


# ---- keys and values


def nearest_exact(place: int, fine: int, coarse: int) -> int:
    """floor((place + 1/2) · fine / coarse), in whole numbers."""
    return (2 * place + 1) * fine // (2 * coarse)


def adaptive_cell(place: int, fine: int, coarse: int) -> range:
    """From floor(place · fine / coarse) to below ceil((place + 1) · fine / coarse)."""
    return range(place * fine // coarse, math.ceil((place + 1) * fine / coarse))


def kv_downsample(
    x: Tensor,
    size: tuple[int, int],
    factor: int,
    alpha: float | tuple[float, float],
    t: Tensor | None = None,
) -> Tensor:
    """alpha · nearest + (1 − alpha) · average; a pair goes from its first at t = 999 to its second at t = 0."""
    height, width = size
    tall, wide = height // factor, width // factor
    rows = []
    for row, tokens in enumerate(x.tolist()):
        weight = alpha
        if isinstance(alpha, tuple):
            share = float(t[row]) / 999
            weight = alpha[0] * share + alpha[1] * (1 - share)
        coarse = []
        for i in range(tall):
            for j in range(wide):
                near = tokens[nearest_exact(i, height, tall) * width + nearest_exact(j, width, wide)]
                members = [
                    tokens[r * width + c] for r in adaptive_cell(i, height, tall) for c in adaptive_cell(j, width, wide)
                ]
                pairs = zip(near, mean_token(members), strict=True)
                coarse.append([weight * n + (1 - weight) * a for n, a in pairs])
        rows.append(coarse)
    return torch.tensor(rows, dtype=torch.float64)


def kv_select(
    x: Tensor, size: tuple[int, int], keep: float, prefer: str = "smooth", scorer: str = "laplacian_l1"
) -> Tensor:
    rows = []
    for tokens in x.tolist():
        scores = SCORES[scorer](tokens, *size)
        sign = 1 if prefer == "smooth" else -1
        order = sorted(range(len(tokens)), key=lambda i, scores=scores: sign * scores[i])
        chosen = sorted(order[: max(1, int(len(tokens) * keep))])
        rows.append([tokens[i] for i in chosen])
    return torch.tensor(rows, dtype=torch.float64)


# ---- soft merging


def coverage(similar: Tokens, chosen: list[int]) -> float:
    """Facility location: the cosine of each token to the nearest chosen one, summed; -1 where none is chosen."""
    return sum(max([-1.0, *(row[j] for j in chosen)]) for row in similar)


def greedy_locations(similar: Tokens, count: int) -> list[int]:
    """Each step tries every token that is not yet chosen; of those that are as good as the best it takes the first."""
    chosen: list[int] = []
    close = 1e-5 * len(similar)
    for _ in range(count):
        rest = [j for j in range(len(similar)) if j not in chosen]
        reached = [coverage(similar, [*chosen, j]) for j in rest]
        chosen.append(next(j for j, value in zip(rest, reached, strict=True) if value >= max(reached) - close))
    return sorted(chosen)


def tiles_of(height: int, width: int, tiles: Window) -> list[list[int]]:
    """Token numbers of each tile: as many tiles as fit, made as large as fits."""
    tall, wide = (side // max(1, side // wanted) for side, wanted in zip((height, width), sides(tiles), strict=True))
    return cells(height, width, (tall, wide))


def toma(
    x: Tensor, size: tuple[int, int], ratio: float, tiles: Window, temperature: float, inverse: bool = False
) -> Merged:
    """Merged tokens tile by tile, then those in no tile. The map is written out as a matrix for all tokens."""
    members = tiles_of(*size, tiles)
    removed = int(len(x[0]) * ratio) // len(members)
    merged, restored = [], []
    for row in x.double():
        tokens = row.tolist()
        columns = []
        for tile in members:
            similar = [[cosine(tokens[i], tokens[j]) for j in tile] for i in tile]
            chosen = greedy_locations(similar, len(tile) - removed)
            shares = torch.zeros(len(tokens), len(chosen), dtype=torch.float64)
            for i, token in enumerate(tile):
                logits = torch.tensor([similar[i][j] for j in chosen], dtype=torch.float64)
                own = torch.tensor([float(i == j) for j in chosen], dtype=torch.float64)
                shares[token] = own if i in chosen else (logits / temperature).softmax(0)
            columns.append(shares)
        inside = {token for tile in members for token in tile}
        rest = [token for token in range(len(tokens)) if token not in inside]
        whole = torch.cat(
            [*columns, torch.eye(len(tokens), dtype=torch.float64)[:, left_over_order(rest, size, tiles)]], 1
        )
        merge = (whole / whole.sum(0)).T
        merged.append(merge @ row)
        restored.append((torch.linalg.pinv(merge) if inverse else whole) @ merged[-1])
    return Merged(torch.stack(merged), torch.stack(restored))


def left_over_order(rest: list[int], size: tuple[int, int], tiles: Window) -> list[int]:
    """Tokens in no tile: first those to the right of the tiles, then those below."""
    height = size[0] // max(1, size[0] // sides(tiles)[0])
    below = size[0] // height * height * size[1]
    return [token for token in rest if token < below] + [token for token in rest if token >= below]
