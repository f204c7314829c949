"""torch.export: compressed models keep a dynamic batch, and run where their own forward was replaced by the result."""

import pytest
import torch

import bigain
from helpers.models import BACKBONES, EXAMPLES, call
from test_compile import CHANGES, TWO_BLOCKS

OPTIONS = {
    **{name: (spec, {}) for name, spec in EXAMPLES.items()},
    "kv_downsample": ("kv_downsample(factor=2, alpha=(0.8, 1.2))", {}),  # a number is what todo and avg_pool have
    "local": ("gated_merge(ratio=0.5, match='local', weighted=True)", {}),
    "reuse": ("gated_merge(ratio=0.5, anchor='row_order')", {"reuse": "stage"}),
    "groups": ("gated_merge(ratio=0.5)", {"groups": 2}),
    "cfg": ("tome(ratio=0.5, pattern='per_row')", {"groups": "cfg"}),
}

# torch's own tracer warns of what diffusers asks its configs
quiet = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")


class Plain(torch.nn.Module):
    """A model whose arguments are tensors only."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *args):
        return self.model(*args, return_dict=False)[0]


def inputs(name, batch, seed=0):
    return BACKBONES[name].inputs(batch=batch, size=(8, 8), seed=seed)


def exported(name, model, multiple=1):
    """The program of a model for any number of rows."""
    found = inputs(name, 4)
    args = (*found.args, *found.kwargs.values())
    rows = {0: multiple * torch.export.Dim("rows", max=16)}
    return torch.export.export(Plain(model), args, dynamic_shapes=((rows,) * len(args),))


@quiet
@pytest.mark.slow
@pytest.mark.parametrize("option", OPTIONS)
def test_the_batch_stays_dynamic(option):
    operator, options = OPTIONS[option]
    model = BACKBONES["sd"].build(**CHANGES["sd"] | (TWO_BLOCKS["sd"] if "reuse" in options else {}))
    with torch.no_grad(), bigain.compress(model, operator, **options) as handle:
        program = exported("sd", model, 2 if "groups" in options else 1).module()
        for batch in (4, 6):
            found = inputs("sd", batch, seed=3)
            handle.reset()
            expected = call(model, found)
            handle.reset()
            torch.testing.assert_close(program(*found.args), expected, atol=1e-5, rtol=1e-5)


@quiet
@pytest.mark.parametrize("name", ["sd", "dit", "sd3"])
def test_a_forward_replaced_by_the_exported_program(name):
    model = BACKBONES[name].build(**CHANGES[name])
    found = inputs(name, 4)
    args = (*found.args, *found.kwargs.values())
    with torch.no_grad(), bigain.compress(model, "gated_merge(ratio=0.5)") as handle:
        expected = call(model, found)
        program = exported(name, model).module()
        model.forward = lambda *args: program(*args)
        torch.testing.assert_close(model(*args), expected)
        del model.forward
        handle.remove()
        assert not torch.allclose(call(model, found), expected, atol=1e-4)
