"""What the classifier computes once instead of many times, and that it changes nothing."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

import bigain
from bigain.classify.classifier import DiffusionClassifier
from bigain.classify.decision import Decision
from bigain.classify.policies import Exhaustive
from bigain.denoisers.labelled import LabelledDenoiser
from bigain.denoisers.prompts import Lookup
from bigain.models.rows import RowGroups, same_input
from helpers.denoisers import CLASSES, tiny

pytestmark = pytest.mark.slow


@pytest.fixture
def unet() -> LabelledDenoiser:
    return tiny("unet")


@pytest.fixture
def images() -> Iterator[torch.Tensor]:
    return 2 * torch.rand(3, 1, 32, 32, generator=torch.Generator().manual_seed(0)) - 1


def same(found: list[Decision], expected: list[Decision], tolerance: float = 1e-5) -> None:
    for a, b in zip(found, expected, strict=True):
        assert a.label == b.label
        np.testing.assert_allclose(a.errors, b.errors, atol=tolerance)


@pytest.mark.parametrize("projections", ["plain", "fused", "unfused"])
def test_remembered_prompts_change_nothing(unet: LabelledDenoiser, images: torch.Tensor, projections: str) -> None:
    if projections != "plain":
        unet.network.fuse_qkv_projections()
    if projections == "unfused":
        unet.network.unfuse_qkv_projections()
    before = dict(unet.network.named_modules())
    plain = DiffusionClassifier(unet, CLASSES, Exhaustive(3), remember_prompts=False)(images)
    same(DiffusionClassifier(unet, CLASSES, Exhaustive(3))(images), plain)
    assert dict(unet.network.named_modules()) == before


def test_prompts_are_projected_once(unet: LabelledDenoiser, images: torch.Tensor) -> None:
    calls: list[int] = []
    project = unet.network.mid_block.attentions[0].transformer_blocks[0].attn2.to_k
    project.register_forward_hook(lambda module, args, output: calls.append(len(output)))
    classifier = DiffusionClassifier(unet, CLASSES, Exhaustive(4), batch_size=6)
    classifier(images)
    assert calls == [len(CLASSES)]


def test_weights_that_changed_between_calls_are_seen(unet: LabelledDenoiser, images: torch.Tensor) -> None:
    classifier = DiffusionClassifier(unet, CLASSES, Exhaustive(2))
    classifier(images)
    unet.network.mid_block.attentions[0].transformer_blocks[0].attn2.to_v.weight.data += 1
    same(classifier(images), DiffusionClassifier(unet, CLASSES, Exhaustive(2), remember_prompts=False)(images))


def test_a_failing_pass_leaves_the_projections(unet: LabelledDenoiser, images: torch.Tensor) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("stop")

    handle = unet.network.conv_out.register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="stop"):
        DiffusionClassifier(unet, CLASSES, Exhaustive(2))(images)
    handle.remove()
    assert not any(isinstance(module, Lookup) for module in unet.network.modules())


def test_somebody_elses_prompt_is_projected(unet: LabelledDenoiser) -> None:
    project = unet.network.mid_block.attentions[0].transformer_blocks[0].attn2.to_k
    text = torch.randn(2, 3, 32)
    assert torch.equal(Lookup(project, torch.zeros(6, 3, 64))(text), project(text))


@pytest.mark.parametrize("family", ["unet", "dit"])
@pytest.mark.parametrize("operator", [None, "gated_merge(ratio=0.5)", "kv_downsample(factor=2)"])
def test_batches_change_nothing(family: str, operator: str | None, images: torch.Tensor) -> None:
    denoiser, images = tiny(family), images[:2]
    if operator:
        bigain.compress(denoiser.network, operator)
    together = DiffusionClassifier(denoiser, CLASSES, Exhaustive(3), batch_size=40)(images)
    for batch_size in (1, 6, 17, 64):
        classifier = DiffusionClassifier(denoiser, CLASSES, Exhaustive(3), batch_size=batch_size)
        # rounding differs between batch sizes, and may decide between two matches that are equally good
        same(classifier(images.flip(0)), together[::-1], 1e-3 if operator and "merge" in operator else 1e-5)


def errors(denoiser: LabelledDenoiser, operator: str, images: torch.Tensor, groups: object) -> np.ndarray:
    with bigain.compress(denoiser.network, operator, groups=groups):
        decisions = DiffusionClassifier(denoiser, CLASSES, Exhaustive(2), batch_size=24)(images)
    return np.stack([decision.errors for decision in decisions])


@pytest.mark.parametrize("family", ["unet", "dit"])
def test_classes_of_a_trial_share_a_plan(family: str, images: torch.Tensor) -> None:
    denoiser = tiny(family)
    own = errors(denoiser, "gated_merge(ratio=0.5)", images, None)
    shared = errors(denoiser, "gated_merge(ratio=0.5)", images, "input")
    by_number = errors(denoiser, "gated_merge(ratio=0.5)", images, len(CLASSES))  # trials are consecutive rows
    np.testing.assert_allclose(shared, by_number, atol=1e-5)
    assert not np.allclose(shared, own, atol=1e-5)
    np.testing.assert_allclose(shared, own, rtol=0.1)


@pytest.mark.parametrize("family", ["unet", "dit"])
def test_classes_share_a_plan_also_where_a_trial_does_not_fit_a_batch(
    family: str, images: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bigain.classify.engine.MAX_PLANNING_ROWS", 3)
    denoiser = tiny(family)
    found = []
    with bigain.compress(denoiser, "gated_merge(ratio=0.5)", groups="input"):
        for batch_size in (24, 4, 3):  # of trials of six classes
            classifier = DiffusionClassifier(denoiser, CLASSES, Exhaustive(2), batch_size=batch_size)
            found.append(np.stack([decision.errors for decision in classifier(images)]))
    np.testing.assert_allclose(found[1], found[0], atol=1e-5)
    np.testing.assert_allclose(found[2], found[0], atol=1e-5)


def test_the_two_halves_of_guidance_share_a_plan() -> None:
    from bigain.generation import Sampling, generate

    denoiser = tiny("unet")
    sampling = Sampling(num_inference_steps=2, guidance_scale=3.0)
    with bigain.compress(denoiser.network, "gated_merge(ratio=0.5)", groups="cfg"):
        expected = generate(denoiser, ["a", "b"], sampling)
    with bigain.compress(denoiser.network, "gated_merge(ratio=0.5)", groups="input") as handle:
        torch.testing.assert_close(generate(denoiser, ["a", "b"], sampling), expected)
        assert {trace.sharing for hook in handle._hooks for trace in hook.traces.values()} == {2}


def test_nothing_is_said_without_guidance_and_a_pipeline_is_warned_once(recwarn: pytest.WarningsRecorder) -> None:
    from bigain.generation import Sampling, generate

    denoiser = tiny("unet")
    noisy = torch.zeros(2, 4, 16, 16), 5, torch.zeros(2, 3, 32)
    with bigain.compress(denoiser.network, "gated_merge(ratio=0.5)", groups="input"):
        generate(denoiser, ["a", "b"], Sampling(num_inference_steps=1, guidance_scale=1.0))
        denoiser.network(noisy[0][:1], 5, noisy[2][:1])  # alone, a row has nobody to share with
        assert not recwarn.list
        with pytest.warns(UserWarning, match='groups="cfg"'):
            denoiser.network(*noisy)
        recwarn.clear()
        denoiser.network(*noisy)
        assert not recwarn.list


def test_told_of_other_rows_than_there_are() -> None:
    denoiser = tiny("unet")
    bigain.compress(denoiser.network, "gated_merge(ratio=0.5)", groups="input")
    with (
        same_input(RowGroups(torch.zeros(3, dtype=torch.int64), 1)),
        pytest.raises(RuntimeError, match="declares 3 rows"),
    ):
        denoiser.network(torch.zeros(2, 4, 16, 16), 5, torch.zeros(2, 3, 32))
