"""The options of `compress`: plans reused and shared, several operators, threads, and bad input."""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch
from diffusers import AutoencoderKL, UNet2DModel
from peft import LoraConfig

import bigain
import bigain.tomesd as tomesd
from bigain import Where
from helpers.models import BACKBONES, EXAMPLES, call, run, traces

SD = BACKBONES["sd"]
MERGE = "gated_merge(ratio=0.6)"


@pytest.fixture(scope="module")
def unet():
    return SD.build()


@pytest.fixture
def planned(monkeypatch):
    """The grid heights that GatedMerge was asked to plan for, in order."""
    heights = []
    plan = bigain.GatedMerge.plan

    def counting(self, x, call):
        heights.append(call.grid.height)
        return plan(self, x, call)

    monkeypatch.setattr(bigain.GatedMerge, "plan", counting)
    return heights


def close(a, b):
    torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


# plans that are reused


def test_each_block_plans_once(unet, planned):
    with bigain.compress(unet, MERGE, where=Where(module=("self", "cross", "mlp"))):
        run(SD, unet)
    assert planned == [16] * 5


def test_each_stage_plans_once_with_reuse(unet, planned):
    with bigain.compress(unet, MERGE, reuse="stage", where=Where(downsample=(1, 2))) as handle:
        run(SD, unet)
        assert planned == [16, 8, 8, 8, 16]  # down 1, down 2, mid 2, up 2, up 1
        assert all(row.ran for row in handle.status())


def test_plans_are_never_reused_across_passes(unet, planned):
    with bigain.compress(unet, MERGE, reuse="stage"):
        first = run(SD, unet)
        other = run(SD, unet, seed=7)
        assert planned == [16] * 4
        assert torch.equal(run(SD, unet), first)
        assert not torch.equal(other, first)


def test_reuse_on_a_dit_plans_once(planned):
    backbone = BACKBONES["dit"]
    model = backbone.build()
    with bigain.compress(model, MERGE, reuse="stage"):
        run(backbone, model)
        assert len(planned) == 1
        run(backbone, model)
        assert len(planned) == 2


def test_reuse_changes_the_result_and_the_first_block_pays(unet):
    with bigain.compress(unet, MERGE) as handle:
        fresh, each = run(SD, unet), handle.status()
    with bigain.compress(unet, MERGE, reuse="stage") as handle:
        reused, first = run(SD, unet), handle.status()
    assert not torch.allclose(fresh, reused, atol=1e-6)
    cheaper = [a.flops_after < b.flops_after for a, b in zip(first, each, strict=True)]
    assert cheaper == [False, True, False, True, True]


# rows that share a plan


def identical(batch):
    """A batch of equal rows."""
    inputs = SD.inputs(batch=1, t=torch.tensor([500]))
    return inputs._replace(args=tuple(part.expand(batch, *part.shape[1:]) for part in inputs.args))


@pytest.mark.parametrize("groups", [1, 2, 4, "cfg"])
@pytest.mark.parametrize("operator", EXAMPLES.values(), ids=EXAMPLES)
@torch.no_grad()
def test_identical_rows_share_their_own_plan(unet, operator, groups):
    with bigain.compress(unet, operator):
        expected = call(unet, identical(4))
    with bigain.compress(unet, operator, groups=groups):
        close(call(unet, identical(4)), expected)


def plans_of(monkeypatch, unet, groups, batch):
    """Which rows of a batch got equal plans in the first block."""
    found = []
    queries = bigain.compression.attachment.expand_plan

    def keeping(plan, rows):
        found.append(queries(plan, rows))
        return found[-1]

    monkeypatch.setattr(bigain.compression.attachment, "expand_plan", keeping)
    with bigain.compress(unet, MERGE, groups=groups):
        run(SD, unet, batch=batch)
    group = found[0].group
    return [[torch.equal(a, b) for b in group] for a in group]


