"""Caches for generation: what a step takes from an earlier one, when a run begins, and how they come off."""

import re

import pytest
import torch
from diffusers import FirstBlockCacheConfig

import bigain
from bigain.caching import cache_spec, parse_cache
from bigain.models.caches import cache_of
from bigain.models.kept import deep_blocks
from helpers.models import BACKBONES, call, traces

TIMES = (900, 700, 500, 300)
MERGE = "gated_merge(ratio=0.6)"


@torch.no_grad()
def loop(name, model, times=TIMES, **choice):
    return [call(model, BACKBONES[name].inputs(t=torch.tensor([t, t]), **choice)) for t in times]


def same(found, expected):
    return [torch.equal(a, b) for a, b in zip(found, expected, strict=True)]


class Replayed:
    """The slow version: everything is computed, then outputs are replaced by those of the last computed step."""

    def __init__(self, blocks, k, added):
        self.blocks, self.k, self.added, self.step, self.kept = blocks, k, added, 0, {}

    def __enter__(self):
        self.hooks = [block.register_forward_hook(self.after, with_kwargs=True) for block in self.blocks]
        return self

    def __exit__(self, *error):
        for hook in self.hooks:
            hook.remove()

    def after(self, block, args, kwargs, output):
        parts = output if isinstance(output, tuple) else (output,)
        if not self.added:
            inputs = ()
        elif len(parts) == 1:
            inputs = (args[0] if args else kwargs["hidden_states"],)
        else:
            inputs = (kwargs["encoder_hidden_states"], kwargs["hidden_states"])
        if self.step % self.k == 0:
            self.kept[block] = tuple(a - b for a, b in zip(parts, inputs, strict=True)) if self.added else output
            return None
        if not self.added:
            return self.kept[block]
        found = tuple(a + b for a, b in zip(self.kept[block], inputs, strict=True))
        return found if isinstance(output, tuple) else found[0]


@torch.no_grad()
def replayed(name, model, k, depth):
    found = []
    blocks = deep_blocks(model, depth, "every")
    with Replayed(blocks, k, added=name not in ("sd", "sdxl")) as replay:
        for step, t in enumerate(TIMES):
            replay.step = step
            found.append(call(model, BACKBONES[name].inputs(t=torch.tensor([t, t]))))
    return found


@pytest.mark.parametrize(
    ("name", "k", "depth"),
    [("sd", 2, None), ("sdxl", 3, 1), ("dit", 2, None), ("dit", 3, 1), ("pixart", 2, 2), ("flux", 2, None),
     ("qwen", 2, None)],
)  # fmt: skip
def test_every_gives_what_a_replayed_run_gives(name, k, depth):
    model = BACKBONES[name].build(**({"num_layers": 4} if name in ("flux", "qwen") else {}))
    dense, before = loop(name, model), traces(model)
    expected = replayed(name, model, k, depth)
    with bigain.cache(model, bigain.Every(k, depth)) as handle:
        found = loop(name, model)
        assert (handle.computed, handle.reused) == {2: (2, 2), 3: (2, 2)}[k]
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
    assert same(found, dense)[0]
    assert not same(found, dense)[1]
    assert all(same(loop(name, model), dense))
    assert traces(model) == before
    assert not any(vars(module).keys() & {"forward", "_diffusers_hook"} for module in model.modules())


@pytest.mark.parametrize("name", ["sd", "dit"])
def test_a_run_begins_where_the_timestep_does_not_fall(name):
    model = BACKBONES[name].build()
    with bigain.cache(model, "every(k=9)") as handle:
        first = loop(name, model)
        assert all(same(loop(name, model), first))
        assert (handle.computed, handle.reused) == (2, 6)
        other = loop(name, model, seed=5)
        assert not any(same(other, first))
        handle.reset()
        one = loop(name, model, times=(500, 500))
        assert torch.equal(*one)
        assert (handle.computed, handle.reused) == (2, 0)
        with pytest.raises(ValueError, match=r"every\(k=9\) needs one timestep for all rows, got 10 to 900"):
            call(model, BACKBONES[name].inputs(t=torch.tensor([900, 10])))


