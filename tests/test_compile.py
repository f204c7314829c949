"""torch.compile sees one graph, once, and never runs a graph of another state."""

import pytest
import torch

import bigain
from bigain.tokens.grid import Grid, Window
from bigain.tokens.match import MATCHES
from models import BACKBONES, EXAMPLES, call

UNET = {
    "sample_size": 8,
    "block_out_channels": (32,),
    "layers_per_block": 1,
    "down_block_types": ("CrossAttnDownBlock2D",),
    "up_block_types": ("UpBlock2D",),
    "mid_block_type": None,
    "attention_head_dim": 2,
}
DIT = {"sample_size": 8, "num_layers": 2}
CHANGES = {"sd": UNET, "dit": DIT}
SCHEDULE = "kv_downsample(factor=2, alpha=(0.8, 1.2))"


# inductor itself uses what torch calls deprecated
inductor = pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")


@pytest.fixture(autouse=True)
def fresh_graphs():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.fixture(params=["sd", "dit"])
def name(request):
    return request.param


def build(name):
    return BACKBONES[name].build(**CHANGES[name])


@torch.no_grad()
def at(name, model, t):
    """The output at a time step, for a batch of two 8x8 latents."""
    return call(model, BACKBONES[name].inputs(size=(8, 8), t=torch.tensor([t, 999 - t])))


def close(a, b):
    torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


@inductor
@pytest.mark.parametrize("operator", [*EXAMPLES.values(), SCHEDULE, "gated_merge(ratio=0.5, match='local')"])
def test_one_graph_equal_to_eager_for_all_time_steps(name, operator):
    model = build(name)
    with bigain.compress(model, operator) as handle:
        expected = [at(name, model, t) for t in (10, 500, 900)]
        handle.reset()
        compiled = torch.compile(model, fullgraph=True)
        found = [at(name, compiled, 10)]
        with torch._dynamo.config.patch(error_on_recompile=True):
            found += [at(name, compiled, t) for t in (500, 900)]
    for a, b in zip(found, expected, strict=True):
        close(a, b)


@inductor
@pytest.mark.parametrize("match", MATCHES)
def test_matching_compiles_where_there_are_several_blocks(match):
    grid, window = Grid(20, 26), Window(2, 2)
    x = torch.randn(2, grid.tokens, 8, generator=torch.Generator().manual_seed(0))
    place = torch.arange(window.cells(grid).tokens).remainder(4).expand(2, -1)
    expected = MATCHES[match](x, place, grid, window)
    found = torch.compile(MATCHES[match], fullgraph=True)(x, place, grid, window)
    for a, b in zip(found, expected, strict=True):
        close(a, b)


@pytest.mark.parametrize("operator", EXAMPLES.values(), ids=EXAMPLES)
def test_a_compiled_model_follows_the_handle(name, operator):
    model = build(name)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
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


def test_restoring_reaches_compiled_graphs(name):
    model = build(name)
    dense = at(name, model, 10)
    bigain.compress(model, "gated_merge(ratio=0.6)")
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    assert not torch.allclose(at(name, compiled, 10), dense, atol=1e-4)
    bigain.restore(compiled)
    close(at(name, compiled, 10), dense)


def test_compressing_a_model_compiled_in_place_takes_effect(name):
    model = build(name)
    dense = at(name, model, 10)
    model.compile(fullgraph=True, backend="eager")
    close(at(name, model, 10), dense)
    with bigain.compress(model, "gated_merge(ratio=0.6)"):
        assert not torch.allclose(at(name, model, 10), dense, atol=1e-4)
    close(at(name, model, 10), dense)


def test_a_second_operator_on_a_model_compiled_elsewhere_takes_effect(name):
    model = build(name)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    with bigain.compress(model, "todo(factor=2)"):
        one = at(name, compiled, 10)
        with bigain.compress(model, "gated_merge(ratio=0.6)", where='module="mlp"'):
            two = at(name, compiled, 10)
            close(two, at(name, model, 10))
            assert not torch.allclose(two, one, atol=1e-4)


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


def test_compiling_the_blocks_of_a_compressed_model(name):
    model = build(name)
    with bigain.compress(model, "gated_merge(ratio=0.6)"):
        expected = at(name, model, 10)
        for module in model.modules():
            if type(module).__name__ == "BasicTransformerBlock":
                module.compile(fullgraph=True, backend="eager")
        close(at(name, model, 10), expected)


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


@pytest.mark.parametrize(
    ("operator", "options"),
    [
        ("gated_merge(ratio=0.6)", {"reuse": "stage"}),
        ("gated_merge(ratio=0.6)", {"groups": 2}),
        ("kv_select(keep=0.4)", {"groups": "halves"}),
        ("gated_merge(ratio=0.6, weighted=True)", {}),
    ],
)
def test_options_are_one_graph_too(name, operator, options):
    model = build(name)
    with bigain.compress(model, operator, **options):
        expected = at(name, model, 10)
        close(at(name, torch.compile(model, fullgraph=True, backend="aot_eager"), 10), expected)


@inductor
def test_pausing_and_removing_with_inductor(name):
    model = build(name)
    dense = at(name, model, 10)
    compiled = torch.compile(model, fullgraph=True)
    close(at(name, compiled, 10), dense)
    handle = bigain.compress(compiled, "gated_merge(ratio=0.6)")
    assert not torch.allclose(at(name, compiled, 10), dense, atol=1e-3)
    with handle.paused():
        close(at(name, compiled, 10), dense)
    handle.remove()
    close(at(name, compiled, 10), dense)
