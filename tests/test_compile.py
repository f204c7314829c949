"""torch.compile sees one graph, once, and never runs a graph of another state.

What TorchInductor makes of the operators is tested on tensors, for every choice that one offers, and on one whole model
of each family; whether a model is one graph, and whether it follows its handle, does not depend on the backend.
"""

from contextlib import nullcontext
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
import torch
from peft import LoraConfig

import bigain
from bigain.models.rows import RowGroups, same_input
from bigain.operators import OPERATORS, Call, parse
from bigain.tokens.grid import Grid, Window
from bigain.tokens.matching import MATCHES
from bigain.tokens.scores import SCORERS
from helpers.models import BACKBONES, EXAMPLES, call
from helpers.operator_examples import outputs

UNET = {
    "sample_size": 8,
    "block_out_channels": (8,),
    "layers_per_block": 1,
    "down_block_types": ("CrossAttnDownBlock2D",),
    "up_block_types": ("UpBlock2D",),
    "mid_block_type": None,
    "attention_head_dim": 1,
}
DIT = {"sample_size": 8, "num_layers": 1, "num_attention_heads": 1, "attention_head_dim": 8}
CHANGES = {
    "sd": UNET,
    "dit": DIT,
    "sd3": {"num_layers": 1, "dual_attention_layers": ()},
    "flux": {"num_layers": 1, "num_single_layers": 1},
    "chroma": {"num_layers": 1, "num_single_layers": 1},
    "flux2": {"num_layers": 1, "num_single_layers": 1},
    "qwen": {"num_layers": 1},
    "aura": {"num_mmdit_layers": 1, "num_single_dit_layers": 1},
    "hunyuan": {"num_layers": 2},
}
TWO_BLOCKS = {"sd": {"transformer_layers_per_block": 2}, "dit": {"num_layers": 2}}


def inductor(test):
    """Marks a test that compiles to machine code.

    Inductor itself uses what torch calls deprecated, and leaves Fourier transforms to eager code.
    """
    quiet = pytest.mark.filterwarnings(
        "ignore:`torch.jit.script_method` is deprecated:DeprecationWarning",
        "ignore:Torchinductor does not support code generation for complex operators:UserWarning",
    )
    return pytest.mark.slow(quiet(test))


@pytest.fixture(autouse=True)
def fresh_graphs():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.fixture(params=["sd", "dit"])
def name(request):
    return request.param


def build(name, **changes):
    return BACKBONES[name].build(**CHANGES[name] | changes)


@torch.no_grad()
def at(name, model, t, size=(8, 8)):
    """The output at a timestep, for a batch of two."""
    return call(model, BACKBONES[name].inputs(size=size, t=torch.tensor([t, 999 - t])))


def close(a, b):
    torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


def one_way():
    """Inductor writes long expressions out once for each way to vectorise them, which takes half a minute for the hash
    of a draw; here it shall not. Vectorised draws and merges are in the whole models.
    """
    return torch._inductor.config.patch({"cpp.simdlen": 1})


# every operator, and every choice that one offers
COMPILED = [
    "gated_merge(ratio=0.6)",
    "gated_merge(ratio=0.5, match='local', weighted=True)",
    "gated_merge(ratio=0.5, match='exact', anchor='highest', scorer='dft_centroid')",
    "gated_merge(ratio=0.5, anchor='row_order')",
    "tome(ratio=0.5, pattern='fixed')",
    "tome(ratio=0.6, pattern='per_call')",
    "tome(ratio=0.6, pattern='per_row')",
    "tome(ratio=0.4, pattern='corner', match='local', window=(1, 2))",
    "block_merge(ratio=0.6, weighted=True)",
    "block_merge(ratio=0.6, tile='min')",
    "block_merge(ratio=0.6, tile='mean')",
    "sito(ratio=0.6)",
    "toma(ratio=0.6, tiles=(2, 3), weighted=True)",
    "toma(ratio=0.5, tiles=2, unmerge='pinv')",
    "kv_downsample(factor=2, alpha=(0.8, 1.2))",
    "kv_downsample(factor=2, alpha=0.9)",
    "todo(factor=2)",
    "avg_pool(factor=2)",
    "kv_select(keep=0.4)",
    "kv_select(keep=0.4, prefer='detail')",
]


