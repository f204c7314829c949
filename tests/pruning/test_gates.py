"""Gates: thresholds, skipped sites against a slow reference, classification in the order of falling timesteps."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bigain
from bigain.classify.classifier import DiffusionClassifier
from bigain.generation import Sampling, generate
from bigain.pruning import DipGo, Gated, GateScores, SequentialClassifier, prune
from bigain.pruning.training import GateTrainer
from helpers.denoisers import CLASSES, tiny
from helpers.models import BACKBONES, run, traces
from helpers.pruning import scores_of

STEPS = (900.0, 600.0, 300.0, 100.0)
IMAGES = [np.random.default_rng(i).integers(0, 256, (28, 28), dtype=np.uint8) for i in range(5)]


def gated(network: Any, target: float, steps: tuple[float, ...] = STEPS) -> Gated:
    scores = scores_of(network, steps)
    return Gated(DipGo(target), scores, scores.open_gates(target), 7)


SCORES = GateScores("M", (9, 5, 1), ("a", "b"), (1, 3), ((0, 0), (0.9, 0.2), (0.1, 0.8)))


@pytest.mark.parametrize(
    ("target", "closed"),
    [
        (0.0, []),
        (0.05, [(2, 0)]),  # 1 of 12 FLOPs
        (0.1, [(2, 0), (1, 1)]),
        (0.4, [(2, 0), (1, 1), (2, 1)]),
        (0.66, [(2, 0), (1, 1), (2, 1), (1, 0)]),
    ],
)
def test_gates_close_by_threshold_until_the_target(target, closed):
    gates = SCORES.open_gates(target)
    assert sorted((s, i) for s in range(3) for i in range(2) if not gates[s][i]) == sorted(closed)


def test_the_first_step_cannot_be_skipped():
    with pytest.raises(ValueError, match=r"target must be at most 0\.667 with 3 steps, got 0\.7"):
        SCORES.open_gates(0.7)


def test_scores_are_a_file(tmp_path: Path):
    SCORES.save(tmp_path / "gates.json")
    assert GateScores.load(tmp_path / "gates.json") == SCORES
    (tmp_path / "bad.json").write_text('{"format": 1, "model": "M"}')
    with pytest.raises(ValueError, match=r"bad.json does not hold gate scores"):
        GateScores.load(tmp_path / "bad.json")
    with pytest.raises(FileNotFoundError, match=r"no gate scores .*; write them with benchmarks/train_gates.py"):
        GateScores.load(tmp_path / "none.json")
    with pytest.raises(ValueError, match="timesteps must fall from step to step"):
        GateScores("M", (1, 5), ("a",), (1,), ((0,), (0,)))


@pytest.fixture(params=["sd", "dit", "sd3", "flux"])
def backbone(request: pytest.FixtureRequest) -> Any:
    return BACKBONES[request.param]


def passes(backbone: Any, model: Any, steps: tuple[float, ...] = STEPS) -> list[torch.Tensor]:
    """A trajectory whose inputs change from step to step."""
    return [run(backbone, model, t=torch.full((2,), int(t)), seed=int(t)) for t in steps]


def by_hand(backbone: Any, model: Any, made: Gated) -> list[torch.Tensor]:
    """The slow reference: hooks that give what was kept, while everything is computed."""
    kept: dict[str, Any] = {}
    found = []
    for number, t in enumerate(STEPS):
        hooks = []
        for name, is_open in zip(made.scores.sites, made.gates[number], strict=True):

            def after(module: Any, args: Any, output: Any, name: str = name, is_open: bool = is_open) -> Any:
                kept[name] = output if is_open else kept[name]
                return kept[name]

            hooks.append(model.get_submodule(name).register_forward_hook(after))
        found.append(run(backbone, model, t=torch.full((2,), int(t)), seed=int(t)))
        for hook in hooks:
            hook.remove()
    return found


def test_closed_gates_give_the_output_of_the_last_pass(backbone):
    model = backbone.build()
    dense, before, made = passes(backbone, model), traces(model), gated(model, 0.4)
    expected = by_hand(backbone, model, made)
    with prune(model, made) as handle:
        found = passes(backbone, model)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
        assert not torch.equal(found[-1], dense[-1])
        assert all(torch.equal(a, b) for a, b in zip(passes(backbone, model), expected, strict=True))  # a new one
        assert 0.4 <= handle.status().saved < 0.6
        with handle.paused():
            assert all(torch.equal(a, b) for a, b in zip(passes(backbone, model), dense, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(passes(backbone, model), dense, strict=True))
    assert traces(model) == before


def test_open_gates_are_the_model_itself():
    backbone = BACKBONES["dit"]
    model = backbone.build()
    dense = passes(backbone, model)
    with prune(model, gated(model, 0.0)) as handle:
        assert all(torch.equal(a, b) for a, b in zip(passes(backbone, model), dense, strict=True))
        assert handle.status().saved == 0


def test_rows_must_be_in_one_step():
    backbone = BACKBONES["dit"]
    model = backbone.build()
    with prune(model, gated(model, 0.4)), pytest.raises(ValueError, match="all rows of a pass must have one timestep"):
        run(backbone, model, t=torch.tensor([900, 100]))


def test_generation_takes_each_batch_as_a_trajectory():
    """Images do not depend on what was generated before, nor on their batches."""
    denoiser, sampling = tiny("dit"), Sampling(num_inference_steps=4)
    with prune(denoiser, gated(denoiser.network, 0.4)):
        together = generate(denoiser, ["a", "b", "c"], sampling)
        alone = generate(denoiser, ["a", "b", "c"], sampling, batch_size=1)
    torch.testing.assert_close(together, alone, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(together, generate(denoiser, ["a", "b", "c"], sampling), atol=1e-4)


def test_a_classifier_without_order_is_refused():
    denoiser = tiny("dit")
    classifier = DiffusionClassifier(denoiser, CLASSES, "exhaustive(2)")
    with prune(denoiser, gated(denoiser.network, 0.4)) as handle:
        with pytest.raises(ValueError, match=r"trials have no order; use bigain.pruning.SequentialClassifier"):
            classifier(IMAGES[:1])
        with pytest.raises(ValueError, match="which does not fit other merged tokens"):
            bigain.compress(denoiser, "tome(ratio=0.5)")
        with pytest.raises(ValueError, match="gates have steps and no stages"), handle.at_stage(0):
            pass
        bigain.compress(denoiser, "todo(factor=2)").remove()
    assert len(classifier(IMAGES[:1])) == 1
    with (
        bigain.compress(denoiser, "tome(ratio=0.5)"),
        pytest.raises(ValueError, match="merges other tokens in each"),
    ):
        prune(denoiser, gated(denoiser.network, 0.4))


@pytest.mark.parametrize("family", ["dit", "unet"])
def test_decisions_in_order_do_not_depend_on_batches(family):
    denoiser = tiny(family)
    with prune(denoiser, gated(denoiser.network, 0.4)):
        found = [
            SequentialClassifier(denoiser, CLASSES, trials=4, batch_size=size)(images)
            for size, images in ((64, IMAGES), (4, IMAGES), (64, IMAGES[::-1]))
        ]
    found[2].reverse()
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_allclose(a.errors, b.errors, rtol=1e-4)
            assert a.index == b.index
            assert a.timesteps == (875, 625, 375, 125)


def test_errors_in_order_by_hand():
    """One image and one class after the other, with one noise."""
    from bigain.classify.images import to_tensor
    from bigain.classify.trials import Trial, draw_noise, fingerprint

    denoiser, steps = tiny("dit"), (875, 625, 375, 125)
    made = gated(denoiser.network, 0.4)
    pixels = to_tensor(IMAGES[0], denoiser.image_spec)
    latents, noise = denoiser.encode(pixels[None]), draw_noise(3, fingerprint(pixels), Trial(-1, 0), (4, 16, 16))[None]
    with prune(denoiser, made):
        (decision,) = SequentialClassifier(denoiser, CLASSES, timesteps=steps, seed=3)(IMAGES[:1])
        for number, name in enumerate(CLASSES):
            condition = denoiser.conditions([name])
            own = [denoiser.error(latents, condition, torch.tensor([t]), noise) for t in steps]
            np.testing.assert_allclose(decision.errors[number], torch.cat(own).numpy(), rtol=1e-4)


def test_training_starts_dense_and_learns_to_skip(tmp_path: Path):
    method = DipGo(0.3, num_inference_steps=3, iterations=6, batch_size=2, weight=5.0)
    trainer = GateTrainer(tiny("dit"), method, checkpoint=tmp_path / "gates.pt")
    trainer.train()
    assert trainer.history[0] == (pytest.approx(0, abs=1e-9), pytest.approx(1))
    after = trainer.scores()
    assert float(np.mean(after.scores)) < 0.97  # from log-odds of 1 for all
    # a killed training goes on as if nothing had been
    half = GateTrainer(tiny("dit"), DipGo(0.3, None, 3, 3, 2, 5.0), checkpoint=tmp_path / "half.pt")
    half.train()
    again = GateTrainer(tiny("dit"), method, checkpoint=tmp_path / "half.pt")
    again.train()
    assert again.scores() == after
    with pytest.raises(ValueError, match="is a checkpoint of other gates"):
        GateTrainer(tiny("dit"), DipGo(0.3, None, 4, 3, 2, 5.0), checkpoint=tmp_path / "half.pt")


def test_gradients_of_gates_are_those_of_differences():
    """Against finite differences, at gates between open and closed."""
    trainer = GateTrainer(tiny("dit"), DipGo(0.3, num_inference_steps=3, batch_size=1))
    noise, condition = trainer.batch(0)
    trainer.gates = torch.full((3, len(trainer.sites)), 0.6, requires_grad=True)
    trainer.image(noise, condition).square().mean().backward()
    slope = trainer.gates.grad[1, 2]
    ends = []
    for step in (-1e-2, 1e-2):
        trainer.gates = torch.full((3, len(trainer.sites)), 0.6)
        trainer.gates[1, 2] += step
        with torch.no_grad():
            ends.append(trainer.image(noise, condition).square().mean())
    torch.testing.assert_close((ends[1] - ends[0]) / 2e-2, slope, rtol=0.05, atol=1e-5)


def test_one_call_trains_and_prunes():
    denoiser = tiny("dit")
    with bigain.prune(denoiser, "dipgo(target=0.3, num_inference_steps=3, iterations=2, batch_size=1)") as handle:
        assert handle.status().saved >= 0.3
        assert "# runs" in str(handle.status())
        assert repr(handle).startswith("<dipgo(target=0.3")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("dipgo(target=20)", r"target must be in \[0, 1\), got 20; did you mean 0.2"),
        ("dipgo(0.2, num_inference_steps=1)", "num_inference_steps must be at least 2"),
        ("dipgo(0.2, weight=0)", "weight must be a number above 0"),
        ("dipgo(0.2, scores=3)", "scores must be a JSON file"),
    ],
)
def test_mistakes_in_words(text, error):
    with pytest.raises((ValueError, TypeError), match=error):
        bigain.prune(tiny("dit"), text)
