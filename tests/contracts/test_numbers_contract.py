"""Precision, batches, timesteps and grids."""

import pytest
import torch

import bigain
from helpers.making import FOR_ALL_ROWS
from helpers.models import BACKBONES, EXAMPLES, call, distance, run
from helpers.pairs import KINDS, TAKES_KEYS, pairs_of

pytestmark = pytest.mark.slow

SCHEDULE = "kv_downsample(factor=2, alpha=(0.8, 1.2))"


def row(inputs, i):
    """One row of a batch of inputs."""
    args = tuple(part[i : i + 1] if isinstance(part, torch.Tensor) else part for part in inputs.args)
    own = {name: one_row(part, i) for name, part in inputs.kwargs.items() if name not in FOR_ALL_ROWS}
    kwargs = inputs.kwargs | own
    return inputs._replace(args=args, kwargs=kwargs)


def one_row(part, i):
    return {name: value[i : i + 1] for name, value in part.items()} if isinstance(part, dict) else part[i : i + 1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_close(backbone, operator, dtype):
    model = backbone.build()
    with bigain.compress(model, operator):
        full = run(backbone, model)
    model = model.to(dtype)
    with bigain.compress(model, operator):
        half = run(backbone, model)
    assert half.dtype == dtype
    assert torch.isfinite(half).all()
    assert distance(half, full) < {torch.float16: 0.01, torch.bfloat16: 0.04}[dtype]


def test_double_precision_is_close(backbone, operator):
    assert_double_is_close(backbone, operator)


@pytest.mark.parametrize("options", [{"groups": 2}, {"reuse": "stage"}], ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["sd", "dit"])
def test_double_precision_of_shared_and_kept_plans(name, kind, options):
    assert_double_is_close(BACKBONES[name], EXAMPLES[kind], **options)


def assert_double_is_close(backbone, operator, **options):
    single, double = backbone.build(), backbone.build().double()
    with bigain.compress(single, operator, **options), bigain.compress(double, operator, **options):
        found, wanted = run(backbone, single), run(backbone, double)
    assert wanted.dtype == torch.float64
    assert distance(found, wanted) < 1e-5


def test_rows_of_a_batch_are_independent(backbone, model, operator):
    inputs = backbone.inputs(batch=3)
    with bigain.compress(model, operator) as handle, torch.no_grad():
        together = call(model, inputs)
        for i in range(3):
            handle.reset()
            torch.testing.assert_close(call(model, row(inputs, i)), together[i : i + 1], atol=1e-5, rtol=1e-4)


def test_mixed_time_steps_of_a_schedule(backbone, model):
    mixed = torch.tensor([10, 900])
    inputs = backbone.inputs(batch=2, t=mixed)
    with bigain.compress(model, SCHEDULE, where=TAKES_KEYS.get(backbone.name)), torch.no_grad():
        together = call(model, inputs)
        for i in range(2):
            torch.testing.assert_close(call(model, row(inputs, i)), together[i : i + 1], atol=1e-5, rtol=1e-4)
    with (
        bigain.compress(model, "kv_downsample(factor=2, alpha=1.0)", where=TAKES_KEYS.get(backbone.name)),
        torch.no_grad(),
    ):
        assert not torch.allclose(call(model, inputs), together, atol=1e-5)


@pytest.mark.parametrize("t", [0, 300, 999])
def test_a_schedule_is_its_value_at_t(backbone, model, t):
    alpha = 0.8 * t / 999 + 1.2 * (1 - t / 999)
    inputs = backbone.inputs(batch=2, t=torch.tensor([t, t]))
    with bigain.compress(model, SCHEDULE, where=TAKES_KEYS.get(backbone.name)), torch.no_grad():
        scheduled = call(model, inputs)
    with bigain.compress(model, bigain.KVDownsample(2, alpha), where=TAKES_KEYS.get(backbone.name)), torch.no_grad():
        torch.testing.assert_close(call(model, inputs), scheduled, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["sd", "sdxl", "controlnet"])
@pytest.mark.parametrize("t", [700, 700.0, torch.tensor(700), torch.tensor([700])], ids=repr)
def test_one_time_step_for_all_rows(name, t):
    backbone = BACKBONES[name]
    model = backbone.build()
    with bigain.compress(model, SCHEDULE, where=TAKES_KEYS.get(backbone.name)):
        each = run(backbone, model, t=torch.tensor([700, 700]))
        torch.testing.assert_close(run(backbone, model, t=t), each, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("size", [(24, 40), (33, 47)], ids=str)
@pytest.mark.parametrize(("name", "spec"), pairs_of("sd", "pixart"))
def test_grids_of_all_shapes(name, spec, size):
    assert_grid(name, spec, size)


@pytest.mark.parametrize(("name", "spec"), [("sd", "gated_merge(ratio=0.6)"), ("pixart", "kv_downsample(factor=2)")])
def test_latents_of_512_pixels(name, spec):
    assert_grid(name, spec, (64, 64))


@pytest.mark.parametrize("name", ["sdxl", "controlnet"])
@pytest.mark.parametrize("odd", ["gated_merge(ratio=0.6)", "block_merge(ratio=0.6)", "kv_downsample(factor=2)"])
def test_odd_grids(name, odd):
    assert_grid(name, odd, (33, 47))


JOINT_GRIDS = [
    ("sd3", "gated_merge(ratio=0.6)", (16, 24)),
    ("flux", "kv_downsample(factor=2)", (12, 20)),
    ("flux", "gated_merge(ratio=0.6)", (18, 22)),
    ("qwen", "tome(ratio=0.6)", (18, 10)),
    ("aura", "kv_downsample(factor=2)", (18, 22)),
    ("hunyuan", "kv_downsample(factor=2)", (18, 26)),
]


@pytest.mark.parametrize(("name", "spec", "size"), JOINT_GRIDS)
def test_grids_beside_text(name, spec, size):
    assert_grid(name, spec, size)


def assert_grid(name, operator, size):
    backbone = BACKBONES[name]
    model = backbone.build()
    dense = run(backbone, model, batch=1, size=size)
    with bigain.compress(model, operator) as handle:
        compressed = run(backbone, model, batch=1, size=size)
        status = handle.status()
    side = 1 if name in ("sd", "controlnet") else 2
    rounded = [-(-n // side) if name == "sdxl" else n // side for n in size]
    assert compressed.shape == dense.shape
    assert not torch.allclose(compressed, dense, atol=1e-5)
    assert all(row.ran and tuple(row.grid) == tuple(rounded) for row in status)
    assert torch.equal(run(backbone, model, batch=1, size=size), dense)


def test_larger_square_latents(backbone, model):
    dense = run(backbone, model, batch=1, size=(32, 32))
    with bigain.compress(model, "gated_merge(ratio=0.6)") as handle:
        assert not torch.allclose(run(backbone, model, batch=1, size=(32, 32)), dense, atol=1e-5)
        before = [row.tokens for row in handle.status()]
        run(backbone, model, batch=1, size=(16, 16))
        assert [row.tokens * 4 for row in handle.status()] == before


def test_merged_sizes_weigh_the_keys(backbone, model):
    for merge in ("gated_merge", "block_merge", "tome", "sito"):
        with bigain.compress(model, f"{merge}(ratio=0.6)", where=TAKES_KEYS.get(backbone.name)):
            plain = run(backbone, model)
        with bigain.compress(model, f"{merge}(ratio=0.6, weighted=True)", where=TAKES_KEYS.get(backbone.name)):
            weighted = run(backbone, model)
        assert torch.isfinite(weighted).all()
        assert not torch.allclose(plain, weighted, atol=1e-6)