@inductor
@pytest.mark.parametrize("spec", COMPILED)
def test_compiled_operators_equal_eager_ones_for_all_calls(spec):
    """Plan and apply, with what a hook hands over: the number of the pass and of the site are tensors."""
    operator, grid = parse(spec), Grid(6, 9)
    x = torch.randn(2, grid.tokens, 8, generator=torch.Generator().manual_seed(0))

    def apply(x, t, key, site):
        return [part for part in outputs(operator.plan(x, Call(grid, t, key, site)), x) if part is not None]

    with one_way() if "tome" in spec or "sito" in spec or "local" in spec else nullcontext():
        compiled = torch.compile(apply, fullgraph=True)
        for number, (t, limit) in enumerate([(10, False), (500, True), (900, True)]):
            args = x, torch.tensor([t, 999 - t]), torch.tensor([number]), torch.tensor(3 * number)
            with torch._dynamo.config.patch(error_on_recompile=limit):
                found = compiled(*args)
            for a, b in zip(found, apply(*args), strict=True):
                close(a, b)


def test_every_operator_and_choice_is_compiled():
    operators = [parse(spec) for spec in COMPILED]
    assert {type(operator) for operator in operators} == set(OPERATORS.values())
    for cls in OPERATORS.values():
        offered = {name: get_args(hint) for name, hint in get_type_hints(cls).items() if get_origin(hint) is Literal}
        offered |= {name: (False, True) for name, hint in get_type_hints(cls).items() if hint is bool}
        for name, choices in offered.items():
            sharing = [one for one in operators if name in vars(one)]  # what `weighted` does is shared, too
            assert {getattr(operator, name) for operator in sharing} >= set(choices), (cls, name)


@inductor
def test_all_scorers_compile():
    grid = Grid(6, 10)
    x = torch.randn(2, grid.tokens, 8, generator=torch.Generator().manual_seed(0))

    def scores(x):
        return torch.stack([scorer(x, grid) for scorer in SCORERS.values()])

    close(torch.compile(scores, fullgraph=True)(x), scores(x))


@inductor
@pytest.mark.parametrize("match", MATCHES)
def test_matching_compiles_where_there_are_several_blocks(match):
    grid, window = Grid(20, 26), Window(2, 2)
    x = torch.randn(2, grid.tokens, 8, generator=torch.Generator().manual_seed(0))
    place = torch.arange(window.cells(grid).tokens).remainder(4).expand(2, -1)
    expected = MATCHES[match](x, place, grid, window)
    with one_way():
        found = torch.compile(MATCHES[match], fullgraph=True)(x, place, grid, window)
    for a, b in zip(found, expected, strict=True):
        close(a, b)


@inductor
@pytest.mark.parametrize(
    ("name", "operator", "options"),
    [
        ("sd", "gated_merge(ratio=0.6, weighted=True)", {}),
        ("dit", "tome(ratio=0.6)", {}),
        ("dit", "gated_merge(ratio=0.6)", {"groups": 2, "correct": True}),
        ("sd3", "avg_pool(factor=2)", {}),
        ("flux", "block_merge(ratio=0.6)", {}),
        ("qwen", "kv_downsample(factor=2)", {}),
    ],
)
def test_a_whole_model_with_inductor(name, operator, options):
    assert_one_graph(name, build(name), operator, options, "inductor")


@inductor
def test_a_model_compiled_by_inductor_follows_the_handle():
    assert_follows("dit", "gated_merge(ratio=0.6)", "inductor")


