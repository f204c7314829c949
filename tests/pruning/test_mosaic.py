"""`bigain.prune` from calibration images to a pruned model."""

import numpy as np
import pytest
import torch
from PIL import Image

import bigain
from bigain.classify.classifier import DiffusionClassifier
from bigain.data.dataset import Dataset, Example
from bigain.denoisers.base import Denoiser
from bigain.denoisers.schedule import Schedule
from bigain.models.family import family_of
from bigain.pruning.calibration import examples, moments, noised, timesteps
from bigain.pruning.mosaic import removals
from bigain.pruning.parts import prunable
from bigain.pruning.trajectory import Stage, cut, scores
from helpers.denoisers import CLASSES, tiny

IMAGES = [np.random.default_rng(i).integers(0, 256, (28, 28), dtype=np.uint8) for i in range(8)]
LABELS = [CLASSES[i % 6] for i in range(8)]


@pytest.fixture(params=["dit", "unet"])
def denoiser(request: pytest.FixtureRequest) -> Denoiser:
    return tiny(request.param)


def errors(denoiser: Denoiser) -> list[np.ndarray]:
    classifier = DiffusionClassifier(denoiser, CLASSES, "exhaustive(3)", timesteps=(50, 400, 900))
    return [decision.errors for decision in classifier(IMAGES[:2])]


def test_one_call_prunes_and_removal_restores_every_bit(denoiser):
    before = errors(denoiser)
    with bigain.prune(denoiser, "mosaic(sparsity=0.3)", IMAGES, labels=LABELS) as handle:
        pruned = errors(denoiser)
        assert all((a != b).any() for a, b in zip(pruned, before, strict=True))
        assert handle.status().saved == pytest.approx(0.3, abs=0.03)
        assert "t 83-602" in str(handle.status())
    assert all((a == b).all() for a, b in zip(errors(denoiser), before, strict=True))


def test_no_sparsity_is_the_model_itself(denoiser):
    before = errors(denoiser)
    with bigain.prune(denoiser, "mosaic(sparsity=0)", IMAGES) as handle:
        assert all((a == b).all() for a, b in zip(errors(denoiser), before, strict=True))
        assert handle.status().saved == 0


def test_the_same_call_gives_the_same_bits():
    first, second = tiny("dit"), tiny("dit")
    with bigain.prune(first, "mosaic(sparsity=0.3)", IMAGES), bigain.prune(second, "mosaic(sparsity=0.3)", IMAGES):
        assert all((a == b).all() for a, b in zip(errors(first), errors(second), strict=True))


def test_the_middle_of_the_trajectory_keeps_most():
    with bigain.prune(tiny("dit"), "mosaic(sparsity=0.3)", IMAGES) as handle:
        after = handle.status().flops_after
    assert after[1] > max(after[0], after[2])


def test_moments_are_those_of_the_layers_inputs():
    """Gathered over batches, the sum over rows of the layer's own inputs in one pass."""
    denoiser = tiny("dit")
    denoiser.rows_at_once = lambda: 3  # type: ignore[method-assign]
    part = prunable(family_of(denoiser.network).sites(denoiser.network))[0]
    stages = cut(scores(denoiser.schedule, 0.1), 0.5)
    given = examples(denoiser, IMAGES, LABELS, seed=3)
    found = moments(denoiser, [part], stages, given)[2]
    noisy, t = noised(denoiser, given, 2, stages.stages[2])
    seen = []
    hook = part.site.module.to_out[0].register_forward_pre_hook(lambda layer, args: seen.append(args[0]))
    with torch.no_grad():
        denoiser.output(noisy.repeat(2, 1, 1, 1), t.repeat(2), given.condition)
    hook.remove()
    x = seen[0].flatten(0, 1).double()
    torch.testing.assert_close(found[part.site.name, "to_out.0"], x.T @ x, atol=1e-3, rtol=1e-4)


def test_labels_come_beside_the_empty_condition():
    given = examples(tiny("dit"), IMAGES, LABELS, seed=0)
    assert given.condition.values["class_labels"].tolist() == [i % 6 for i in range(8)] + [6] * 8
    assert examples(tiny("dit"), IMAGES, None, 0).condition.values["class_labels"].tolist() == [6] * 8