def test_consecutive_rows_share(monkeypatch, unet):
    same = plans_of(monkeypatch, unet, 2, 4)
    assert same == [[i // 2 == j // 2 for j in range(4)] for i in range(4)]


def test_halves_share(monkeypatch, unet):
    same = plans_of(monkeypatch, unet, "cfg", 4)
    assert same == [[i % 2 == j % 2 for j in range(4)] for i in range(4)]


def test_a_group_of_one_row_is_no_group(unet):
    with bigain.compress(unet, MERGE):
        expected = run(SD, unet)
    with bigain.compress(unet, MERGE, groups=1):
        assert torch.equal(run(SD, unet), expected)


def test_groups_do_not_mix_with_each_other(unet):
    with bigain.compress(unet, MERGE, groups=2), torch.no_grad():
        inputs = SD.inputs(batch=4)
        together = call(unet, inputs)
        for i in (0, 2):
            close(call(unet, inputs._replace(args=tuple(part[i : i + 2] for part in inputs.args))), together[i : i + 2])


def test_groups_keep_the_schedule_of_each_row(unet):
    schedule = "kv_downsample(factor=2, alpha=(0.8, 1.2))"
    with bigain.compress(unet, schedule):
        expected = run(SD, unet)
    with bigain.compress(unet, schedule, groups=2):
        assert torch.equal(run(SD, unet), expected)


@pytest.mark.parametrize(("groups", "batch"), [(2, 3), (4, 2), ("cfg", 3)])
def test_a_batch_that_groups_do_not_divide(unet, groups, batch):
    before, dense = traces(unet), run(SD, unet)
    handle = bigain.compress(unet, MERGE, groups=groups)
    with pytest.raises(ValueError, match=r"groups=.* needs a batch size divisible by \d, got \d"):
        run(SD, unet, batch=batch)
    handle.remove()
    assert traces(unet) == before
    assert torch.equal(run(SD, unet), dense)


# several operators on one model


def test_hybrid_of_merging_and_downsampling(unet):
    before, dense = traces(unet), run(SD, unet)
    merge = bigain.compress(unet, MERGE, where=Where(part="down"))
    only_merge = run(SD, unet)
    pool = bigain.compress(unet, "kv_downsample(factor=2)", where=Where(part="up"))
    both = run(SD, unet)
    assert [row.queries for row in merge.status()] == [103] * 2
    assert [(row.queries, row.keys) for row in pool.status()] == [(256, 64)] * 3
    assert not torch.allclose(both, only_merge, atol=1e-5)
    with pool.paused():
        assert torch.equal(run(SD, unet), only_merge)
    pool.remove()
    assert torch.equal(run(SD, unet), only_merge)
    assert traces(unet) != before
    merge.remove()
    assert torch.equal(run(SD, unet), dense)
    assert traces(unet) == before


def test_removing_the_first_keeps_the_second(unet):
    with bigain.compress(unet, "todo(factor=2)", where=Where(part="up")):
        expected = run(SD, unet)
    merge = bigain.compress(unet, MERGE, where=Where(part="down"))
    with bigain.compress(unet, "todo(factor=2)", where=Where(part="up")):
        merge.remove()
        assert torch.equal(run(SD, unet), expected)


def test_two_operators_of_one_block_do_not_share_plans(unet):
    with (
        bigain.compress(unet, MERGE),
        bigain.compress(unet, "block_merge(ratio=0.6)", where=Where(module="mlp")) as mlp,
    ):
        run(SD, unet)
        assert {row.queries for row in mlp.status()} == {256 - 153}
        with bigain.compress(unet, "tome(ratio=0.3)", where=Where(module="cross")) as cross:
            run(SD, unet)
            assert {row.queries for row in cross.status()} == {256 - 76}


def test_overlapping_sites_raise_and_name_the_operator(unet):
    with bigain.compress(unet, MERGE, where=Where(part="down")):
        attached = traces(unet)
        with pytest.raises(ValueError, match=r"down_blocks.0.attentions.0.*attn1: gated_merge\(ratio=0.6\)") as error:
            bigain.compress(unet, "todo(factor=2)")
        assert "up_blocks" not in str(error.value)
        assert traces(unet) == attached


def test_restore_removes_all_operators(unet):
    before = traces(unet)
    bigain.compress(unet, MERGE, where=Where(part="down"))
    bigain.compress(unet, "todo(factor=2)", where=Where(part="up"))
    bigain.restore(SimpleNamespace(unet=unet))
    assert traces(unet) == before


def test_drawing_operators_draw_anew_in_each_pass(unet):
    for operator in ("tome(ratio=0.6)", "sito(ratio=0.6, noise=5.0)"):
        with bigain.compress(unet, operator) as handle:
            first, second = run(SD, unet), run(SD, unet)
            assert not torch.equal(first, second)
            handle.reset()
            assert torch.equal(run(SD, unet), first)
            assert torch.equal(run(SD, unet), second)
    with bigain.compress(unet, 'tome(ratio=0.6, pattern="fixed")'):
        assert torch.equal(run(SD, unet), run(SD, unet))


def test_removing_within_a_pause_is_final(unet):
    before = traces(unet)
    handle = bigain.compress(unet, MERGE)
    with handle.paused():
        handle.remove()
    assert traces(unet) == before
    assert repr(handle).endswith("removed>")


@pytest.mark.parametrize("operator", ["tome(ratio=0.6)", "sito(ratio=0.6)"])
def test_attached_in_inference_mode_and_called_outside(operator):
    model = SD.build()
    with bigain.compress(model, operator):
        expected = run(SD, model)
    with torch.inference_mode():
        handle = bigain.compress(model, operator)
    assert torch.equal(run(SD, model), expected)
    handle.remove()


@pytest.mark.parametrize("operator", EXAMPLES.values(), ids=EXAMPLES)
def test_called_in_inference_mode_and_then_trained(operator):
    model = SD.build()
    with bigain.compress(model, operator) as handle:
        with torch.inference_mode():
            expected = call(model, SD.inputs())
        handle.reset()
        found = call(model, SD.inputs())
        found.sum().backward()
    assert torch.equal(found, expected)


def test_adapters_do_not_change_the_account_of_one_kind_only(unet):
    """Of all sites, the weights below an adapter are counted, or of none."""
    where = Where(module=("self", "cross", "mlp"))
    with bigain.compress(unet, MERGE, where=where) as handle:
        run(SD, unet)
        plain = handle.status()
    model = SD.build()
    layers = ["to_q", "to_k", "to_v", "to_out.0", "ff.net.0.proj", "ff.net.2"]
    model.add_adapter(LoraConfig(r=2, target_modules=layers))
    with bigain.compress(model, MERGE, where=where) as handle:
        run(SD, model)
        grown = [a.flops_before > b.flops_before for a, b in zip(handle.status(), plain, strict=True)]
    assert len(set(grown)) == 1


# threads


@pytest.mark.parametrize("operator", [spec for name, spec in EXAMPLES.items() if name not in ("tome", "sito")])
@pytest.mark.parametrize("name", ["sd", "dit"])
def test_two_threads_give_the_same_as_one(name, operator):
    backbone = BACKBONES[name]
    model = backbone.build()
    choices = [{"size": (16, 16), "seed": 1}, {"size": (24, 24), "seed": 2, "batch": 1}] * 3
    start = threading.Barrier(2)

    def work(chosen):
        start.wait()
        return [run(backbone, model, **choice) for choice in chosen]

    with bigain.compress(model, operator):
        expected = [run(backbone, model, **choice) for choice in choices]
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(work, [choices, choices[::-1]]))
    for a, b, c in zip(found[0], found[1][::-1], expected, strict=True):
        close(a, c)
        close(b, c)


@pytest.mark.parametrize("operator", ["tome(ratio=0.6)", "sito(ratio=0.6)"])
def test_threads_draw_each_pattern_once(unet, operator):
    with bigain.compress(unet, operator) as handle:
        serial = [run(SD, unet) for _ in range(4)]
        handle.reset()
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(lambda _: run(SD, unet), range(4)))
    nearest = [min(range(4), key=lambda j: float((one - serial[j]).abs().max())) for one in found]
    assert all(torch.allclose(one, serial[j], atol=1e-5) for one, j in zip(found, nearest, strict=True))


