"""Tuning as a whole, on tiny models: verified settings, interrupted searches, targets that cannot be met."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import bigain
from bigain import Setting
from bigain.classify.classifier import DiffusionClassifier
from bigain.generation import Sampling
from bigain.plots.tuned_page import tuned_page
from bigain.tuning.actions import even_bands, one_site
from bigain.tuning.goal import Goal
from bigain.tuning.material import Material
from bigain.tuning.meter import Meter, Reference, Task, centred
from bigain.tuning.tune import Effort, Request, Tuned, every_site, search
from bigain.tuning.verify import Held, Verifier
from helpers.denoisers import tiny
from helpers.models import traces

QUICK = Effort(
    images=2, held_out=4, trials=2, generated=2, held_out_generated=3, num_inference_steps=2, bands=2,
    operators=("gated_merge(ratio=0.5)", "kv_downsample(factor=2)"), corrections=(True,), uniforms=1,
)  # fmt: skip
CLASSES = ("a", "b", "c")


@pytest.fixture(scope="module")
def denoiser() -> Any:
    return tiny("dit")


def images(count: int) -> list[Tensor]:
    return [torch.rand(1, 32, 32, generator=torch.Generator().manual_seed(i)) * 2 - 1 for i in range(count)]


@pytest.fixture(scope="module")
def request_(tmp_path_factory: pytest.TempPathFactory) -> Request:
    place = tmp_path_factory.mktemp("tuning") / "checkpoint.jsonl"
    material = Material(images(6), list("abcabc"), CLASSES)
    return Request(Goal(save=0.1), material, checkpoint=place, effort=QUICK)


@pytest.fixture(scope="module")
def interrupted(denoiser: Any, request_: Request) -> int:
    """How many values were measured before the search was killed."""

    def kill(what: str, done: int, total: int) -> None:
        if what == "measuring single actions" and done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(denoiser, request_, kill)
    assert request_.checkpoint is not None
    return len(request_.checkpoint.read_text().splitlines()) - 1


@pytest.fixture(scope="module")
def found(denoiser: Any, request_: Request, interrupted: int) -> Tuned:
    before = traces(denoiser.network)
    tuned = search(denoiser, request_)
    assert traces(denoiser.network) == before
    return tuned


def test_a_setting_is_verified_and_meets_the_target(found: Tuned) -> None:
    assert found.met
    verified = found.chosen.verified
    assert min(verified.saved) >= 0.1
    assert verified.agreement is not None
    assert verified.agreement.n == 4
    assert verified.accuracy is not None
    assert verified.ssim is not None
    assert found.setting.measured["kept"]["agreement"]["n"] == 4
    assert found.setting.measured["target"] == {"save": 0.1, "met": True}
    assert found.setting.parts == found.chosen.parts
    assert found.uniform is not None
    assert Setting.from_dict(json.loads(json.dumps(found.setting.as_dict()))) == found.setting


def test_a_killed_search_goes_on(found: Tuned, interrupted: int, denoiser: Any, request_: Request) -> None:
    """What was measured stays, and a third start measures nothing."""
    assert request_.checkpoint is not None
    text = request_.checkpoint.read_text()
    assert 0 < interrupted < len(text.splitlines()) - 1
    names = [json.loads(line)["name"] for line in text.splitlines()[1:]]
    assert len(set(names)) == len(names)
    again = search(denoiser, request_)
    assert request_.checkpoint.read_text() == text
    assert again.chosen == found.chosen
    assert again.setting == found.setting


def test_the_setting_does_what_was_verified(found: Tuned, denoiser: Any) -> None:
    """Agreement, margins and similarity once more, with the public classes alone."""
    held = Held(images(6)[:3], None, ("a", "b"))
    task = Task(CLASSES, 2, Sampling(2))
    verifier = Verifier(Meter(denoiser, task), _Costs(), held, [1.0])
    result = verifier(found.chosen.parts)
    classifier = DiffusionClassifier(denoiser, CLASSES, "exhaustive(trials=2)")
    dense = classifier(held.images or ())
    with bigain.compress(denoiser, found.setting):
        tuned = classifier(held.images or ())
    same = sum(a.label == b.label for a, b in zip(dense, tuned, strict=True))
    assert result.agreement is not None
    assert result.agreement.hits == same
    kept = [d.errors.mean(1) for d in tuned]
    margins = [np.delete(e, d.index).min() - e[d.index] for e, d in zip(kept, dense, strict=True)]
    before = [d.margin for d in dense]
    assert result.margin is not None
    assert result.margin.value == pytest.approx(np.mean(margins) / np.mean(before) - 1, rel=1e-4)
    nothing = verifier(())
    assert (nothing.agreement and nothing.agreement.value, nothing.difference_error) == (1.0, 0.0)
    assert nothing.ssim is not None
    assert nothing.ssim.value == pytest.approx(1)


class _Costs:
    def of_parts(self, parts: Any, steps: Any) -> Any:
        return (0.0, 0.0)


def test_effects_are_squared_errors_by_band(denoiser: Any) -> None:
    """With one band, the effect is the error of all class differences; bands add up to it."""
    task = Task(CLASSES, 4, Sampling(2))
    meter, site = Meter(denoiser, task), every_site(denoiser)[0]
    from bigain.tuning.actions import Action

    part = one_site(site, Action(site.name, "gated_merge(ratio=0.5)", correct=False))
    one = Reference(meter, images(2), ("a", "b"), even_bands(1, 999))
    two = Reference(meter, images(2), ("a", "b"), even_bands(2, 999))
    a, b = centred(meter.errors([part], images(2))), centred(meter.errors([], images(2)))
    expected = np.square(a - b).sum() / np.square(b).sum()
    for measure in ("classify", "generate"):
        whole, halves = getattr(one, measure)([part]), getattr(two, measure)([part])
        assert len(halves) == 2
        assert sum(halves) == pytest.approx(whole[0], rel=1e-5)
        assert whole[0] > 0
    assert one.classify([part]) == pytest.approx((expected,), rel=1e-5)
    assert one.generate([]) == pytest.approx((0.0,), abs=1e-9)
    # an operator that does not act in a band has no effect there
    late = bigain.Compression(part.operator, part.where, groups="classes", when=(500, 999))
    assert two.classify([late])[0] == pytest.approx(0, abs=1e-9)  # type: ignore[index]
    assert two.classify([late])[1] == pytest.approx(two.classify([part])[1], rel=1e-4)  # type: ignore[index]


def test_a_target_that_cannot_be_met_says_so(denoiser: Any, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"no setting that was found saves 99%; the best saves \d+\.\d%"):
        setting = bigain.tune(denoiser, save=0.99, prompts=CLASSES, images=images(4), effort=QUICK, minutes=0.01)
    assert setting.measured["target"] == {"save": 0.99, "met": False}
    assert setting.measured["kept"]["agreement"]["n"] == 3


def test_what_is_kept_is_asked_for(denoiser: Any) -> None:
    """Generation alone, for a share to keep."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # met or not: the weights are random
        setting = bigain.tune(denoiser, keep=0.5, prompts=CLASSES, both=False, effort=QUICK, minutes=1)
    assert "agreement" not in setting.measured["kept"]
    assert setting.measured["target"]["met"] == (setting.measured["kept"]["ssim"]["value"] >= 0.5)
    assert all(not part.correct for part in setting.parts)