def test_noise_depends_on_seed_image_and_stage():
    denoiser = tiny("dit")
    stage = Stage(100, 500, 0.5)
    given, others = (examples(denoiser, IMAGES, None, seed) for seed in (0, 1))
    noisy, t = noised(denoiser, given, 1, stage)
    assert t.tolist() == [125, 175, 225, 275, 325, 375, 425, 475]
    turned = examples(denoiser, IMAGES[::-1], None, 0)
    noise = (noisy - denoiser.schedule.add_noise(given.latents, torch.zeros_like(noisy), t))[3]
    again, times = noised(denoiser, turned, 1, stage)
    other = (again - denoiser.schedule.add_noise(turned.latents, torch.zeros_like(again), times))[4]
    levels = denoiser.schedule.levels()[1]
    torch.testing.assert_close(noise / levels[275], other / levels[325])
    assert not torch.equal(noised(denoiser, others, 1, stage)[0], noisy)
    assert not torch.equal(noised(denoiser, given, 2, stage)[0], noisy)


def test_timesteps_stay_in_their_stage():
    assert timesteps(Stage(3, 5, 0.5), 4).tolist() == [3, 3, 4, 4]
    assert timesteps(Stage(999, 1000, 0.5), 4).tolist() == [999] * 4


def test_whole_heads_and_what_mlps_make_up_for():
    network = tiny("dit").network
    parts = prunable(family_of(network).sites(network))
    counts = removals(parts, 0.3, 0)
    assert {count for count, part in zip(counts, parts, strict=True) if part.site.kind == "self"} == {0}  # of two heads
    gone = sum(part.flops(0) * count / part.groups for count, part in zip(counts, parts, strict=True))
    assert gone / sum(part.flops(0) for part in parts) == pytest.approx(0.3, abs=0.01)
    assert {count for count, part in zip(removals(parts, 0.6, 0), parts, strict=True) if part.site.kind == "self"} == {
        1
    }


def test_calibration_takes_what_the_classifier_takes(tmp_path):
    Image.fromarray(IMAGES[0]).save(tmp_path / "a.png")
    kinds = [tmp_path / "a.png", Image.fromarray(IMAGES[1]), IMAGES[2]]
    data = Dataset("mine", "train", CLASSES, [Example(str(i), image, (0,)) for i, image in enumerate(kinds)])
    first, second = tiny("dit"), tiny("dit")
    with bigain.prune(first, "mosaic(sparsity=0.3)", kinds), bigain.prune(second, "mosaic(sparsity=0.3)", data):
        assert all((a == b).all() for a, b in zip(errors(first), errors(second), strict=True))


@pytest.mark.parametrize(
    ("method", "calibration", "options", "error", "text"),
    [
        ("mosaic(sparsity=30)", IMAGES, {}, ValueError, r"sparsity must be in \[0, 0.9\), got 30; did you mean 0.3"),
        ("mosaic(sparsity=0.3, share=2)", IMAGES, {}, ValueError, r"share must be in \[0, 1\), got 2"),
        ("mosaic(sparsity=0.3, damping=-1)", IMAGES, {}, ValueError, "damping must be a number of at least 0, got -1"),
        ("mozaic(0.3)", IMAGES, {}, ValueError, "unknown pruning method 'mozaic'. Did you mean 'mosaic'"),
        ("mosaic", IMAGES, {}, ValueError, "mosaic takes sparsity, share=0.5"),
        (0.3, IMAGES, {}, TypeError, r'method must be a string such as "mosaic\(sparsity=0.3\)", got 0.3'),
        ("mosaic(sparsity=0.3)", None, {}, TypeError, "calibration must be images .* or a dataset"),
        ("mosaic(sparsity=0.3)", "photos", {}, TypeError, "calibration must be images .* got 'photos'"),
        ("mosaic(sparsity=0.3)", [], {}, ValueError, "calibration must have at least one image, better 64, got none"),
        ("mosaic(sparsity=0.3)", [3], {}, TypeError, "an image must be a path"),
        (
            "mosaic(sparsity=0.3)",
            IMAGES,
            {"labels": LABELS[:2]},
            ValueError,
            "labels must have one element per image",
        ),
        ("mosaic(sparsity=0.3)", IMAGES, {"labels": ["z"] * 8}, ValueError, "unknown class 'z'"),
        ("mosaic(sparsity=0.3)", IMAGES, {"seed": 1.5}, ValueError, "seed must be an int"),
    ],
)
def test_mistakes_in_words(method, calibration, options, error, text):
    with pytest.raises(error, match=text):
        bigain.prune(tiny("dit"), method, calibration, **options)


def test_a_network_alone_has_no_schedule():
    with pytest.raises(TypeError, match=r"denoiser must come from bigain.load or be a diffusers pipeline"):
        bigain.prune(tiny("dit").network, "mosaic(sparsity=0.3)", IMAGES)


def test_a_flow_has_stages():
    assert len(cut(scores(Schedule("flow", prediction_type="flow"), 0.0), 0.5).stages) == 2