# nothing


def test_none_attaches_nothing_and_behaves_like_any_other(unet):
    before, dense = traces(unet), run(SD, unet)
    with bigain.compress(unet, "none", reuse="stage") as handle:
        assert traces(unet) == before
        assert torch.equal(run(SD, unet), dense)
        assert handle.status() == []
        assert repr(handle) == "<none on 0 sites of UNet2DConditionModel, on>"
        with handle.paused(), bigain.compress(unet, MERGE):
            assert not torch.equal(run(SD, unet), dense)
    assert bigain.spec(bigain.parse("none")) == "none"
    with pytest.raises(ValueError, match="reuse must be None or"):
        bigain.compress(unet, "none", reuse="block")


def test_a_handle_that_is_done_leaves_later_ones_alone(unet):
    first = bigain.compress(unet, MERGE, where="part='down'")
    with bigain.compress(unet, "todo(factor=2)", where="part='up'"):
        up = bigain.compress(unet, "none")  # attaches nothing, so it takes nothing off either
        with first.paused():
            first.remove()
            later = bigain.compress(unet, MERGE, where="part='down'")
        expected = run(SD, unet)
        first.remove()
        up.remove()
        assert torch.equal(run(SD, unet), expected)
        assert repr(later).endswith("on>")
        with later.paused():
            assert not torch.equal(run(SD, unet), expected)
    later.remove()


