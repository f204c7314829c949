"""Settings: several operators as one document, on disk, on the Hub, and attached; presets by one word."""

import json
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch

import bigain
from bigain import Compression, Setting
from bigain.compression.document import model_shape
from bigain.compression.presets import PRESETS, WORDS
from helpers.hub import hub
from helpers.models import BACKBONES, run, traces

SD, DIT = BACKBONES["sd"], BACKBONES["dit"]
MERGE, POOL = "gated_merge(ratio=0.6)", "kv_downsample(factor=2)"
PARTS = (
    Compression(MERGE, "index=(0, 4), module=('self', 'mlp')", groups="classes", correct=True, when=(500, 999)),
    Compression(POOL, "index=(0, 4)", when=(0, 499)),
    Compression(POOL, "index=2"),
)


@pytest.fixture(scope="module")
def unet() -> Any:
    return SD.build()


@pytest.fixture
def setting(unet: Any) -> Setting:
    measured = {
        "flops": {"saved": 0.31},
        "classify": {"agreement": {"value": 0.98, "low": 0.95, "high": 0.99, "n": 64}},
    }
    return Setting(PARTS, model_shape(unet), "tuned", "fast", measured)


def test_a_setting_is_a_readable_file(setting: Setting, tmp_path: Path) -> None:
    setting.save(tmp_path / "setting.json")
    assert Setting.load(tmp_path / "setting.json") == setting
    found = json.loads((tmp_path / "setting.json").read_text())
    assert found["parts"][1] == {
        "operator": "kv_downsample(factor=2, alpha=0.9)",  # all parameters: a default may change
        "where": "index=(0, 4)",
        "when": [0, 499],
    }
    assert found["model"]["class"] == "UNet2DConditionModel"
    text = str(setting)
    assert "tuned for UNet2DConditionModel" in text
    assert "classify: agreement 0.98 [0.95, 0.99]" in text


def test_folders_as_diffusers_users_know_them(setting: Setting, tmp_path: Path) -> None:
    setting.save_pretrained(tmp_path / "new" / "folder")
    assert Setting.from_pretrained(tmp_path / "new" / "folder") == setting
    with pytest.raises(FileNotFoundError, match=r"no setting .*setting.json; write one with `bigain tune`"):
        Setting.from_pretrained(tmp_path)


def test_a_setting_goes_to_the_hub_and_back(
    setting: Setting, unet: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with hub() as (address, repositories):
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
        files = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", files)
        assert setting.push_to_hub("me/tuned", token="hf_x") == f"{address}/me/tuned"
        assert set(repositories["me/tuned"]) == {"setting.json", "README.md"}
        assert b"bigain.compress(pipe, 'me/tuned')" in repositories["me/tuned"]["README.md"]
        assert Setting.from_pretrained("me/tuned") == setting
        with bigain.compress(unet, "me/tuned") as handle:
            assert handle.compressions == PARTS
        with pytest.raises(FileNotFoundError, match=r"no folder me/other, and cannot download setting\.json"):
            Setting.from_pretrained("me/other")


def test_all_operators_of_a_setting_act(setting: Setting, unet: Any, tmp_path: Path) -> None:
    """The same as its parts attached one by one, and all of it goes again."""
    setting.save(tmp_path / "setting.json")
    before, dense = traces(unet), run(SD, unet, batch=4)
    handles = [bigain.compress(unet, part) for part in PARTS]
    expected = run(SD, unet, batch=4)
    for handle in handles:
        handle.remove()
    with bigain.compress(unet, str(tmp_path / "setting.json")) as handle:
        assert torch.equal(run(SD, unet, batch=4), expected)
        rows = handle.status()
        assert len(rows) == 7
        assert "500-999" in str(rows)
        assert "3 operators" not in repr(handle)
        with handle.paused():
            assert torch.equal(run(SD, unet, batch=4), dense)
        with pytest.raises(AttributeError, match=r"this setting has 3 operators; see handle\.compressions"):
            _ = handle.compression
    assert traces(unet) == before


def test_a_setting_of_another_model_is_refused_with_the_difference(setting: Setting, unet: Any) -> None:
    with pytest.raises(ValueError, match="it was made for UNet2DConditionModel, and this is DiTTransformer2DModel"):
        bigain.compress(DIT.build(), setting)
    wider = SD.build(block_out_channels=(32, 96), layers_per_block=1)
    with pytest.raises(ValueError, match=r"blocks of up/2 2 there, 1 here; width of down/2 64 there, 96 here|width"):
        bigain.compress(wider, setting)
    assert not traces(wider)[""][1]["_forward_hooks"]


def test_a_setting_that_does_not_fit_leaves_nothing(unet: Any) -> None:
    before = traces(unet)
    with pytest.raises(ValueError, match="no site at index 99"):
        bigain.compress(unet, Setting((*PARTS, Compression(MERGE, "index=99"))))
    assert traces(unet) == before


def test_options_belong_to_the_setting(setting: Setting, unet: Any) -> None:
    with pytest.raises(TypeError, match="where is part of a setting; change it in tuned itself"):
        bigain.compress(unet, setting, where="part='down'")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"format": 2}, "its format must be 1, got 2"),
        ({"parts": 3}, "expected an object with a list of parts"),
        ({"parts": []}, "needs one Compression or more"),
        ({"parts": [{}]}, "each part must be an object with an operator"),
        ({"parts": [{"operator": MERGE, "wher": 1}]}, "wher"),
        ({"parts": [{"operator": "gated_merg(ratio=0.5)"}]}, "Did you mean 'gated_merge'"),
        ({"model": 3}, "model must be dict, got 3"),
        ({"speed": 3}, "unknown key 'speed'"),
    ],
)
def test_damaged_files_say_what_is_wrong(setting: Setting, change: dict[str, Any], text: str, tmp_path: Path) -> None:
    path = tmp_path / "setting.json"
    path.write_text(json.dumps(setting.as_dict() | change))
    with pytest.raises(ValueError, match=rf"setting.json is not a setting: .*{text}"):
        Setting.load(path)


@pytest.mark.parametrize("name", ["sd", "dit", "sd3", "flux"])
def test_presets_act_on_every_kind_of_model(name: str) -> None:
    backbone = BACKBONES[name]
    model = backbone.build()
    dense = run(backbone, model)
    for word in WORDS:
        with bigain.compress(model, word) as handle:
            assert not torch.equal(run(backbone, model), dense)
            assert handle.status().flops_after < handle.status().flops_before


def test_presets_have_all_words() -> None:
    assert all(tuple(kind) == WORDS for kind in PRESETS.values())
