"""What decides results is compared by content: images, weights, precision."""

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor

from bigain.data import load_data
from bigain.experiments.fingerprints import UNREADABLE, image_hash, image_hashes, weight_hashes
from bigain.experiments.folder import FILE
from bigain.experiments.runner import Run, run_chunks
from bigain.experiments.store import Store
from bigain.loading import load
from bigain.profile import TimestepProfile
from helpers.pipelines import save
from helpers.runs import contents, experiment, results, save_tiny, started

CLASSES = ("coat", "bag")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("model"))


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Eight images in two folders."""
    for i in range(8):
        place = tmp_path / "few" / CLASSES[i % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.new("L", (28, 28), 20 * i).save(place / f"{i}.png")
    return tmp_path / "few"


def changes(few: Path, rows: int = 1, **more: Any) -> dict[str, Any]:
    return {"data": f"folder('{few}')", "n": 4, "tasks": ["classify"], "rows": contents(few)["rows"][:rows]} | more


def whiten(path: Path) -> None:
    Image.new("L", (28, 28), 255).save(path)


def test_a_replaced_image_is_refused_by_name(model: Path, few: Path, tmp_path: Path) -> None:
    run = started(model, tmp_path / "run", **changes(few))
    run_chunks(run)
    before, first, unused = (
        results(run),
        run.data.names[0],
        set(load_data(f"folder('{few}')").names) - set(run.data.names),
    )
    whiten(few / first)
    with pytest.raises(ValueError, match=f"from other images; 1 of 4 changed since: {first}. Restore them, or use"):
        started(model, tmp_path / "run", **changes(few, rows=2))
    assert results(run) == before  # refused before anything was written
    shutil.copy(few / run.data.names[2], few / first)
    for name in run.data.names:
        whiten(few / name)
    with pytest.raises(ValueError, match=r"4 of 4 changed since: (\S+, ){3}\S+\. Restore"):
        started(model, tmp_path / "run", **changes(few))
    assert len(unused) == 4


def test_images_that_were_not_used_may_change_and_more_may_be_added(model: Path, few: Path, tmp_path: Path) -> None:
    run = started(model, tmp_path / "run", **changes(few))
    names = set(load_data(f"folder('{few}')").names) - set(run.data.names)
    for name in names:
        whiten(few / name)
    more = started(model, tmp_path / "run", **changes(few, n=8, rows=2))
    assert set(more.store.hashes("image")) == set(more.data.names)
    whiten(few / more.data.names[0])
    with pytest.raises(ValueError, match="1 of 8 changed"):
        started(model, tmp_path / "run", **changes(few, n=8))


def test_many_changed_images_are_counted(model: Path, few: Path, tmp_path: Path) -> None:
    started(model, tmp_path / "run", **changes(few, n=8))
    for path in few.rglob("*.png"):
        whiten(path)
    with pytest.raises(ValueError, match=r"8 of 8 changed since: bag/1\.png, .* and 3 more\. Restore"):
        started(model, tmp_path / "run", **changes(few, n=8))


def test_the_real_images_of_distances_count_too(model: Path, few: Path, tmp_path: Path) -> None:
    asked = changes(few, tasks=["generate"], generate={"count": 4, "num_inference_steps": 1}, n=0)
    run = started(model, tmp_path / "run", **asked)
    assert len(run.store.hashes("image")) == 8
    whiten(few / "bag" / "1.png")
    with pytest.raises(ValueError, match=r"1 of 8 changed since: bag/1\.png"):
        started(model, tmp_path / "run", **asked)


def test_images_of_every_kind_are_told_by_content(tmp_path: Path) -> None:
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    palette = Image.fromarray(pixels).quantize(4)
    other = palette.copy()
    other.putpalette([value ^ 1 for value in palette.getpalette() or []])
    Image.fromarray(pixels).save(tmp_path / "a.png")
    kinds: list[Any] = [
        pixels, pixels.reshape(4, 12), pixels.astype(np.int16), Image.fromarray(pixels), palette, other,
        torch.from_numpy(pixels), torch.from_numpy(pixels).float(), torch.from_numpy(pixels).bfloat16(),
        tmp_path / "a.png",
    ]  # fmt: skip
    found = [image_hash(kind) for kind in kinds]
    assert len(set(found)) == len(found)
    assert image_hash(str(tmp_path / "a.png")) == found[-1]
    assert image_hash(pixels[:, ::-1]) != found[0]
    assert image_hash(np.asfortranarray(pixels)) == found[0]


def test_an_image_that_cannot_be_read_counts_as_changed_when_it_can(few: Path) -> None:
    path = few / "bag" / "1.png"
    path.unlink()
    path.symlink_to(few / "nowhere.png")
    data = load_data("fashion-sample")
    gone = data.examples[0]._replace(image=path)
    assert image_hashes([type(data)("x", "all", data.classes, (gone,))]) == {gone.name: UNREADABLE}


def test_captions_belong_to_the_images(few: Path) -> None:
    def captioned(words: str) -> dict[str, str]:
        (few / "list.csv").write_text(f"path,label,caption\nbag/1.png,bag,{words}\ncoat/2.png,coat,\n")
        return image_hashes([load_data(f"csv('{few / 'list.csv'}')")])

    one, other = captioned("a bag"), captioned("a red bag")
    assert [name for name in one if one[name] != other[name]] == ["bag/1.png"]


def edit(path: Path, change: float = 1e-3) -> None:
    """One value of the first tensor of a file."""
    found = load_file(path)
    name = min(found)
    value = found[name].clone()
    value.view(-1)[-1] += change
    save_file(found | {name: value.contiguous()}, path, metadata={"format": "pt"})


def test_replaced_weights_are_refused_by_part(model: Path, few: Path, tmp_path: Path) -> None:
    own = shutil.copytree(model, tmp_path / "own")
    run = started(own, tmp_path / "run", **changes(few))
    before = results(run)
    names = set(run.store.hashes("weights"))
    assert {"network.down_blocks", "network.conv_in", "labelled.prompts", "configuration"} < names
    assert len(names) < 15
    started(own, tmp_path / "run", **changes(few))
    edit(own / "model" / "diffusion_pytorch_model.safetensors", 0.5)
    with pytest.raises(ValueError, match=r"other weights; 1 of \d+ changed since: network\.conv_in\. Restore them"):
        started(own, tmp_path / "run", **changes(few, rows=2))
    shutil.copytree(model, own, dirs_exist_ok=True)
    edit(own / "prompts.safetensors", 0.5)
    with pytest.raises(ValueError, match=r"changed since: labelled\.prompts\. Restore"):
        started(own, tmp_path / "run", **changes(few))
    assert results(run) == before


def test_what_is_said_beside_the_weights_counts_too(model: Path, few: Path, tmp_path: Path) -> None:
    own = shutil.copytree(model, tmp_path / "own")
    started(own, tmp_path / "run", **changes(few))
    words = own / "bigain.json"
    words.write_text(words.read_text().replace("0.00085", "0.00086"))
    with pytest.raises(ValueError, match=r"changed since: configuration\. Restore"):
        started(own, tmp_path / "run", **changes(few))


def test_profiles_count_for_the_rows_that_use_them(model: Path, few: Path, tmp_path: Path) -> None:
    own, file = shutil.copytree(model, tmp_path / "own"), tmp_path / "mine.json"
    TimestepProfile((500, 400), (1.0, 2.0)).save(file)
    rows = [
        {"name": "none", "operator": "none"},
        {"name": "mine", "operator": "none", "timesteps": str(file)},
        {"name": "fast", "operator": "none", "policy": "fast"},
    ]
    started(own, tmp_path / "run", **changes(few) | {"rows": rows[:2]})
    TimestepProfile((500, 400), (1.0, 2.0), spreads=(1.0, 1.0)).save(own / "profile.json")  # no row used it so far
    started(own, tmp_path / "run", **changes(few) | {"rows": rows})
    TimestepProfile((500, 400), (1.0, 2.0), spreads=(1.0, 1.5)).save(own / "profile.json")
    with pytest.raises(ValueError, match=r"results from other timesteps; 1 of 2 changed since: fast\. Restore"):
        started(own, tmp_path / "run", **changes(few) | {"rows": rows})
    started(own, tmp_path / "run", **changes(few) | {"rows": rows[:2]})
    TimestepProfile((500, 400), (1.0, 2.5)).save(file)
    with pytest.raises(ValueError, match=r"other timesteps; 1 of 1 changed since: mine\. Restore"):
        started(own, tmp_path / "run", **changes(few) | {"rows": rows[:2]})


@pytest.mark.parametrize("name", ["sd", "sdxl", "dit", "pixart"])
def test_every_part_of_a_pipeline_counts(name: str, tmp_path: Path) -> None:
    denoiser: Any = load(save(name, tmp_path))
    before = weight_hashes(denoiser)
    assert len(before) < 40
    for part in denoiser.models:
        weight: Tensor = next(getattr(denoiser.pipeline, part).parameters())
        with torch.no_grad():
            weight.view(-1)[-1] += 0.5
        after = weight_hashes(denoiser)
        (changed,) = [key for key in after if after[key] != before[key]]
        assert changed.startswith("network." if part in ("unet", "transformer") else f"{part}.")
        before = after
    if denoiser.by_text:
        denoiser.pipeline.tokenizer.add_tokens(["zzz"])
        assert weight_hashes(denoiser)["configuration"] != before["configuration"]


def test_every_value_counts_in_every_type(model: Path) -> None:
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        denoiser = load(model, dtype=dtype)
        before = weight_hashes(denoiser)
        with torch.no_grad():
            for name, weight in denoiser.network.named_parameters():
                weight.view(-1)[-1] += 1
                after = weight_hashes(denoiser)
                assert [key for key in after if after[key] != before[key]] == [f"network.{name.split('.')[0]}"]
                before = after
                if name.startswith("down_blocks"):
                    break


def test_another_precision_is_refused_and_another_device_is_not(model: Path, few: Path, tmp_path: Path) -> None:
    run = started(model, tmp_path / "run", **changes(few))
    run_chunks(run)
    run.store.base.execute("delete from hashes")  # as in records of before, whose sessions say the type
    run.store.update_session(1, {"device": "cuda:0"})
    started(model, tmp_path / "run", **changes(few))
    with pytest.raises(
        ValueError, match="has results in float32, but the model is now in bfloat16; use the same device"
    ):
        Run.start(experiment(model, **changes(few)), tmp_path / "run", load(model, dtype=torch.bfloat16))


def test_records_of_before_get_hashes_when_they_go_on(model: Path, few: Path, tmp_path: Path) -> None:
    run = started(model, tmp_path / "run", **changes(few))
    run_chunks(run)
    for statement in ("drop table hashes", "pragma user_version = 0", "pragma application_id = 0"):
        run.store.base.execute(statement)
    run.store.close()
    started(model, tmp_path / "run", **changes(few)).store.close()
    with closing(Store(tmp_path / "run" / FILE, read_only=True)) as store:
        assert len(store.hashes("image")) == 4
    for path in few.rglob("*.png"):
        whiten(path)
    with pytest.raises(ValueError, match="from other images"):
        started(model, tmp_path / "run", **changes(few))