# bad input


BAD = [
    (
        "gated_merg(ratio=0.5)",
        {},
        ValueError,
        r"unknown operator 'gated_merg'. Did you mean 'gated_merge'\?.*kv_select",
    ),
    ("gated_merge(ratio=0.9)", {}, ValueError, r"ratio must be at most 0.75 for cells of 2x2"),
    ("gated_merge(ratio=1.0)", {}, ValueError, r"in \[0, 1\), got 1.0"),
    ("gated_merge(ratio=-0.1)", {}, ValueError, r"in \[0, 1\), got -0.1"),
    ("gated_merge(rate=0.1)", {}, ValueError, r"unknown gated_merge parameter 'rate'.*ratio, window"),
    ('gated_merge(ratio=0.5, scorer="laplace")', {}, ValueError, r"unknown scorer 'laplace'.*laplacian_l1"),
    ("gated_merge(ratio=", {}, ValueError, r"cannot read the operator"),
    (object(), {}, TypeError, r"must be an instance or a string, got .*\. Available: .*gated_merge"),
    (bigain.GatedMerge, {}, TypeError, r"such as GatedMerge\(…\), or a string, got the class GatedMerge"),
    (MERGE, {"where": Where(downsample=9)}, ValueError, r"no site at downsample 9; UNet2DConditionModel has 1, 2"),
    (MERGE, {"where": Where(tokens=100)}, ValueError, r"no site at tokens 100; UNet2DConditionModel has 64, 256"),
    (MERGE, {"where": Where(index=40)}, ValueError, r"no site at index 40; UNet2DConditionModel has 0..10"),
    (MERGE, {"where": Where(part="sideways")}, ValueError, r"no site at part sideways; .* has down, mid, up"),
    (MERGE, {"where": lambda site: False}, ValueError, r"matches no site of UNet2DConditionModel; it has:\n  down_bl"),
    (MERGE, {"where": Where(part="mid")}, ValueError, r"matches no site of UNet2DConditionModel; it has:\n  down_bl"),
    (MERGE, {"where": 'floor="down"'}, ValueError, r"unknown where argument 'floor'.*downsample, tokens, part"),
    (MERGE, {"where": 7}, TypeError, r"where must be a Where, a function of a Site or a string, got 7"),
    (MERGE, {"reuse": "block"}, ValueError, r'reuse must be None or "stage", got \'block\''),
    (MERGE, {"groups": 0}, ValueError, r"groups must be None, an int of at least 1"),
    (MERGE, {"groups": True}, ValueError, r"groups must be None, an int of at least 1"),
    (MERGE, {"groups": "thirds"}, ValueError, r"groups must be None.*got 'thirds'"),
    (
        "todo(factor=2)",
        {"where": Where(module="mlp")},
        ValueError,
        r"todo\(\) acts on the keys.*cannot act on .*\.ff",
    ),
    ("kv_select(keep=0.5)", {"where": Where(module="cross")}, ValueError, r"cannot act on .*attn2"),
    ("avg_pool(factor=2)", {"where": Where(module=("self", "mlp"))}, ValueError, r"cannot act on .*\.ff"),
]