def test_another_request_does_not_take_the_checkpoint(denoiser: Any, request_: Request, found: Tuned) -> None:
    assert request_.checkpoint is not None
    with pytest.raises(ValueError, match="was begun with other settings: seed was 0 and is now 1"):
        bigain.tune(denoiser, save=0.1, prompts=CLASSES, checkpoint=request_.checkpoint, seed=1, effort=QUICK,
                    images=images(6), labels=list("abcabc"))  # fmt: skip


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"labels": ["a"]}, "labels need images"),
        ({"images": [1, 2, 3]}, "images must be 4 or more"),
        ({"prompts": ["a"]}, "prompts must be two different"),
        ({"prompts": "ab"}, "prompts must be two different"),
        ({"minutes": 0}, "minutes must be above 0"),
    ],
)
def test_bad_input_says_what_is_wrong(denoiser: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        bigain.tune(denoiser, **({"save": 0.1, "prompts": CLASSES, "effort": QUICK} | options))


def test_the_page_is_whole(found: Tuned, tmp_path: Path) -> None:
    text = tuned_page(found, "a <model>", tmp_path)
    assert text.startswith("<!doctype html>")
    assert text.rstrip().endswith("</html>")
    assert "a &lt;model&gt;, tuned: save 10 %" in text
    assert text.count("data:image/png;base64") == 4
    assert "(chosen)" in text
    assert {path.name for path in tmp_path.iterdir()} == {"frontier.png", "sensitivity.png"}
    assert "http" not in text.split("</style>")[1]