# every kind of plan, and every way to share plans, on both models
GRAPHS = [
    ("sd", "gated_merge(ratio=0.6, weighted=True)", {}),
    ("sd", "gated_merge(ratio=0.6)", {"reuse": "stage"}),
    ("sd", "tome(ratio=0.6)", {"groups": "cfg"}),
    ("sd", "sito(ratio=0.6)", {"groups": 2}),
    ("sd", "kv_downsample(factor=2, alpha=(0.8, 1.2))", {}),
    ("sd", "kv_select(keep=0.4)", {}),
    ("dit", "gated_merge(ratio=0.6)", {"groups": 2}),
    ("sd", "gated_merge(ratio=0.6)", {"groups": 2, "correct": True}),
    ("sd", "toma(ratio=0.6, tiles=4)", {"groups": 2, "correct": True}),
    ("dit", "toma(ratio=0.6, tiles=4, weighted=True)", {"reuse": "stage"}),
    ("dit", "block_merge(ratio=0.6, weighted=True)", {}),
    ("dit", "sito(ratio=0.6)", {"reuse": "stage"}),
    ("dit", "avg_pool(factor=2)", {}),
    ("dit", "kv_select(keep=0.4)", {"groups": "cfg"}),
    ("sd3", "gated_merge(ratio=0.6, weighted=True)", {}),
    ("flux", "gated_merge(ratio=0.6)", {}),
    ("flux", "kv_select(keep=0.4)", {"groups": 2, "correct": True}),
    ("chroma", "kv_downsample(factor=2, alpha=(0.8, 1.2))", {"reuse": "stage"}),
    ("flux2", "gated_merge(ratio=0.6)", {"groups": "cfg"}),
    ("qwen", "gated_merge(ratio=0.6, weighted=True)", {}),
    ("aura", "gated_merge(ratio=0.6)", {"where": "index=(0, 1), module=('self', 'mlp')"}),
    ("hunyuan", "gated_merge(ratio=0.6)", {"where": "module=('self', 'cross')"}),
]
SIZES = {"sd": (14, 18), "dit": (8, 8), "sd3": (8, 12)}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "operator", "options"), GRAPHS)
@pytest.mark.filterwarnings("ignore:correct=True costs more")
def test_one_graph_equal_to_eager_for_all_time_steps(name, operator, options):
    changes = TWO_BLOCKS.get(name, {}) if "reuse" in options else {}
    backend = "aot_eager" if name in ("sd", "dit", "flux") else "eager"
    assert_one_graph(name, build(name, **changes), operator, options, backend)


def assert_one_graph(name, model, operator, options, backend):
    size = SIZES.get(name, (8, 12))
    dense = at(name, model, 10, size)
    with bigain.compress(model, operator, **options) as handle:
        expected = [at(name, model, t, size) for t in (10, 500, 900)]
        handle.reset()
        compiled = torch.compile(model, fullgraph=True, backend=backend)
        found = [at(name, compiled, 10, size)]
        with torch._dynamo.config.patch(error_on_recompile=True):
            found += [at(name, compiled, t, size) for t in (500, 900)]
    for a, b in zip(found, expected, strict=True):
        close(a, b)
        assert not torch.allclose(a, dense, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "kind"), [("sd", "tome"), ("sd", "kv_downsample"), ("dit", "sito"), ("dit", "kv_select")]
)
def test_a_compiled_model_follows_the_handle(name, kind):
    assert_follows(name, EXAMPLES[kind], "eager")


def assert_follows(name, operator, backend):
    model = build(name)
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    dense = at(name, compiled, 10)
    handle = bigain.compress(compiled, operator)
    compressed = at(name, compiled, 10)
    assert not torch.allclose(compressed, dense, atol=1e-4)
    handle.reset()
    close(at(name, model, 10), compressed)
    with handle.paused():
        close(at(name, compiled, 10), dense)
    handle.reset()
    close(at(name, compiled, 10), compressed)
    handle.remove()
    close(at(name, compiled, 10), dense)


@pytest.mark.slow
def test_restoring_reaches_compiled_graphs(name):
    model = build(name)
    dense = at(name, model, 10)
    bigain.compress(model, "gated_merge(ratio=0.6)")
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    assert not torch.allclose(at(name, compiled, 10), dense, atol=1e-4)
    bigain.restore(compiled)
    close(at(name, compiled, 10), dense)


@pytest.mark.slow
def test_compressing_a_model_compiled_in_place_takes_effect(name):
    model = build(name)
    dense = at(name, model, 10)
    model.compile(fullgraph=True, backend="eager")
    close(at(name, model, 10), dense)
    with bigain.compress(model, "gated_merge(ratio=0.6)"):
        assert not torch.allclose(at(name, model, 10), dense, atol=1e-4)
    close(at(name, model, 10), dense)