@pytest.mark.parametrize(("operator", "options", "error", "text"), BAD, ids=[bad[3][:30] for bad in BAD])
def test_bad_input_leaves_the_model_as_it_was(unet, operator, options, error, text):
    before = traces(unet)
    with pytest.raises(error, match=f"(?s){text}"):
        bigain.compress(unet, operator, **options)
    assert traces(unet) == before


def test_unknown_kind_of_module():
    with pytest.raises(ValueError, match=r"unknown module 'attention'.*self, cross, mlp"):
        Where(module="attention")


def test_a_model_of_an_unknown_family():
    model = UNet2DModel(
        sample_size=8,
        block_out_channels=(32, 32),
        norm_num_groups=8,
        down_block_types=("DownBlock2D",) * 2,
        up_block_types=("UpBlock2D",) * 2,
    )
    before = traces(model)
    text = r"UNet2DModel \(diffusers' unet_2d\) is not supported yet; one file .*UNet2DConditionModel"
    with pytest.raises(TypeError, match=text):
        bigain.compress(model, MERGE)
    assert traces(model) == before


@pytest.mark.parametrize("given", [SimpleNamespace(vae=AutoencoderKL()), None, "model", 3])
def test_a_pipeline_without_a_denoiser(given):
    with pytest.raises(TypeError, match=r"must be a torch module, a denoiser from bigain.load, or a pipeline"):
        bigain.compress(given, MERGE)
    with pytest.raises(TypeError, match=r"must be a torch module, a denoiser from bigain.load, or a pipeline"):
        bigain.restore(given)


@pytest.mark.parametrize(
    ("operator", "text"),
    [
        ("todo(factor=20)", r"factor must be at most 16 on a grid of 16x16 tokens, got 20; use a smaller factor"),
        ("kv_downsample(factor=17)", r"factor must be at most 16 on a grid of 16x16 tokens, got 17"),
        ("gated_merge(ratio=0.9, window=20)", r"a grid of 16x16 tokens has no whole cell of 20x20"),
        ("tome(ratio=0.9, window=(1, 17))", r"no whole cell of 1x17"),
    ],
)
def test_what_the_grid_does_not_allow_raises_at_the_call(unet, operator, text):
    before, dense = traces(unet), run(SD, unet)
    handle = bigain.compress(unet, operator)
    with pytest.raises(ValueError, match=text):
        run(SD, unet)
    assert not any(row.ran for row in handle.status())
    with handle.paused():
        assert torch.equal(run(SD, unet), dense)
    handle.remove()
    assert traces(unet) == before
    assert torch.equal(run(SD, unet), dense)


def test_a_block_called_without_its_model(unet):
    block = unet.down_blocks[0].attentions[0].transformer_blocks[0]
    with bigain.compress(unet, MERGE), torch.no_grad():
        with pytest.raises(RuntimeError, match="was called without its model; call the model itself"):
            block(torch.randn(1, 256, 32), encoder_hidden_states=torch.randn(1, 7, 32))
        run(SD, unet)


def test_an_attention_mask_on_self_attention_is_refused(unet):
    inputs = SD.inputs()
    mask = torch.ones(2, 256)
    with (
        bigain.compress(unet, MERGE),
        torch.no_grad(),
        pytest.raises(ValueError, match="got an attention mask, which does not fit compressed tokens"),
    ):
        unet(*inputs.args, attention_mask=mask)


def test_the_calls_of_tomesd_do_what_they_say():
    unet = SD.build()
    dense = run(SD, unet)
    tomesd.apply_patch(unet, ratio=0.5, use_rand=False)
    patched = run(SD, unet)
    with pytest.raises(ValueError, match="already compressed"):
        bigain.compress(unet, "tome(0.5)")
    tomesd.apply_patch(unet, ratio=0.25, use_rand=False)  # in place of the first
    assert not torch.equal(run(SD, unet), patched)
    assert torch.equal(run(SD, tomesd.remove_patch(unet)), dense)


def test_tomesd_says_what_reaches_a_model_without_attention_at_full_resolution():
    unet = BACKBONES["sdxl"].build()
    with pytest.raises(ValueError, match="whose finest has downsample 2; use max_downsample=2"):
        tomesd.apply_patch(unet)
    tomesd.apply_patch(unet, max_downsample=2)
    tomesd.remove_patch(unet)
