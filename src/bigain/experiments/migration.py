"""Records of older versions, read with current names: the only place that knows the old ones."""

import re
from typing import Any

from bigain.models.site import parse_where

KEYS = {"trials": "timesteps", "steps": "num_inference_steps", "guidance": "guidance_scale", "pieces": "chunks"}
PATTERNS = {"random": "per_call", "row": "per_row", "shared": "fixed"}  # of ToMe
FREE = ("values", "paper")  # names that the author of an experiment chose


def migrate(value: Any) -> Any:
    """Replace old names of keys, patterns, groups and sites in a record's JSON; current names stay."""
    if isinstance(value, list):
        return [migrate(part) for part in value]
    if not isinstance(value, dict):
        return value
    found = {KEYS.get(key, key): part if key in FREE else migrate(part) for key, part in value.items()}
    if isinstance(found.get("operator"), str):
        found["operator"] = re.sub(r"(?<=pattern=')\w+", lambda m: PATTERNS.get(m[0], m[0]), found["operator"])
    if found.get("groups") == "halves":
        found["groups"] = "cfg"
    if isinstance(found.get("where"), str):
        found["where"] = parse_where(re.sub(r"\blevel=", "downsample=", found["where"])).spec()
    return found