@pytest.mark.slow
def test_a_second_operator_on_a_model_compiled_elsewhere_takes_effect(name):
    model = build(name)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    with bigain.compress(model, "todo(factor=2)"):
        one = at(name, compiled, 10)
        with bigain.compress(model, "gated_merge(ratio=0.6)", where='module="mlp"'):
            two = at(name, compiled, 10)
            close(two, at(name, model, 10))
            assert not torch.allclose(two, one, atol=1e-4)


@pytest.mark.slow
def test_compressing_a_model_with_compiled_blocks_takes_effect(name):
    model = build(name)
    dense = at(name, model, 10)
    for module in model.modules():
        if type(module).__name__ == "BasicTransformerBlock":
            module.compile(fullgraph=True, backend="eager")
    close(at(name, model, 10), dense)
    with bigain.compress(model, "gated_merge(ratio=0.6)") as handle:
        assert not torch.allclose(at(name, model, 10), dense, atol=1e-4)
        with handle.paused():
            close(at(name, model, 10), dense)
    close(at(name, model, 10), dense)


@pytest.mark.slow
def test_compiling_the_blocks_of_a_compressed_model(name):
    model = build(name)
    with bigain.compress(model, "gated_merge(ratio=0.6)"):
        expected = at(name, model, 10)
        for module in model.modules():
            if type(module).__name__ == "BasicTransformerBlock":
                module.compile(fullgraph=True, backend="eager")
        close(at(name, model, 10), expected)


@pytest.mark.slow
def test_another_operator_after_the_first_takes_effect(name):
    model = build(name)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    with bigain.compress(compiled, "todo(factor=2)"):
        at(name, compiled, 10)
    with bigain.compress(compiled, "todo(factor=4)"):
        found = at(name, compiled, 10)
        close(found, at(name, model, 10))
    with bigain.compress(compiled, "gated_merge(ratio=0.6)"):
        close(at(name, compiled, 10), at(name, model, 10))


# SDXL's depth on a narrow model: 70 blocks, of which 10 are compressed by default
DEEP = {"layers_per_block": 2, "transformer_layers_per_block": (1, 2, 10)}
# 18 blocks, of which 6 are compressed: several of each kind, in several stages
SHALLOW = {"layers_per_block": 1, "transformer_layers_per_block": (1, 2, 3)}
REGIONAL = [
    ("gated_merge(ratio=0.5)", {}, 2),
    ("gated_merge(ratio=0.5)", {"where": "downsample=(2, 4), module=('self', 'mlp')"}, 2),
    ("gated_merge(ratio=0.5)", {"where": "part='up'"}, 3),  # those before it come by without
    ("tome(ratio=0.5)", {"groups": 2}, 2),
    ("sito(ratio=0.5)", {"groups": "cfg"}, 2),
    (
        "tome(ratio=0.5, pattern='per_row')",
        {"where": "downsample=(2, 4)", "reuse": "stage"},
        4,
    ),  # the first of a stage plans
    ("kv_select(keep=0.4)", {}, 2),
]


