"""Pairs of model and operator that leave nothing out, for tests that need not run for all of them.

Hooks see plans, not operators, and of plans there are five kinds. `contracts/test_pairs.py` holds the pairs to: every
operator, every model, and every kind of plan on a U-Net and on a transformer. What depends on the operator itself is
tested in tests/operators, without a model.
"""

from helpers.models import EXAMPLES

PAIRS = {
    "sd": ("gated_merge", "sito", "toma", "todo", "kv_select"),
    "dit": ("block_merge", "sito", "toma", "kv_downsample", "kv_select"),
    "pixart": ("tome", "toma", "avg_pool"),
    "sdxl": ("tome", "kv_downsample"),
    "controlnet": ("block_merge", "kv_select"),
    "sd3": ("gated_merge", "kv_downsample"),
    "flux": ("sito", "toma", "todo"),
    "qwen": ("tome", "kv_select"),
    "chroma": ("gated_merge", "avg_pool"),
    "flux2": ("block_merge",),
    "aura": ("kv_downsample",),
    "hunyuan": ("gated_merge", "kv_downsample"),
}
ONE_OF_EACH_CLASS = ("sd", "dit", "pixart")  # these alone have every operator, too
TAKES_KEYS = {"flux2": "part='double'"}  # sites that key-value operators and weights can act on, if not all can
KINDS = ("gated_merge", "sito", "toma", "kv_downsample", "kv_select")  # one for each kind of plan


def pairs_of(*names: str) -> list[tuple[str, str]]:
    """Some models, each with specs of its operators."""
    return [(name, EXAMPLES[operator]) for name in names for operator in PAIRS[name]]
