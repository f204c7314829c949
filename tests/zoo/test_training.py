import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import bigain
from bigain.cli import app
from bigain.denoisers.precision import low_precision
from bigain.generation import Sampling, generate
from bigain.zoo.command import smoke_data
from bigain.zoo.loop import SMOKE, Trainer
from bigain.zoo.recipes import RECIPES, Recipe
from bigain.zoo.train import batch_rows, learning_rate

TINY = {
    "fashion-dit": {"num_layers": 1, "num_attention_heads": 1},
    "fashion-unet": {"block_out_channels": [8, 16], "attention_head_dim": [1, 2]},
    "cifar-unet": {"block_out_channels": [8, 8, 16], "attention_head_dim": [1, 1, 2]},
    "fashion-mmdit": {"num_layers": 2, "num_attention_heads": 1, "caption_projection_dim": 16},
    "quickdraw-dit": {"num_layers": 1, "num_attention_heads": 1},
}


NAMES_AND_MUON = [
    ("fashion-dit", 0.0), ("fashion-unet", 0.0), ("fashion-unet", 6e-3), ("fashion-mmdit", 6e-3),
    ("quickdraw-dit", 6e-3),  # with augmentation, in bfloat16
]  # fmt: skip


def tiny(name: str, **changes: object) -> Recipe:
    recipe = RECIPES[name]
    short = {"samples": 8 * 12, "restarts": (), "batch": 8, "warmup": 3}
    return replace(recipe, architecture=recipe.architecture | TINY[name], **short, **changes)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "muon"), NAMES_AND_MUON)
def test_a_killed_run_resumes_to_the_same_bits(name: str, muon: float, tmp_path: Path) -> None:
    data, recipe = smoke_data(), tiny(name, muon=muon)
    whole = Trainer(recipe, data, tmp_path / "whole", SMOKE)
    whole.learn()
    Trainer(recipe, data, tmp_path / "parts", SMOKE).learn(stop_after=8 * 4)
    resumed = Trainer(recipe, data, tmp_path / "parts", SMOKE)
    assert resumed.run.step == 4
    resumed.learn()
    for key, value in whole.run.average.items():
        assert torch.equal(value, resumed.run.average[key]), key
    assert [p["loss"] for p in whole.run.curve] == [p["loss"] for p in resumed.run.curve]


def test_another_recipe_does_not_resume(tmp_path: Path) -> None:
    data = smoke_data()
    Trainer(tiny("fashion-dit"), data, tmp_path, SMOKE).learn(stop_after=8 * 4)
    with pytest.raises(ValueError, match="another recipe"):
        Trainer(tiny("fashion-dit", ema=0.5), data, tmp_path, SMOKE)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sites"), [("fashion-unet", 3), ("cifar-unet", 3), ("fashion-mmdit", 1)])
def test_smoke_writes_a_model_a_card_and_samples(
    name: str, sites: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = RECIPES[name].architecture | TINY[name]
    monkeypatch.setitem(RECIPES, name, replace(RECIPES[name], architecture=narrow))
    done = CliRunner().invoke(app, ["train", name, "--smoke", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    card = json.loads((tmp_path / "card.json").read_text())
    assert card["samples_seen"] == 192
    assert card["accuracy"]["n"] == 4
    assert card["samples"]["recognised"]["n"] == 10
    assert "Zero-shot accuracy" in (tmp_path / "card.md").read_text()
    with Image.open(tmp_path / "samples.png") as sheet:
        assert sheet.size == (640, 640)
    denoiser = bigain.load(tmp_path)
    assert denoiser.classes[1] == "trouser"
    with bigain.compress(denoiser.network, "gated_merge(0.5)") as handle:
        generate(denoiser, ["bag"], Sampling(num_inference_steps=1))
        assert len(handle.status()) == sites


def test_images_do_not_depend_on_their_batch(tmp_path: Path) -> None:
    trainer = Trainer(tiny("fashion-dit"), smoke_data(), tmp_path, SMOKE)
    denoiser, sampling = trainer.denoiser, Sampling(num_inference_steps=3, guidance_scale=2.0)
    together = generate(denoiser, [0, 1, 2, 3], sampling)
    alone = torch.cat([generate(denoiser, [k], sampling, first=k) for k in range(4)])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)


def test_low_precision_changes_little_and_leaves_nothing_behind(tmp_path: Path) -> None:
    trainer = Trainer(tiny("quickdraw-dit"), smoke_data(), tmp_path, SMOKE)
    network = trainer.denoiser.labelled
    for parameter in network.parameters():  # a fresh one answers zero: its gates are closed
        parameter.data += 0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0))
    processors = [type(block.attn1.processor) for block in network.model.transformer_blocks]
    noisy, t, labels = torch.randn(4, 4, 16, 16), torch.tensor([10, 300, 600, 900]), torch.arange(4)
    exact = network(noisy, t, labels)
    with low_precision(network):
        near = network(noisy, t, labels)
    assert near.dtype == torch.bfloat16
    assert 0 < (near - exact).norm() / exact.norm() < 0.02
    assert [type(block.attn1.processor) for block in network.model.transformer_blocks] == processors
    assert torch.equal(network(noisy, t, labels), exact)


def test_learning_rate_rises_stays_and_falls() -> None:
    recipe = tiny("fashion-dit", decay=0.25)
    rates = [learning_rate(recipe, step) for step in range(12)]
    assert rates[:3] == pytest.approx([1 / 3, 2 / 3, 1])
    assert rates[3:9] == [1.0] * 6
    assert rates[9:] == pytest.approx([1, 2 / 3, 1 / 3])


def test_a_restart_begins_a_new_cycle() -> None:
    once = tiny("fashion-dit", decay=0.25)
    twice = replace(once, samples=2 * once.samples, restarts=(once.samples,))
    rates = [learning_rate(once, step) for step in range(12)]
    assert [learning_rate(twice, step) for step in range(24)] == pytest.approx(rates * 2)
    assert learning_rate(twice, 24) == 0


def test_an_epoch_shows_every_image_once() -> None:
    recipe = tiny("fashion-dit")
    rows = torch.cat([batch_rows(recipe, 40, step) for step in range(5)])
    assert sorted(rows.tolist()) == list(range(40))


@pytest.mark.parametrize("damage", ["bigain.json", "model/config.json", "model/diffusion_pytorch_model.safetensors"])
def test_a_damaged_model_says_so(damage: str, tmp_path: Path) -> None:
    trainer = Trainer(tiny("fashion-dit"), smoke_data(), tmp_path, SMOKE)
    bigain.zoo.loop.save_labelled(tmp_path, trainer.denoiser, "dit")
    bigain.load(tmp_path)
    data = (tmp_path / damage).read_bytes()
    (tmp_path / damage).write_bytes(data[: len(data) // 2])
    with pytest.raises(
        ValueError, match=r"not a complete bigain model|config\.json is not valid JSON .*; download or save the model"
    ):
        bigain.load(tmp_path)


def test_loading_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="neither a bigain model"):
        bigain.load(tmp_path)
    with pytest.raises(ValueError, match="unknown bundled model 'fashion'"):
        bigain.load("fashion")
