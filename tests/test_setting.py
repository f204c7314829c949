"""`bigain.sites` and `Compression`: sites without attaching, and the arguments of `compress` as one object."""

import json
from dataclasses import replace
from typing import Any

import pytest
import torch

import bigain
from bigain import Compression, GatedMerge, Where
from helpers.models import BACKBONES, run, traces

SD = BACKBONES["sd"]
MERGE = "gated_merge(ratio=0.6)"


@pytest.fixture(scope="module")
def unet() -> Any:
    return SD.build()


@pytest.mark.parametrize("name", BACKBONES)
def test_sites_are_those_of_compress_and_nothing_is_attached(name: str) -> None:
    model = BACKBONES[name].build()
    before, dense = traces(model), run(BACKBONES[name], model)
    found = bigain.sites(model)
    assert traces(model) == before
    assert torch.equal(run(BACKBONES[name], model), dense)
    with bigain.compress(model, MERGE) as handle:
        run(BACKBONES[name], model)
        assert [site.name for site in found] == [row.name for row in handle.status()]


def test_sites_follow_where(unet: Any) -> None:
    everywhere = bigain.sites(unet, Where(downsample=(1, 2), module=("self", "cross", "mlp")))
    assert {site.kind for site in everywhere} == {"self", "cross", "mlp"}
    assert len(everywhere) == 3 * len(bigain.sites(unet, "downsample=(1, 2)"))
    assert {site.part for site in bigain.sites(unet, "part='up'")} == {"up"}
    assert [site.index for site in bigain.sites(unet, lambda site: site.index == 1)] == [1]
    with pytest.raises(ValueError, match="no site at downsample 9; UNet2DConditionModel has 1, 2"):
        bigain.sites(unet, Where(downsample=9))


def test_sites_of_a_compressed_model(unet: Any) -> None:
    names = [site.name for site in bigain.sites(unet)]
    with bigain.compress(unet, MERGE):
        assert [site.name for site in bigain.sites(unet)] == names


def test_strings_are_parsed() -> None:
    setting = Compression(MERGE, where="part='down'", groups=2)
    assert setting == Compression(GatedMerge(0.6), Where(part="down"), None, 2)
    assert Compression(MERGE).where == Where()
    assert str(setting) == "gated_merge(ratio=0.6) where=\"part='down'\" groups=2"


@pytest.mark.parametrize(
    "setting",
    [
        Compression("none"),
        Compression(MERGE),
        Compression("tome(ratio=0.5, pattern='per_row')", "downsample=(1, 2), module=('self', 'mlp')", "stage", "cfg"),
        Compression("kv_downsample(factor=2, alpha=(0.8, 1.2))", groups=4),
    ],
    ids=str,
)
def test_as_dict_is_json_and_round_trips(setting: Compression) -> None:
    assert Compression(**json.loads(json.dumps(setting.as_dict()))) == setting


def test_identity_has_all_parameters() -> None:
    assert Compression(MERGE).identity()["operator"] == repr(GatedMerge(0.6))
    assert "window=2" in Compression(MERGE).identity()["operator"]


def test_a_compression_equals_its_arguments(unet: Any) -> None:
    setting = Compression("tome(ratio=0.5)", "downsample=(1, 2)", "stage", "cfg")
    with bigain.compress(unet, "tome(ratio=0.5)", where="downsample=(1, 2)", reuse="stage", groups="cfg") as handle:
        expected, status = run(SD, unet, batch=4), handle.status()
        assert handle.compression == setting
    with bigain.compress(unet, setting) as handle:
        assert torch.equal(run(SD, unet, batch=4), expected)
        assert handle.status() == status
        assert handle.compression is setting


@pytest.mark.parametrize("given", [{"where": Where()}, {"reuse": "stage"}, {"groups": 2}], ids=lambda given: min(given))
def test_a_compression_and_arguments_are_too_much(unet: Any, given: dict[str, Any]) -> None:
    before, name = traces(unet), min(given)
    text = f"{name} must be set in the Compression, got both; use dataclasses.replace(compression, {name}=…)"
    with pytest.raises(TypeError) as raised:
        bigain.compress(unet, Compression(MERGE), **given)
    assert str(raised.value) == text
    assert traces(unet) == before
    with bigain.compress(unet, replace(Compression(MERGE), **given)) as handle:  # what the error says
        assert getattr(handle.compression, name) == given[name]
