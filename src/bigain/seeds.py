"""Seeds from words and numbers: the one place where randomness is derived."""

import hashlib


def hashed(*parts: object) -> int:
    """A number below 2**63 that depends on all parts: a generator's seed, or the key of a random pattern."""
    words = "/".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.sha256(words).digest()[:8], "big") >> 1
