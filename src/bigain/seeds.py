"""Seeds made of words and numbers: the one place where randomness is derived."""

import hashlib


def hashed(*parts: object) -> int:
    """A number below 2**63 that depends on all the parts: seeds a generator, or is the key of a drawn pattern."""
    words = "/".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.sha256(words).digest()[:8], "big") >> 1
