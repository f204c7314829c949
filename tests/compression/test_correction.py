"""Group correction: the formula at one site, what it must give in closed cases, and what must not change it."""

import pytest
import torch

import bigain
from bigain import Compression, Where
from bigain.bench.flops import count_flops, group_flops
from bigain.classify.policies import Exhaustive
from bigain.compression.status import plan_flops
from bigain.models.rows import RowGroups, same_input
from bigain.operators.base import Call
from bigain.tokens.grid import Grid
from helpers.denoisers import CLASSES, tiny
from helpers.models import BACKBONES, EXAMPLES, call, run, traces

pytestmark = pytest.mark.slow

MERGE = "gated_merge(ratio=0.6)"
EVERYWHERE = {"sd": ("self", "cross", "mlp"), "dit": ("self", "mlp"), "pixart": ("self", "mlp")}


def close(a, b):
    torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-4)


def equal_rows(name, rows=3):
    inputs = BACKBONES[name].inputs(batch=1, t=torch.tensor([500]))

    def widen(part):
        return part.expand(rows, *part.shape[1:]) if isinstance(part, torch.Tensor) else part

    kwargs = {key: widen(value) for key, value in inputs.kwargs.items()}
    return inputs._replace(args=tuple(map(widen, inputs.args)), kwargs=kwargs)


def classes_of_a_trial(rows=4):
    """One noisy input under several texts, as the classes of a trial."""
    inputs = BACKBONES["sd"].inputs(batch=rows, t=torch.tensor([500] * rows))
    latents, t, text = inputs.args
    return inputs._replace(args=(latents[:1].expand_as(latents), t, text))


def together(rows, device="cpu", **more):
    return same_input(RowGroups(torch.zeros(rows, dtype=torch.int64, device=device), 1, **more))


@torch.no_grad()
def test_the_formula_at_one_site():
    """y_c = U F(M x_c) + F(m) - U F(M m), with plan, mean and attention computed by hand.

    The plan joins tokens that are alike in m and in F(m).
    """
    model, inputs = BACKBONES["dit"].build(), BACKBONES["dit"].inputs(batch=3, t=torch.tensor([500] * 3))
    module = model.transformer_blocks[0].attn1
    seen = []

    def note(module, args, y):
        seen.append((args[0], y))

    hook = module.register_forward_hook(note)
    call(model, inputs)
    hook.remove()
    x = seen[0][0]
    with bigain.compress(model, MERGE, where=Where(index=0), groups=3, correct=True):
        hook = module.register_forward_hook(note)  # after the operator's own
        call(model, inputs)
        hook.remove()
    mean = x.mean(0, keepdim=True)
    both = torch.cat([part / part.norm(dim=-1, keepdim=True) for part in (mean, module(mean))], -1)
    plan = bigain.parse(MERGE).plan(both, Call(Grid(8, 8)))
    compressed = [plan.unmerge(module(plan.queries(row[None]))) for row in x]
    expected = torch.cat(compressed) + module(mean) - plan.unmerge(module(plan.queries(mean)))
    close(seen[1][1], expected)


@pytest.mark.parametrize("operator", EXAMPLES.values(), ids=EXAMPLES)
def test_equal_rows_are_computed_dense_by_every_operator(operator):
    """Each row is the mean of its group, so that nothing of the error is left."""
    model, inputs = BACKBONES["sd"].build(), equal_rows("sd")
    with torch.no_grad():
        dense = call(model, inputs)
        with bigain.compress(model, operator, groups=3, correct=True):
            close(call(model, inputs), dense)
        with bigain.compress(model, operator, groups=3):
            assert not torch.allclose(call(model, inputs), dense, atol=1e-3)


@pytest.mark.parametrize("name", ["sd", "dit", "pixart"])
@torch.no_grad()
def test_all_kinds_of_sites(name):
    model, inputs = BACKBONES[name].build(), equal_rows(name)
    dense, before = call(model, inputs), traces(model)
    where = Where(module=EVERYWHERE[name])
    with bigain.compress(model, MERGE, where=where, groups=3, correct=True) as handle:
        close(call(model, inputs), dense)
        with handle.paused():
            assert torch.equal(call(model, inputs), dense)
    assert traces(model) == before
    assert torch.equal(call(model, inputs), dense)


@torch.no_grad()
def test_a_group_of_one_row_is_dense():
    model, inputs = BACKBONES["sd"].build(), BACKBONES["sd"].inputs(batch=2)
    rows = same_input(RowGroups(torch.tensor([0, 1]), 2))
    with (
        bigain.compress(model, MERGE, groups="input", correct=True),
        rows,
        pytest.warns(UserWarning, match="with groups of 1 rows; groups of 2 rows or more would pay"),
    ):
        found = call(model, inputs)
    close(found, call(model, inputs))


@pytest.mark.parametrize("operator", [MERGE, "kv_downsample(factor=2)", "tome(ratio=0.6, weighted=True)"])
@torch.no_grad()
def test_it_comes_nearer_to_the_differences_between_classes(operator):
    model, inputs = BACKBONES["sd"].build(), classes_of_a_trial()

    def differences():
        y = call(model, inputs)
        return y[1:] - y[:1]

    dense = differences()
    with bigain.compress(model, operator, groups="input"), together(4):
        shared = (differences() - dense).norm()
    with bigain.compress(model, operator, groups="input", correct=True), together(4):
        assert (differences() - dense).norm() < 0.7 * shared


