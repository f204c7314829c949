"""Joint attention: one site at a time against formulas, and what must hold of a whole model in closed cases."""

import math
from functools import cache

import diffusers
import pytest
import torch
from diffusers.models.attention_processor import SD3IPAdapterJointAttnProcessor2_0
from torch.nn import functional as F

import bigain
from bigain import Where
from bigain.models.packed import positions
from bigain.models.probe import probe_of
from bigain.tokens.soft import tile_order
from helpers.making import FOR_ALL_ROWS
from helpers.models import BACKBONES, call

MERGE = "gated_merge(ratio=0.6)"
SIZE = (10, 16)  # a grid of 5x8: pooled cells overlap along one axis, and have two middle tokens along the other
GRID = (5, 8)
HEADS = 2
SPECS = {
    "merged": MERGE,
    "weighted": "gated_merge(ratio=0.6, weighted=True)",
    "pruned": "sito(ratio=0.6)",
    "soft": "toma(ratio=0.6, tiles=4, temperature=0.5)",
    "pooled": "kv_downsample(factor=2, alpha=0.7)",
    "selected": "kv_select(keep=0.4)",
}
SITES = [
    ("sd3", "transformer_blocks.0.attn"),
    ("sd3", "transformer_blocks.1.attn2"),
    ("flux", "transformer_blocks.0.attn"),
    ("flux", "single_transformer_blocks.0.attn"),
    ("chroma", "transformer_blocks.1.attn"),
    ("qwen", "transformer_blocks.1.attn"),
    ("aura", "joint_transformer_blocks.1.attn"),
    ("aura", "single_transformer_blocks.0.attn"),
    ("hunyuan", "blocks.0.attn1"),
]


@cache
def built(name):
    return BACKBONES[name].build()


def close(a, b):
    torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-4)


# ---- the reference: one row, one head, one token at a time


