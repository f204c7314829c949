"""The golden numbers of the paper's FLOPs table, on the real architecture of SD 2.0."""

import pytest
import torch

from bigain import Compression, Where
from bigain.bench.flops import count_flops
from bigain.models.architectures import ARCHITECTURES, build_meta
from helpers.models import BACKBONES

pytestmark = pytest.mark.slow

GOLDEN = [
    (None, {}, 804.26),
    ("tome(ratio=0.7)", {}, 704.87),
    ("gated_merge(ratio=0.7)", {}, 704.99),
    ("gated_merge(ratio=0.7)", {"reuse": "stage"}, 698.88),
    ("sito(ratio=0.7)", {}, 748.49),
    ("todo(factor=2)", {}, 717.44),
    ("kv_downsample(factor=2)", {}, 717.44),
    ("block_merge(ratio=0.7)", {}, 694.96),
]


@pytest.fixture(scope="module")
def sd2():
    return build_meta("sd2")


@pytest.mark.parametrize(("operator", "options", "gflops"), GOLDEN)
def test_golden_numbers(sd2, operator, options, gflops):
    found = round(count_flops(sd2, operator and Compression(operator, **options)) / 1e9, 2)
    allowed = (748.49, 748.50) if operator == "sito(ratio=0.7)" else (gflops,)
    assert found in allowed


def test_hybrids_of_two_and_three_blocks(sd2):
    down, up = Where(part="down"), Where(part="up")
    dense = count_flops(sd2)
    merged = {part: dense - count_flops(sd2, Compression("gated_merge(ratio=0.7)", part)) for part in (down, up)}
    pooled = {part: dense - count_flops(sd2, Compression("todo(factor=2)", part)) for part in (down, up)}
    assert round((dense - merged[down] - pooled[up]) / 1e9, 2) == 712.46
    assert round((dense - pooled[down] - merged[up]) / 1e9, 2) == 709.97


def test_counting_changes_nothing(sd2):
    first = count_flops(sd2)
    with pytest.raises(ValueError, match="unknown operator"):
        count_flops(sd2, "merge(ratio=0.7)")
    assert count_flops(sd2) == first


def test_larger_latents_cost_more(sd2):
    small, large = (count_flops(sd2, latent=latent) for latent in ((48, 80), (96, 96)))
    assert small < count_flops(sd2) < large


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name != "sd2"])
def test_every_architecture_by_name_is_compressed_by_default(name):
    model = build_meta(name)
    assert count_flops(model, "todo(factor=2)") < count_flops(model)


def test_a_model_whose_latents_are_not_square():
    backbone = BACKBONES["sd"]
    with torch.device("meta"):
        model = backbone.model(**(backbone.config | {"sample_size": (8, 16)}))
    assert count_flops(model) == count_flops(backbone.on_meta(), latent=(8, 16))
