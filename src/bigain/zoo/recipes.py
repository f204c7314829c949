"""The recipes of the bundled models, for `bigain train NAME`."""

from dataclasses import asdict, dataclass
from typing import Any

from bigain.zoo.augment import Augmentation


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a training run, apart from the machine."""

    name: str
    data: str
    family: str  # "dit", "unet" or "mmdit", see denoisers/labelled.py
    architecture: dict[str, Any]
    schedule: dict[str, Any]
    samples: int
    image_spec: tuple[int, int, int] = (28, 1, 2)  # image size, channels, padding
    prompt_tokens: int = 0  # length of the learned prompt of each class; 0: class labels
    batch: int = 64
    learning_rate: float = 2e-3
    muon: float = 0.0  # learning rate of inner matrices and convolutions by Muon; 0: all by AdamW
    weight_decay: float = 0.01
    warmup: int = 200  # steps
    decay: float = 0.4  # the learning rate falls linearly over this last share of a cycle
    restarts: tuple[int, ...] = ()  # samples after which a new cycle begins, at the full learning rate
    ema: float = 0.999
    label_dropout: float = 0.1
    augmentation: Augmentation | None = None
    bfloat16: bool = False  # matrix products in bfloat16 while training, those of attention too; weights stay float32
    seed: int = 0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


LINEAR = {"beta_schedule": "linear", "beta_start": 1e-4, "beta_end": 0.02}
FLOW = {"beta_schedule": "flow", "prediction_type": "flow"}
SCALED_LINEAR = {"beta_schedule": "scaled_linear", "beta_start": 0.00085, "beta_end": 0.012}


def unet(channels: int, widths: tuple[int, ...]) -> dict[str, Any]:
    """Attention at every level, from the 16 x 16 grid down, in heads of 16 channels."""
    return {
        "sample_size": 16,
        "in_channels": channels,
        "out_channels": channels,
        "block_out_channels": list(widths),
        "layers_per_block": 1,
        "down_block_types": ["CrossAttnDownBlock2D"] * len(widths),
        "up_block_types": ["CrossAttnUpBlock2D"] * len(widths),
        "attention_head_dim": [width // 16 for width in widths],
        "cross_attention_dim": 64,
        "norm_num_groups": 8,
        "use_linear_projection": True,
    }


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="fashion-dit",
            data="fashion-mnist",
            family="dit",
            architecture={
                "sample_size": 16,
                "patch_size": 1,
                "in_channels": 4,
                "out_channels": 4,
                "num_layers": 6,
                "num_attention_heads": 4,
                "attention_head_dim": 16,
                "num_embeds_ada_norm": 10,
                "norm_type": "ada_norm_zero",
                "norm_elementwise_affine": False,
                "activation_fn": "gelu-approximate",
                "attention_bias": True,
            },
            schedule=LINEAR,
            samples=570_000,
            restarts=(208_000, 360_000),
        ),
        Recipe(
            name="fashion-unet",
            data="fashion-mnist",
            family="unet",
            architecture=unet(channels=4, widths=(32, 64)),
            schedule=SCALED_LINEAR,
            samples=320_000,
            prompt_tokens=4,
        ),
        Recipe(
            name="cifar-unet",
            data="cifar-10",
            family="unet",
            image_spec=(32, 3, 0),
            architecture=unet(channels=12, widths=(32, 64, 80)),
            schedule=SCALED_LINEAR,
            samples=288_000,
            prompt_tokens=4,
            muon=6e-3,
            decay=0.375,
        ),
        Recipe(
            name="fashion-mmdit",
            data="fashion-mnist",
            family="mmdit",
            architecture={
                "sample_size": 16,
                "patch_size": 1,
                "in_channels": 4,
                "out_channels": 4,
                "num_layers": 6,
                "num_attention_heads": 4,
                "attention_head_dim": 16,
                "joint_attention_dim": 64,
                "caption_projection_dim": 64,
                "pooled_projection_dim": 64,
                "pos_embed_max_size": 16,
                "qk_norm": "rms_norm",
            },
            schedule=FLOW,
            samples=240_000,
            prompt_tokens=4,
            muon=6e-3,
        ),
        Recipe(
            name="quickdraw-dit",
            data="quickdraw",
            family="dit",
            architecture={
                "sample_size": 16,
                "patch_size": 1,
                "in_channels": 4,
                "out_channels": 4,
                "num_layers": 6,
                "num_attention_heads": 2,
                "attention_head_dim": 48,
                "num_embeds_ada_norm": 345,
                "norm_type": "ada_norm_zero",
                "norm_elementwise_affine": False,
                "activation_fn": "gelu-approximate",
                "attention_bias": True,
            },
            schedule=LINEAR,
            samples=512_000,
            muon=6e-3,
            augmentation=Augmentation(),
            bfloat16=True,
        ),
    )
}


@dataclass(frozen=True)
class FeatureRecipe:
    """A feature network: its data, size and training."""

    name: str
    data: str
    image_spec: tuple[int, int, int]  # image size, channels, padding
    width: int = 32
    epochs: int = 6
    mirror: bool = False  # half of the batches are seen in a mirror
    augmentation: Augmentation | None = None  # of each image, instead of shifts and mirrors of a batch

    @property
    def short(self) -> str:
        """What distances in these features are called after."""
        return self.name.removesuffix("-features")


FEATURES: dict[str, FeatureRecipe] = {
    recipe.name: recipe
    for recipe in (
        FeatureRecipe("fashion-features", "fashion-mnist", (28, 1, 2)),
        FeatureRecipe("cifar-features", "cifar-10", (32, 3, 0), width=48, epochs=8, mirror=True),
        FeatureRecipe("quickdraw-features", "quickdraw", (28, 1, 2), epochs=24, augmentation=Augmentation()),
    )
}