def angles_of(name, tokens_of_text):
    """The angle of each channel pair at a place (row, column), and of each token of the text, from the definitions."""

    def of_axes(place, sides):
        return [p / 10000 ** (2 * i / side) for p, side in zip(place, sides, strict=True) for i in range(side // 2)]

    height, width = GRID
    if name in ("flux", "chroma"):
        return lambda place: of_axes((0, *place), (4, 6, 6)), [[0.0] * 8] * tokens_of_text
    if name == "qwen":  # the middle of the image is the origin; text goes on along the diagonal
        from_middle = (height - height // 2, width - width // 2)
        first = max(height // 2, width // 2)
        text = [of_axes((first + i,) * 3, (4, 6, 6)) for i in range(tokens_of_text)]
        return lambda place: of_axes((0, place[0] - from_middle[0], place[1] - from_middle[1]), (4, 6, 6)), text
    if name == "hunyuan":
        return lambda place: [p * 100 ** (-i / 3) for p in place for i in range(4)], None
    return None, None


def turned(token, angles):
    """Each pair of channels is a complex number that is multiplied by exp(i angle)."""
    if angles is None:
        return token
    factors = [complex(math.cos(angle), math.sin(angle)) for angle in angles]
    pairs = [complex(a, b) * f for a, b, f in zip(token[0::2].tolist(), token[1::2].tolist(), factors, strict=True)]
    return torch.tensor([part for pair in pairs for part in (pair.real, pair.imag)])


def cell(i, fine, coarse):
    """First and last of the tokens that pooled cell i covers along an axis."""
    return math.floor(i * fine / coarse), math.ceil((i + 1) * fine / coarse) - 1


def reduced(kind, plan, row, image):
    """Queries and keys as (token, place, log of its weight), and the number of the query that stands for each token."""
    height, width = GRID
    everything = [(image[n], divmod(n, width), 0.0) for n in range(height * width)]
    every = list(range(height * width))
    if kind == "selected":
        return everything, [everything[n] for n in plan.tokens[row].tolist()], every
    if kind == "pooled":
        keys = []
        for i in range(height // 2):
            for j in range(width // 2):
                rows, columns = cell(i, height, height // 2), cell(j, width, width // 2)
                members = [
                    r * width + c for r in range(rows[0], rows[1] + 1) for c in range(columns[0], columns[1] + 1)
                ]
                middle = int((i + 0.5) * height / (height // 2)), int((j + 0.5) * width / (width // 2))
                token = 0.7 * image[middle[0] * width + middle[1]] + 0.3 * image[members].mean(0)
                keys.append((token, (sum(rows) / 2, sum(columns) / 2), 0.0))
        return everything, keys, every
    if kind == "soft":
        return reduced_softly(plan, row, image)
    target = plan.target[row].tolist()
    groups = sorted(set(target))
    merged = []
    for group in groups:
        members = [n for n in range(height * width) if target[n] == group]
        token = image[group] if kind == "pruned" else image[members].mean(0)
        merged.append((token, divmod(group, width), math.log(len(members)) if kind == "weighted" else 0.0))
    return merged, merged, [groups.index(t) for t in target]


def reduced_softly(plan, row, image):
    """Tokens of whole tiles share groups; the weights of the tokens in the groups, which undo it, as a matrix."""
    tiles, members, groups = plan.share.shape[1:]
    order = tile_order(plan.grid, plan.tile, image.device).tolist()
    shares = torch.zeros(len(image), plan.size.shape[1])
    for tile in range(tiles):
        for i in range(members):
            shares[order[tile * members + i], tile * groups : (tile + 1) * groups] = plan.share[row, tile, i]
    for n, token in enumerate(order[tiles * members :]):
        shares[token, tiles * groups + n] = 1
    merged = [
        ((shares[:, group, None] * image).sum(0) / shares[:, group].sum(), divmod(keep, GRID[1]), 0.0)
        for group, keep in enumerate(plan.keep[row].tolist())
    ]
    return merged, merged, shares


def linear(layer, tokens):
    return F.linear(torch.stack(list(tokens)), layer.weight, layer.bias)


def by_heads(tokens, norm, angles):
    """Projected tokens, split, normalised and turned: [token][head]."""
    parts = [token.view(HEADS, -1) for token in tokens]
    parts = parts if norm is None else [norm.forward(part) for part in parts]
    return [[turned(head, None if angles is None else angles[n]) for head in part] for n, part in enumerate(parts)]


def attention(queries, keys, values, bias):
    """softmax(q·k / sqrt(d) + bias) v, each query and head on its own: [token] of (heads x d,)."""
    found = []
    for q, query in enumerate(queries):
        heads = []
        for h in range(HEADS):
            logits = [float(query[h] @ key[h]) / math.sqrt(len(key[h])) + bias(q, k) for k, key in enumerate(keys)]
            top = max(logits)
            weights = [math.exp(logit - top) for logit in logits]
            heads.append(
                sum(w * value.view(HEADS, -1)[h] for w, value in zip(weights, values, strict=True)) / sum(weights)
            )
        found.append(torch.cat(heads))
    return found


def reference(name, module, kind, plan, row, image, text, apart, mask):
    """What one row of a site must give: (N, C) for the image and (L, C) for the text, or None."""
    queries, keys, stands_for = reduced(kind, plan, row, image)
    angle, text_angles = angles_of(name, 0 if text is None else len(text))
    places = [None if angle is None else [angle(place) for _, place, _ in part] for part in (queries, keys)]
    words = [] if text is None else list(text)
    suffix = ("add_q_proj", "add_k_proj", "add_v_proj") if apart else ("to_q", "to_k", "to_v")
    norms = [
        getattr(module, part, None) for part in (("norm_added_q", "norm_added_k") if apart else ("norm_q", "norm_k"))
    ]
    of_text = [linear(getattr(module, layer), words) if words else [] for layer in suffix]
    q = by_heads(of_text[0], norms[0], text_angles)
    q += by_heads(linear(module.to_q, [token for token, _, _ in queries]), module.norm_q, places[0])
    k = by_heads(of_text[1], norms[1], text_angles)
    k += by_heads(linear(module.to_k, [token for token, _, _ in keys]), module.norm_k, places[1])
    v = list(of_text[2]) + list(linear(module.to_v, [token for token, _, _ in keys]))

    def number(part, n):
        """Where a query or key stands in the mask: text first, then the image token whose place it has."""
        if n < len(words):
            return n
        i, j = part[n - len(words)][1]
        return len(words) + math.ceil(i) * GRID[1] + math.ceil(j)

    def bias(a, b):
        weight = 0.0 if b < len(words) else keys[b - len(words)][2]
        if mask is None:
            return weight
        if mask.dtype == torch.bool:  # of the text alone
            return weight if b >= len(words) or mask[row, b] else -math.inf
        return weight + float(mask[row, number(queries, a)] * mask[row, number(keys, b)])

    output = attention(q, k, v, bias)
    out = getattr(module, "to_out", None)
    of_image = unmerged(kind, torch.stack(output[len(words) :]), stands_for)
    of_image = of_image if out is None else linear(out[0], of_image)
    if not words:
        return of_image, None
    last = module.to_add_out if apart else (None if out is None else out[0])
    return of_image, torch.stack(output[: len(words)]) if last is None else linear(last, output[: len(words)])


def unmerged(kind, merged, stands_for):
    return stands_for @ merged if kind == "soft" else merged[stands_for]


def inputs_of(name):
    inputs = BACKBONES[name].inputs(size=SIZE)
    if name == "chroma":  # its mask is added to the logits; each token has its own, to tell them apart
        mask = torch.rand(2, 7 + 40, generator=torch.Generator().manual_seed(3))
        return inputs._replace(kwargs=inputs.kwargs | {"attention_mask": mask})
    return inputs


def at_site(name, place, spec, kind="self"):
    """Arguments, output and plan of one compressed site in a pass."""
    model, seen, plans = built(name), {}, []
    module = model.get_submodule(place)

    def before(_, args, kwargs):
        seen["x"] = args[0] if args else kwargs["hidden_states"]
        seen["kwargs"] = kwargs

    def after(_, args, output):
        seen["output"] = output

    first = module.register_forward_pre_hook(before, with_kwargs=True)
    where = Where(module=kind, only=lambda site: site.name == place)
    with bigain.compress(model, spec, where=where) as handle, torch.no_grad():
        last = module.register_forward_hook(after)
        with handle.observed(lambda event: plans.append(event.plan) if event.step == "planned" else None):
            call(model, inputs_of(name))
        last.remove()
    first.remove()
    return module, seen, plans[-1]


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize(("name", "place"), SITES)
@torch.no_grad()
def test_a_site_is_what_the_formula_says(name, place, kind):
    module, seen, plan = at_site(name, place, SPECS[kind])
    x, text = seen["x"], seen["kwargs"].get("encoder_hidden_states")
    apart, first = text is not None, 0 if text is not None else x.shape[1] - 40
    mask = {"qwen": seen["kwargs"].get("encoder_hidden_states_mask")}.get(name)
    mask = inputs_of(name).kwargs["attention_mask"] if name == "chroma" else mask
    for row in range(2):
        words = text[row] if apart else (x[row, :first] if first else None)
        image, beside = reference(name, module, kind, plan, row, x[row, first:], words, apart, mask)
        if isinstance(seen["output"], tuple):
            found, found_text = (part[row] for part in seen["output"])
        else:
            found, found_text = seen["output"][row, first:], seen["output"][row, :first]
        close(found, image)
        if beside is not None and not getattr(module, "context_pre_only", False):
            close(found_text, beside)


def test_parts_of_tokens_cannot_stand_as_several_keys():
    text = r"toma's groups have parts of tokens; leave out weighted=True, or use gated_merge"
    with (
        bigain.compress(built("sd3"), "toma(ratio=0.6, tiles=4, weighted=True)"),
        pytest.raises(ValueError, match=text),
        torch.no_grad(),
    ):
        call(built("sd3"), inputs_of("sd3"))


@pytest.mark.parametrize("kind", ["merged", "pruned", "soft"])
@torch.no_grad()
def test_cross_attention_of_hunyuan_turns_its_queries_alone(kind):
    module, seen, plan = at_site("hunyuan", "blocks.0.attn2", SPECS[kind], "cross")
    angle, _ = angles_of("hunyuan", 0)
    for row in range(2):
        queries, _, stands_for = reduced(kind, plan, row, seen["x"][row])
        text = seen["kwargs"]["encoder_hidden_states"][row]
        q = by_heads(
            linear(module.to_q, [token for token, _, _ in queries]), module.norm_q, [angle(p) for _, p, _ in queries]
        )
        k = by_heads(linear(module.to_k, text), module.norm_k, None)
        output = attention(q, k, list(linear(module.to_v, text)), lambda a, b: 0.0)
        close(seen["output"][row], linear(module.to_out[0], unmerged(kind, torch.stack(output), stands_for)))


# ---- closed cases

ALL = ("sd3", "flux", "chroma", "flux2", "qwen", "aura", "hunyuan")


def alike(name, rows=2):
    """Inputs whose rows are all equal."""
    inputs = inputs_of(name) if name == "chroma" else BACKBONES[name].inputs(batch=rows, t=torch.tensor([500] * rows))

    def same(part):
        return part[:1].repeat(rows, *[1] * (part.ndim - 1)) if isinstance(part, torch.Tensor) else part

    kwargs = {key: part if key in FOR_ALL_ROWS else same(part) for key, part in inputs.kwargs.items()}
    return inputs._replace(args=tuple(map(same, inputs.args)), kwargs=kwargs)


@pytest.mark.filterwarnings("ignore:correct=True costs more")
@pytest.mark.parametrize("name", ALL)
@torch.no_grad()
def test_equal_rows_are_computed_dense_by_the_correction(name):
    """A group whose rows are equal is its own mean row, so that nothing of the error is left, in image and text."""
    model, inputs = built(name), alike(name)
    dense = call(model, inputs)
    where = Where(module=("self", "mlp", "cross") if name == "hunyuan" else ("self", "mlp"))
    with bigain.compress(model, MERGE, where=where, groups=2, correct=True):
        close(call(model, inputs), dense)
    with bigain.compress(model, MERGE, where=where, groups=2):
        assert not torch.allclose(call(model, inputs), dense, atol=1e-3)


def in_cells(x, dim=1):
    """Each token of a grid becomes the first of its 2x2 cell."""
    n = torch.arange(64)
    return x.index_select(dim, (n // 16 * 16) + (n % 8) // 2 * 2)


def tables_in_cells(name, tables):
    """Rotary tables in which all tokens of a cell stand at one place."""
    if name == "flux":
        return tuple(torch.cat([table[:-64], in_cells(table[-64:], 0)]) for table in tables)
    if name == "qwen":
        return in_cells(tables[0], 0), tables[1]
    return tuple(in_cells(table, 0) for table in tables)


def with_duplicates(name, place, one_place):
    """Output of a site, dense and compressed, whose 2x2 cells hold one token four times."""
    model = built(name)
    module, outputs = model.get_submodule(place), []

    def before(_, args, kwargs):
        kwargs = dict(kwargs)
        x = args[0] if args else kwargs.pop("hidden_states")
        if one_place:
            kwargs["image_rotary_emb"] = tables_in_cells(name, kwargs["image_rotary_emb"])
        return (in_cells(x), *args[1:]), kwargs

    def after(_, args, output):
        outputs.append(torch.cat(output, 1) if isinstance(output, tuple) else output)

    first = module.register_forward_pre_hook(before, with_kwargs=True)
    for spec in ("none", "gated_merge(ratio=0.75, weighted=True)"):
        with bigain.compress(model, spec, where=lambda site: site.name == place), torch.no_grad():
            last = module.register_forward_hook(after)
            call(model, BACKBONES[name].inputs())
            last.remove()
    first.remove()
    return outputs


@pytest.mark.parametrize(
    ("name", "place"), [("sd3", "transformer_blocks.0.attn"), ("aura", "joint_transformer_blocks.0.attn")]
)
def test_merging_duplicates_by_weight_is_exact(name, place):
    dense, merged = with_duplicates(name, place, one_place=False)
    close(merged, dense)


@pytest.mark.parametrize(
    ("name", "place"),
    [("flux", "transformer_blocks.0.attn"), ("qwen", "transformer_blocks.0.attn"), ("hunyuan", "blocks.0.attn1")],
)
def test_duplicates_at_different_places_are_not_the_same_with_rotary_positions(name, place):
    """The group stands at one of their places, so that logits change; at one and the same place nothing does."""
    dense, merged = with_duplicates(name, place, one_place=False)
    assert not torch.allclose(merged, dense, atol=1e-4)
    dense, merged = with_duplicates(name, place, one_place=True)
    close(merged, dense)


# ---- what is refused, and why


def test_a_matrix_for_attention_and_mlp_takes_no_other_keys():
    model, inputs = built("flux2"), BACKBONES["flux2"].inputs()
    for spec in ("todo(factor=2)", "gated_merge(ratio=0.6, weighted=True)"):
        with pytest.raises(ValueError, match="its MLP in one matrix; use an operator that"):
            bigain.compress(model, spec)
        assert not probe_of(model), "nothing was attached"
        with bigain.compress(model, spec, where="part='double'"), torch.no_grad():
            call(model, inputs)


@pytest.mark.parametrize("correct", [False, True])
def test_images_of_an_ip_adapter_are_refused_beside_rotary_positions(correct):
    inputs = BACKBONES["flux"].inputs()
    inputs.kwargs["joint_attention_kwargs"] = {"ip_hidden_states": [torch.zeros(2, 4, 32)]}
    options = {"groups": 2, "correct": True} if correct else {}
    with (
        bigain.compress(built("flux"), MERGE, **options),
        pytest.raises(ValueError, match=r"transformer_blocks.0.attn gets images of an IP-Adapter, .* leave it out"),
    ):
        call(built("flux"), inputs)


@torch.no_grad()
def test_images_of_an_ip_adapter_stay_with_merged_tokens_without_them():
    model, inputs = BACKBONES["sd3"].build(dual_attention_layers=()), BACKBONES["sd3"].inputs()
    torch.manual_seed(0)
    for block in model.transformer_blocks:
        block.attn.processor = SD3IPAdapterJointAttnProcessor2_0(32, 24, 16, timesteps_emb_dim=8)
    given = {"ip_hidden_states": torch.randn(2, 4, 24), "temb": torch.randn(2, 8)}
    inputs = inputs._replace(kwargs={"joint_attention_kwargs": given})
    dense = call(model, inputs)
    with bigain.compress(model, "gated_merge(ratio=0)"):
        assert torch.equal(call(model, inputs), dense)
    for spec in (MERGE, "kv_downsample(factor=2)"):
        with bigain.compress(model, spec):
            assert not torch.allclose(call(model, inputs), dense, atol=1e-4)
    assert torch.equal(call(model, inputs), dense)
    with (
        bigain.compress(model, MERGE, groups=2, correct=True),
        pytest.raises(ValueError, match="gets images of an IP-Adapter"),
    ):
        call(model, inputs)


def two_images(name):
    """A generated image and a reference beside it."""
    inputs = BACKBONES[name].inputs()
    more = {"hidden_states": inputs.kwargs["hidden_states"].repeat(1, 2, 1)}
    if name == "qwen":
        return inputs._replace(kwargs=inputs.kwargs | more | {"img_shapes": [[(1, 8, 8), (1, 8, 8)]] * 2})
    reference = positions(8, 8, inputs.kwargs["img_ids"].shape[1])
    reference[:, 0] = 1
    return inputs._replace(kwargs=inputs.kwargs | more | {"img_ids": torch.cat([inputs.kwargs["img_ids"], reference])})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "flux",
            r"got 128 image tokens whose img_ids are not the rows .* one grid; reference images .*Kontext, editing",
        ),
        ("flux2", r"Flux2Transformer2DModel got 128 image tokens whose img_ids are not the rows and columns"),
        ("qwen", r"got 128 image tokens, but the first of img_shapes has 64 in 1 frames; reference images .*editing"),
    ],
)
def test_reference_images_are_refused_until_compression_is_paused(name, text):
    model, inputs = built(name), two_images(name)
    with bigain.compress(model, MERGE) as handle:
        with pytest.raises(ValueError, match=text):
            call(model, inputs)
        with handle.paused(), torch.no_grad():
            paused = call(model, inputs)
    with torch.no_grad():
        assert torch.equal(call(model, inputs), paused)


def test_the_cache_of_reference_images_is_refused():
    inputs = BACKBONES["flux2"].inputs()
    inputs.kwargs["kv_cache_mode"] = "cached"
    with (
        bigain.compress(built("flux2"), MERGE),
        pytest.raises(ValueError, match="with kv_cache_mode has reference images, which cannot be compressed"),
    ):
        call(built("flux2"), inputs)


def test_models_that_are_no_family_say_why():
    heads = {"num_attention_heads": 2, "attention_head_dim": 8, "num_layers": 1}
    sana = diffusers.SanaTransformer2DModel(
        in_channels=4,
        out_channels=4,
        num_cross_attention_heads=2,
        cross_attention_head_dim=8,
        cross_attention_dim=16,
        caption_channels=8,
        sample_size=8,
        **heads,
    )
    with pytest.raises(
        TypeError, match="SanaTransformer2DModel is not supported: its attention is linear in the number"
    ):
        bigain.compress(sana, MERGE)
    video = diffusers.WanTransformer3DModel(text_dim=8, freq_dim=8, ffn_dim=16, **heads)
    with pytest.raises(
        TypeError, match=r"WanTransformer3DModel \(diffusers' transformer_wan\) is not supported yet; one"
    ):
        bigain.compress(video, MERGE)
