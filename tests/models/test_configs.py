"""Sizes in a model's files are looked at before anything of that size is made."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bigain
from bigain.denoisers.schedule import Schedule
from bigain.models.architectures import ARCHITECTURES, build_meta
from bigain.models.configs import check_sizes
from bigain.models.family import native_size
from bigain.zoo.catalog import bundled
from helpers.models import BACKBONES
from helpers.pipelines import save

NETWORK, SCHEDULER = "transformer/config.json", "scheduler/scheduler_config.json"
BAD_SIZES = [1_000_000, 0, -4, "32", 32.5, True, [64, 10**9]]


def edited(file: Path, **changes: Any) -> Path:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    return file


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folders of whole models, each made once; copy them before changing anything."""
    root, places = tmp_path_factory.mktemp("whole"), dict[str, Path]()

    def get(name: str) -> Path:
        if name not in places:
            (root / name).mkdir()
            places[name] = bundled()[name] if name in bundled() else save(name, root / name)
        return places[name]

    return get


@pytest.mark.parametrize("size", BAD_SIZES, ids=str)
@pytest.mark.parametrize("name", ["fashion-dit", "fashion-unet"])
def test_a_bundled_kind_of_model_names_the_file(name: str, size: object, made: Any, tmp_path: Path) -> None:
    shutil.copytree(made(name), tmp_path / "m")
    file = edited(tmp_path / "m" / "model" / "config.json", sample_size=size)
    value = size[-1] if isinstance(size, list) else size
    text = re.escape(f"{file}: sample_size must be an int from 1 to 2048, got {value!r}")
    with pytest.raises(ValueError, match=text):
        bigain.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("file", "changes", "text"),
    [
        (NETWORK, {"sample_size": 1_000_000}, "sample_size must be an int from 1 to 2048, got 1000000"),
        (NETWORK, {"sample_size": 2048, "patch_size": 1}, "needs a position table above 256 MB"),
        (NETWORK, {"patch_size": 0}, "patch_size must be an int from 1 to 256, got 0"),
        (NETWORK, {"in_channels": 10**9}, "in_channels must be an int from 1 to 4096, got 1000000000"),
        (NETWORK, {"num_layers": 10**6}, "num_layers must be an int from 1 to 1000, got 1000000"),
        ("vae/config.json", {"latent_channels": 10**7}, "latent_channels must be an int from 1 to 4096, got 10000000"),
        (SCHEDULER, {"num_train_timesteps": 10**9}, "num_train_timesteps must be an int from 1 to"),
    ],
)  # fmt: skip
def test_a_pipeline_names_the_file(file: str, changes: dict, text: str, made: Any, tmp_path: Path) -> None:
    shutil.copytree(made("dit"), tmp_path / "m")
    edited(tmp_path / "m" / file, **changes)
    with pytest.raises(ValueError, match=f"{re.escape(str(tmp_path / 'm' / file))}: .*{re.escape(text)}"):
        bigain.load(tmp_path / "m")


@pytest.mark.parametrize("size", BAD_SIZES, ids=str)
def test_counting_flops_names_the_file(size: object, tmp_path: Path) -> None:
    BACKBONES["dit"].build().save_pretrained(tmp_path)
    file = edited(tmp_path / "config.json", sample_size=size)
    with pytest.raises(ValueError, match=re.escape(f"{file}: sample_size must be an int from 1 to 2048, got ")):
        build_meta(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", r"config\.json is not valid JSON \(.*\); download or save the model again"),
        ("[1]", r"config\.json must be a JSON object, got list; download or save the model again"),
        ('{"_class_name": 5}', "holds no diffusers model"),
        ('{"_class_name": "DiTTransformer2DModel", "norm_type": "x"}', "not a configuration of DiTTransformer2DModel"),
    ],
)
def test_a_configuration_that_is_none(text: str, error: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=error):
        build_meta(str(tmp_path))


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"image_spec": {"size": 10**7, "channels": 1, "padding": 2}}, "image_spec.size must be an int from 1 to 2048"),
        ({"image_spec": {"size": 28, "channels": 7, "padding": 2}}, "image_spec.channels must be 1 or 3, got 7"),
        ({"image_spec": {"size": 28, "channels": 1, "padding": -1}}, "padding must be an int from 0 to 28, got -1"),
        ({"stride": 0}, "stride must be an int from 1 to 28, got 0"),
        ({"schedule": {"num_train_timesteps": 10**9}}, "num_train_timesteps must be an int from 1 to 100000"),
    ],
)  # fmt: skip
def test_sizes_of_our_own_file(changes: dict, error: str, made: Any, tmp_path: Path) -> None:
    shutil.copytree(made("fashion-unet"), tmp_path / "m")
    edited(tmp_path / "m" / "bigain.json", **changes)
    with pytest.raises(ValueError, match=f"m is not a complete bigain model .*{re.escape(error)}"):
        bigain.load(tmp_path / "m")


@pytest.mark.parametrize("steps", [0, 10**9, "1000", 2.5])
def test_schedules_have_some_timesteps(steps: object) -> None:
    with pytest.raises(ValueError, match=rf"num_train_timesteps must be an int from 1 to 100000, got {steps!r}"):
        Schedule.from_config(
            {"beta_schedule": "linear", "beta_start": 1e-4, "beta_end": 0.02, "num_train_timesteps": steps}
        )


def test_a_model_in_memory_with_an_absurd_size() -> None:
    model = BACKBONES["sd"].build()
    model.register_to_config(sample_size=10**6)
    with pytest.raises(ValueError, match=r"of UNet2DConditionModel: sample_size must be .* got 1000000"):
        native_size(model)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_known_architectures_pass(name: str) -> None:
    check_sizes(ARCHITECTURES[name][1], name)
