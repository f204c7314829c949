"""The golden numbers of the paper's FLOPs table, on the real architecture of SD 2.0, and those of the other models."""

import pytest
import torch

from bigain import Compression, Where
from bigain.bench.flops import RefusedError, count_flops, group_flops, model_costs, trial_cost
from bigain.loading import load_denoiser
from bigain.models.architectures import build_meta, example_inputs, meta_copy
from bigain.models.named import ARCHITECTURES, prompt_length
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


MERGE, POOL = Compression("gated_merge(ratio=0.7)"), Compression("kv_downsample(factor=2)")
PUBLISHED = {  # GFLOPs uncompressed, with MERGE and with POOL, at each model's own size and length of the prompt
    "dit-xl-2-512": (1049.17, 910.90, 956.76),
    "pixart-sigma": (6633.58, 5512.12, 5742.11),
    "sd3-medium": (8904.34, 7255.81, 7665.90),
    "sd35-medium": (11249.57, 7974.01, 8841.83),
    "sd35-large": (31121.11, 26237.56, 27635.49),
    "flux1-dev": (74384.65, 64195.06, 67136.90),
    "flux1-schnell": (69466.63, 59727.98, 62460.46),
    "chroma1-hd": (74569.50, 64379.91, 67321.74),
    "flux2-dev": (282599.55, 220853.52, None),
    "qwen-image": (78303.92, 67369.08, 70766.25),
    "aura-flow": (43968.10, 37518.55, 39479.33),
    "hunyuan-dit": (14365.80, 12160.98, 12651.71),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_transformers(name):
    costs = model_costs(name, [None, MERGE, POOL])
    assert tuple(cost.flops and round(cost.flops / 1e9, 2) for cost in costs.rows) == PUBLISHED[name]
    assert costs.latent == ((64, 64) if name == "dit-xl-2-512" else (128, 128))


def test_flux_by_hand():
    """1024 px: 64 x 64 tokens of 64 channels, 512 tokens of text, 19 double and 38 single blocks of width 3,072."""
    n, t, c = 64 * 64, 512, 3072
    s = n + t
    attention = 4 * s * s * c  # queries times keys, and times values
    projections = 4 * 2 * s * c**2
    double = projections + attention + 2 * 2 * s * 4 * c**2 + 2 * 2 * 6 * c**2  # two MLPs, two modulations
    single = projections + attention + 2 * 2 * s * 4 * c**2 + 2 * 3 * c**2
    enter = 2 * n * 64 * c + 2 * t * 4096 * c
    conditions = 2 * 2 * (256 * c + c**2) + 2 * (768 * c + c**2)  # timestep and guidance, pooled text
    leave = 2 * 2 * c**2 + 2 * n * c * 64
    dense, pooled = model_costs("flux1-dev", [None, POOL]).rows
    assert dense.flops == 19 * double + 38 * single + enter + conditions + leave
    sites = 19 + 6  # the first 12 / 28 of 57 blocks
    fewer_keys = n - n // 4
    assert dense.flops - pooled.flops == sites * (2 * 2 * fewer_keys * c**2 + 4 * s * fewer_keys * c)


def test_a_length_of_the_prompt_for_each_architecture():
    assert prompt_length("flux1-schnell", "FluxTransformer2DModel") == 256
    assert prompt_length("some/folder", "FluxTransformer2DModel") == 512
    assert prompt_length("some/folder", "UNet2DConditionModel") == 77
    assert prompt_length("some/folder", "NewTransformer2DModel") == 77
    assert example_inputs(build_meta("qwen-narrow")).kwargs["encoder_hidden_states"].shape[1] == 512


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name not in ("sd2", *PUBLISHED)])
def test_every_other_architecture_by_name_is_compressed_by_default(name):
    dense, pooled = model_costs(name, [None, POOL]).rows
    assert 0 < pooled.flops < dense.flops


def test_a_refusal_is_a_row_beside_others_and_an_error_alone(tmp_path):
    """FLUX.2 computes queries, keys and values of its single blocks in one matrix."""
    BACKBONES["flux2"].build().save_pretrained(tmp_path)
    folder, latent = str(tmp_path), (16, 16)
    dense, merged, pooled = model_costs(folder, [None, MERGE, POOL], latent).rows
    assert dense.refused is None
    assert merged.refused is None
    assert (pooled.flops, pooled.saved, pooled.decision) == (None, None, None)
    assert "in one matrix" in pooled.refused
    for alone in ([POOL], [None, POOL]):
        with pytest.raises(RefusedError, match="where=\"part='double'\""):
            model_costs(folder, alone, latent)
    in_double_blocks = Compression("kv_downsample(factor=2)", "part='double'")
    assert model_costs(folder, [in_double_blocks], latent).rows[0].saved > 0


@pytest.mark.parametrize(
    ("name", "latent", "text"),
    [
        ("sd3-medium", (400, 128), "latents must be at most 384x384 for this SD3Transformer2DModel, got 400x128"),
        ("aura-flow", (64, 200), "at most 192x192 for this AuraFlowTransformer2DModel, got 64x200: .* 96x96 positions"),
        ("flux1-dev", (33, 64), "FluxTransformer2DModel needs latents whose sides are multiples of 2, got 33x64"),
        ("dit-xl-2-256", (32, 64), "needs square latents, got 32x64"),
    ],
)
def test_sizes_that_a_model_does_not_take(name, latent, text):
    with pytest.raises(ValueError, match=text):
        model_costs(name, [None], latent)


def test_other_sizes_of_transformers():
    small, wide = (model_costs("sd3-medium", [None], latent).rows[0].flops for latent in ((64, 64), (96, 160)))
    assert small < wide < PUBLISHED["sd3-medium"][0] * 1e9
    assert wide == model_costs("sd3-medium", [None], (160, 96)).rows[0].flops


def test_a_model_whose_latents_are_not_square():
    backbone = BACKBONES["sd"]
    with torch.device("meta"):
        model = backbone.model(**(backbone.config | {"sample_size": (8, 16)}))
    assert count_flops(model) == count_flops(backbone.on_meta(), latent=(8, 16))


@pytest.mark.parametrize("correct", [False, True])
def test_a_trial_costs_what_its_rows_and_what_they_share_cost(correct):
    network = meta_copy(load_denoiser("fashion-unet").network)
    compression = Compression("gated_merge(ratio=0.7)", groups="input", correct=correct)
    found = trial_cost(network, compression, text_tokens=4)
    for classes in (2, 5, 10):
        assert found.of(classes) == group_flops(network, [compression], classes, text_tokens=4)
    assert trial_cost(network, None, text_tokens=4).of(3) == 3 * count_flops(network, text_tokens=4)
