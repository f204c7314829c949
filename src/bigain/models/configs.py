"""Configuration files of models: sizes are checked before anything of that size is allocated."""

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
    """Read a configuration file; errors name the file."""
    try:
        found = json.loads(path.read_text())
    except (UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"{path} is not valid JSON ({error}); download or save the model again") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} must be a JSON object, got {type(found).__name__}; download or save the model again")
    return found


def check_sizes(config: Mapping[str, Any], place: object) -> None:
    """Check that the sizes in a configuration are ints in a sensible range; `place` names its file in errors."""
    for name, largest in LARGEST.items():
        for value in flat(config.get(name)):
            number = whole(value)
            if number is None or not 1 <= number <= largest:
                raise ValueError(f"{place}: {name} must be an int from 1 to {largest}, got {value!r}")
    check_positions(config, place)


def check_positions(config: Mapping[str, Any], place: object) -> None:
    """Transformers over patches allocate a table with one row per patch of `sample_size`."""
    patch, sides, heads = config.get("patch_size"), flat(config.get("sample_size")), config.get("num_attention_heads")
    if patch is None or not sides or heads is None:
        return
    width = heads * max(flat(config.get("attention_head_dim")), default=64)
    if (sides[0] // patch) * (sides[-1] // patch) * width > POSITIONS:
        raise ValueError(
            f"{place}: sample_size {config['sample_size']!r} with patch_size {patch} needs a position table above "
            f"{POSITIONS * 4 // 2**20} MB; is sample_size in pixels instead of latents?"
        )


def flat(value: Any) -> list[Any]:
    """None -> [], 3 -> [3], [3, [4, 5]] -> [3, 4, 5]."""
    if value is None:
        return []
    if isinstance(value, Iterable) and not isinstance(value, str | Mapping):
        return [part for item in value for part in flat(item)]
    return [value]