@torch.no_grad()
def passes(model, inputs, kept=None):
    """Two passes; with `kept` the second takes the plans of the first, as the classes of a trial in two batches."""
    alike = (
        same_input(RowGroups(torch.tensor([0, 1]), 2, cache=kept, keys=torch.tensor([5, 6])))
        if kept is not None
        else None
    )
    with alike or nullcontext():
        return [call(model, inputs) for _ in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize(("operator", "options", "graphs"), REGIONAL)
def test_the_number_of_graphs_does_not_grow_with_the_blocks(operator, options, graphs):
    check_regional(operator, options, graphs)


@pytest.mark.slow
def test_the_depth_of_sdxl_takes_no_more_graphs():
    check_regional("gated_merge(ratio=0.5)", {}, 2, changes=DEEP)


@pytest.mark.slow
def test_one_plan_for_all_classes_is_no_graph_for_each_block():
    check_regional("tome(ratio=0.5)", {"groups": "input"}, 3, shared=True)  # planning, following, and without


def check_regional(operator, options, graphs, shared=False, changes=SHALLOW):
    model = BACKBONES["sdxl"].build(**changes)
    inputs = BACKBONES["sdxl"].inputs(size=(8, 8))
    dense = passes(model, inputs)[0]
    made = []

    def backend(graph, _):
        made.append(graph)
        return graph.forward

    with bigain.compress(model, operator, **options) as handle:
        expected = passes(model, inputs, {} if shared else None)
        handle.reset()
        model.compile_repeated_blocks(fullgraph=True, backend=backend)
        for found, eager in zip(passes(model, inputs, {} if shared else None), expected, strict=True):
            close(found, eager)
            assert not torch.allclose(found, dense, atol=1e-4)
        assert len(made) == graphs
    close(passes(model, inputs)[0], dense)
    assert len(made) == graphs + 2


# compressed in part, so that blocks without compression come by, too; weighted keys need every kind of hook
BESIDE_TEXT = [
    ("sd3", {"dual_attention_layers": ()}, (({"num_layers": 4}, (0, 1)), ({"num_layers": 7}, (0, 1, 2, 3, 4)))),
    (
        "flux",
        {},
        (
            ({"num_layers": 3, "num_single_layers": 3}, (0, 1, 3, 4)),
            ({"num_layers": 5, "num_single_layers": 5}, (0, 1, 2, 5, 6, 7)),
        ),
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "changes", "depths"), BESIDE_TEXT)
def test_the_number_of_graphs_does_not_grow_with_blocks_beside_text(name, changes, depths):
    shallow, deep = (graphs_of_blocks(name, changes | depth, index) for depth, index in depths)
    assert shallow == deep


def graphs_of_blocks(name, changes, index):
    """How many graphs the blocks take when each is compiled on its own, as `compile_repeated_blocks` does."""
    torch.compiler.reset()
    model, inputs, made = BACKBONES[name].build(**changes), BACKBONES[name].inputs(size=(8, 8)), []

    def backend(graph, _):
        made.append(graph)
        return graph.forward

    with bigain.compress(model, "gated_merge(ratio=0.5, weighted=True)", where=bigain.Where(index=index)) as handle:
        expected = passes(model, inputs)
        handle.reset()
        for part in ("transformer_blocks", "single_transformer_blocks"):
            for block in getattr(model, part, ()):  # SD 3 does not say which of its blocks are repeated
                block.compile(fullgraph=True, backend=backend)
        for found, eager in zip(passes(model, inputs), expected, strict=True):
            close(found, eager)
    return len(made)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flux", "qwen"])
@torch.no_grad()
def test_another_aspect_ratio_of_as_many_tokens_is_not_taken_for_the_first(name):
    """The shapes are the same, so that nothing but the positions tells them apart."""
    backbone, model = BACKBONES[name], build(name)
    wide, tall = (backbone.inputs(size=size) for size in ((8, 12), (12, 8)))
    with bigain.compress(model, "kv_downsample(factor=2)"):
        expected = [call(model, inputs) for inputs in (wide, tall)]
        assert not torch.allclose(*expected, atol=1e-3)
        compiled = torch.compile(model, fullgraph=True, backend="eager")
        close(call(compiled, wide), expected[0])
        if name == "flux":
            with pytest.raises(RuntimeError, match="img_ids of another shape than the model was compiled for"):
                call(compiled, tall)
            close(call(compiled, backbone.inputs(size=(8, 12))), expected[0])
        else:  # shapes are numbers, which Dynamo guards on
            close(call(compiled, tall), expected[1])
        close(call(model, tall), expected[1])


@pytest.mark.slow
@torch.no_grad()
def test_projections_that_an_adapter_wrapped_are_found_before_compiling():
    model, inputs = build("flux"), BACKBONES["flux"].inputs(size=(8, 8))
    with bigain.compress(model, "kv_downsample(factor=2)"):
        torch.manual_seed(5)
        model.add_adapter(LoraConfig(r=2, target_modules=["to_q", "to_k"], init_lora_weights=False))
        compiled = torch.compile(model, fullgraph=True, backend="eager")
        with pytest.raises(
            RuntimeError, match=r"was replaced after compress, .* run the model once before it is compiled"
        ):
            call(compiled, inputs)
        torch.compiler.reset()
        expected = call(model, inputs)
        close(call(torch.compile(model, fullgraph=True, backend="eager"), inputs), expected)