def test_latents_of_another_shape_are_another_run():
    model = BACKBONES["sd"].build()
    small = loop("sd", model, times=(500,), size=(8, 8))
    with bigain.cache(model, "every(k=9)"):
        loop("sd", model, times=(900,))
        assert all(same(loop("sd", model, times=(500,), size=(8, 8)), small))


@pytest.mark.parametrize("name", ["dit", "pixart", "flux"])
def test_first_block_is_the_cache_of_diffusers(name):
    """With a threshold that always fits, all but the first block add what they added in the first step."""
    model = BACKBONES[name].build()
    dense, before = loop(name, model), traces(model)
    with bigain.cache(model, "first_block(threshold=1e-9)") as handle:
        assert all(same(loop(name, model), dense))
        assert (handle.computed, handle.reused) == (4, 0)
    with bigain.cache(model, "first_block(threshold=1e9)") as handle:
        found = loop(name, model)
        assert (handle.computed, handle.reused) == (1, 3)
        assert all(same(loop(name, model), found))
        assert (handle.computed, handle.reused) == (2, 6)
    assert same(found, dense) == [True, False, False, False]
    if name == "flux":
        model.enable_cache(FirstBlockCacheConfig(1e9))
        with torch.no_grad(), model.cache_context("cond"):
            theirs = [call(model, BACKBONES[name].inputs(t=torch.tensor([t, t]))) for t in TIMES]
        model.disable_cache()
        assert all(same(found, theirs))
    assert all(same(loop(name, model), dense))
    assert {key: value[1] for key, value in traces(model).items()} == {key: value[1] for key, value in before.items()}


def test_conditions_that_a_pipeline_names_have_runs_of_their_own():
    """Two calls a step, as with true guidance: each reuses its own outputs."""
    model = BACKBONES["qwen"].build(num_layers=4)
    steps = [
        (name, BACKBONES["qwen"].inputs(t=torch.tensor([t, t]), seed=seed))
        for t in TIMES
        for name, seed in (("cond", 1), ("uncond", 2))
    ]
    with bigain.cache(model, "every(k=2)") as handle, torch.no_grad():
        found = []
        for name, inputs in steps:
            with model.cache_context(name):
                found.append(call(model, inputs))
        assert (handle.computed, handle.reused) == (4, 4)
        handle.reset()
        for number in range(2):
            alone = [call(model, inputs) for _, inputs in steps[number::2]]
            assert all(same(alone, found[number::2]))


@pytest.mark.parametrize(("name", "method"), [("sd", "every(k=2)"), ("dit", "every(k=2)"), ("dit", "first_block(1e9)")])
def test_beside_compression_in_either_order(name, method):
    model = BACKBONES[name].build()
    dense, before = loop(name, model), traces(model)
    with bigain.cache(model, method):
        cached = loop(name, model)
        with bigain.compress(model, MERGE):
            first = loop(name, model)
        assert all(same(loop(name, model), cached))
    with bigain.compress(model, MERGE):
        merged = loop(name, model)
        with bigain.cache(model, method):
            second = loop(name, model)
        assert all(same(loop(name, model), merged))
    assert all(same(first, second))
    assert not any(same(first, cached))
    assert all(same(loop(name, model), dense))
    assert traces(model) == before


def test_generated_images_do_not_depend_on_earlier_ones():
    denoiser = bigain.load("fashion-unet")
    sampling = bigain.Sampling(num_inference_steps=4, guidance_scale=1.0)
    dense = bigain.generate(denoiser, [0, 1], sampling)
    with bigain.cache(denoiser, "every(k=2)") as handle:
        found = bigain.generate(denoiser, [0, 1], sampling)
        assert (handle.computed, handle.reused) == (2, 2)
        assert torch.equal(bigain.generate(denoiser, [0, 1], sampling), found)
        one_step = bigain.Sampling(num_inference_steps=1)
        bigain.generate(denoiser, [0], one_step)
        bigain.generate(denoiser, [1], one_step)
        assert handle.reused == 4
    assert not torch.equal(found, dense)
    assert torch.equal(bigain.generate(denoiser, [0, 1], sampling), dense)


