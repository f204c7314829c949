"""Configuration files of models: sizes are looked at before anything of that size is made."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bigain.checks import whole

# far beyond every published model, and small enough that nothing of that size fills a memory
LARGEST: dict[str, int] = {
    "sample_size": 2048,
    "patch_size": 256,
    "in_channels": 4096,
    "out_channels": 4096,
    "latent_channels": 4096,
    "num_layers": 1000,
    "num_attention_heads": 1024,
    "attention_head_dim": 8192,
    "cross_attention_dim": 65_536,
    "caption_channels": 65_536,
    "num_embeds_ada_norm": 100_000,
    "block_out_channels": 65_536,
    "layers_per_block": 1000,
    "transformer_layers_per_block": 1000,
    "num_train_timesteps": 100_000,
}
POSITIONS = 2**26  # values of a table of position embeddings: 256 MB in float32


def read_json(path: Path) -> dict[str, Any]:
    """A configuration file; what is no JSON object is told with the file's name."""
    try:
        found = json.loads(path.read_text())
    except (UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"{path} is no JSON ({error}); fetch or save the model again") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} is no configuration of a model: it holds {type(found).__name__}, not an object")
    return found


def check_sizes(config: Mapping[str, Any], place: object) -> None:
    """Sizes of a model's configuration are whole numbers that a model can have; `place` is its file, for the error."""
    for name, largest in LARGEST.items():
        for value in flat(config.get(name)):
            number = whole(value)
            if number is None or not 1 <= number <= largest:
                raise ValueError(f"{place}: {name} must be an int from 1 to {largest}, got {value!r}")
    check_positions(config, place)


def check_positions(config: Mapping[str, Any], place: object) -> None:
    """Transformers over patches make a table with one row for each patch of `sample_size`."""
    patch, sides, heads = config.get("patch_size"), flat(config.get("sample_size")), config.get("num_attention_heads")
    if patch is None or not sides or heads is None:
        return
    width = heads * max(flat(config.get("attention_head_dim")), default=64)
    if (sides[0] // patch) * (sides[-1] // patch) * width > POSITIONS:
        raise ValueError(
            f"{place}: sample_size {config['sample_size']!r} with patch_size {patch} makes a table of positions beyond "
            f"{POSITIONS * 4 // 2**20} MB; is it meant in pixels, not in latents?"
        )


def flat(value: Any) -> list[Any]:
    """None -> [], 3 -> [3], [3, [4, 5]] -> [3, 4, 5]."""
    if value is None:
        return []
    if isinstance(value, Iterable) and not isinstance(value, str | Mapping):
        return [part for item in value for part in flat(item)]
    return [value]