@pytest.mark.parametrize("options", [{}, {"reuse": "stage"}, {"where": Where(module=("self", "mlp"))}], ids=str)
@torch.no_grad()
def test_rows_of_a_group_in_several_calls_share_it(options):
    model, inputs = BACKBONES["sd"].build(), classes_of_a_trial()
    planning = torch.tensor([True, True, False, False])

    def part(rows):
        return inputs._replace(args=tuple(value[rows] for value in inputs.args))

    with bigain.compress(model, MERGE, groups="input", correct=True, **options):
        with together(4, planning_rows=planning):
            whole = call(model, inputs)
        cache = {}
        with together(2, planning_rows=planning[:2], cache=cache):
            first = call(model, part(slice(0, 2)))
        with together(2, planning_rows=planning[2:], cache=cache):
            second = call(model, part(slice(2, 4)))
    close(torch.cat([first, second]), whole)


@pytest.mark.parametrize("family", ["unet", "dit"])
def test_the_batch_size_changes_no_error(family):
    denoiser = tiny(family)
    images = 2 * torch.rand(2, 1, 32, 32, generator=torch.Generator().manual_seed(0)) - 1
    with bigain.compress(denoiser, "tome(ratio=0.6)", groups="input", correct=True):
        found = [
            bigain.DiffusionClassifier(denoiser, CLASSES, Exhaustive(2), batch_size=size)(images) for size in (4, 64)
        ]
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(torch.tensor(a.errors), torch.tensor(b.errors), atol=1e-5, rtol=1e-4)


def test_corrected_cross_attention_gets_texts_not_numbers_of_prompts():
    """The mean of a group's texts is needed, which projected prompts do not have."""
    denoiser = tiny("unet")
    image = 2 * torch.rand(1, 1, 32, 32, generator=torch.Generator().manual_seed(0)) - 1
    found = []
    with bigain.compress(denoiser, MERGE, where=Where(module="cross"), groups="input", correct=True):
        for remember in (True, False):
            classifier = bigain.DiffusionClassifier(denoiser, CLASSES, Exhaustive(2), remember_prompts=remember)
            found.append(torch.tensor(classifier(image)[0].errors))
    assert torch.equal(*found)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@torch.no_grad()
def test_other_precisions(dtype):
    model = BACKBONES["dit"].build().to(dtype)
    dense = run(BACKBONES["dit"], model, batch=2, t=torch.tensor([500, 500]))
    with bigain.compress(model, MERGE, groups=2, correct=True):
        found = run(BACKBONES["dit"], model, batch=2, t=torch.tensor([500, 500]))
    assert found.dtype == dtype
    assert found.isfinite().all()
    assert (found - dense).norm() < dense.norm()


@pytest.mark.parametrize("name", ["sd", "dit"])
@torch.no_grad()
def test_one_graph(name):
    model, inputs = BACKBONES[name].build(), BACKBONES[name].inputs(batch=2)
    with bigain.compress(model, MERGE, groups=2, correct=True):
        expected = call(model, inputs)
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        close(call(compiled, inputs), expected)
        with torch._dynamo.config.patch(error_on_recompile=True):
            close(call(compiled, inputs), expected)


def test_gradients_flow():
    model, inputs = BACKBONES["dit"].build(), BACKBONES["dit"].inputs(batch=2)
    with bigain.compress(model, MERGE, groups=2, correct=True):
        call(model, inputs).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.transformer_blocks[0].parameters())


@pytest.mark.parametrize("rows", [2, 5])
def test_what_it_costs(rows):
    """One dense and one compressed row more a group, as counted on the meta device and as `status` tells."""
    model = BACKBONES["dit"].on_meta()
    compression = Compression(MERGE, groups="input", correct=True)
    dense, counted = count_flops(model), group_flops(model, [compression], rows)
    with bigain.compress(model, compression) as handle, torch.no_grad(), together(rows, "meta"):
        call(model, BACKBONES["dit"].inputs(batch=rows, device="meta"))
        status = handle.status()
    per_row = dense - status.flops_before + status.flops_after
    assert counted == pytest.approx(rows * per_row, rel=1e-3)
    plain = group_flops(model, [Compression(MERGE, groups="input")], rows)
    site = status.flops_before
    planning = sum(plan_flops(handle.operator, row.grid, 32) for row in status)  # doubled by the correction
    merged = plain - rows * (dense - site) - planning
    assert counted - plain == pytest.approx(site + merged / rows + planning, rel=1e-3)


BAD = [
    ({"groups": None}, ValueError, r"correct=True needs groups of two rows or more, got groups=None; take groups="),
    ({"groups": 1}, ValueError, r"correct=True needs groups of two rows or more, got groups=1"),
    ({"groups": 2, "correct": "yes"}, TypeError, r"correct must be True or False, got 'yes'"),
]


@pytest.mark.parametrize(("options", "error", "text"), BAD, ids=str)
def test_bad_options(options, error, text):
    with pytest.raises(error, match=text):
        bigain.compress(BACKBONES["sd"].build(), MERGE, **({"correct": True} | options))


def test_masked_text_has_no_mean():
    model = BACKBONES["pixart"].build()
    inputs = BACKBONES["pixart"].inputs(batch=2)
    inputs.kwargs["encoder_attention_mask"] = torch.ones(2, 7)
    with (
        bigain.compress(model, MERGE, where=Where(module="cross"), groups=2, correct=True),
        pytest.raises(ValueError, match="have no mean over a group; leave"),
    ):
        call(model, inputs)


def test_a_correction_that_does_not_pay_is_said():
    model, inputs = BACKBONES["dit"].build(), BACKBONES["dit"].inputs(batch=2)
    with (
        bigain.compress(model, "gated_merge(ratio=0.3)", groups=2, correct=True),
        pytest.warns(
            UserWarning, match=r"costs more than gated_merge\(ratio=0.3\) saves with groups of 2 rows; groups of \d+"
        ),
    ):
        call(model, inputs)