def test_classifiers_refuse_caches():
    denoiser = bigain.load("fashion-dit")
    image = torch.zeros(1, 32, 32)
    classifier = bigain.DiffusionClassifier(denoiser, denoiser.classes, "stages(trials=(1,), keep=(1,))")
    text = "every(k=3) reuses outputs of earlier sampler steps, which the trials of a classifier do not have; remove it"
    with bigain.cache(denoiser, "every(k=3)"), pytest.raises(ValueError, match=re.escape(text)):
        classifier([image])
    assert cache_of(denoiser) is None
    assert len(classifier([image])) == 1


def test_what_diffusers_keeps_is_refused_too():
    model = BACKBONES["flux"].build()
    model.enable_cache(FirstBlockCacheConfig(0.1))
    assert cache_of(model) == "FirstBlockCacheConfig"
    with pytest.raises(ValueError, match=r"has a cache already, FirstBlockCacheConfig; call disable_cache\(\) first"):
        bigain.cache(model, "every(k=2)")
    model.disable_cache()
    assert cache_of(model) is None


@pytest.mark.parametrize(
    ("name", "method", "text"),
    [
        ("sd", "every(k=1)", "k must be an int of at least 2, got 1; 1 would be no cache"),
        ("sd", "every(k=2, depth=0)", "depth must be an int of at least 1, got 0"),
        ("sd", "every(k=2, depth=9)", "every(k=2, depth=9): depth must be from 1 to 1, got 9; UNet2DConditionModel has "
         "2 levels, of which the finest is kept"),
        ("dit", "every(k=2, depth=9)", "blocks, of which the first and the last are computed"),
        ("sd", "evry(k=2)", "unknown cache 'evry'. Did you mean 'every'? Available: every, first_block"),
        ("sd", "every()", "every takes k, depth=None: missing a required argument: 'k'"),
        ("dit", "first_block(threshold=0)", "threshold must be a number above 0, got 0"),
        ("sd", "first_block(0.1)", "first_block(threshold=0.1) cannot act on UNet2DConditionModel: diffusers keeps no "
         "outputs of its blocks of a U-Net"),
        ("aura", "every(k=2)", "every(k=2) cannot act on AuraFlowTransformer2DModel: diffusers keeps no outputs of"),
    ],
)  # fmt: skip
def test_errors(name, method, text):
    model = BACKBONES[name].build()
    before = traces(model)
    with pytest.raises(ValueError, match=re.escape(text)):
        bigain.cache(model, method)
    assert traces(model) == before


def test_a_second_cache_and_a_removed_handle():
    model = BACKBONES["dit"].build()
    handle = bigain.cache(model, "every(k=2)")
    with pytest.raises(
        ValueError, match=r"DiTTransformer2DModel has a cache already, every\(k=2\); remove that handle"
    ):
        bigain.cache(model, "every(k=3)")
    assert repr(handle) == "<every(k=2) on DiTTransformer2DModel, 0 passes computed, 0 reused>"
    handle.remove()
    handle.remove()
    assert repr(handle).endswith("removed>")
    with pytest.raises(RuntimeError, match="this handle was removed; call cache again"), handle:
        pass
    with pytest.raises(TypeError, match="cache must be a string such as 'every"):
        bigain.cache(model, 3)


@pytest.mark.parametrize("text", ["every(k=2)", "every(k=3, depth=1)", "first_block(threshold=0.2)", "first_block()"])
def test_specs(text):
    assert cache_spec(parse_cache(text)) == text
