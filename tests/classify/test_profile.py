"""Profiles: equal after a round trip, and anything else is refused in words."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigain import TimestepProfile

numbers = st.floats(1e-3, 1e3)


@given(st.lists(st.tuples(st.integers(0, 999), numbers, numbers), min_size=1, max_size=20), st.none() | numbers)
def test_a_profile_survives_its_file(tmp_path_factory: pytest.TempPathFactory, rows: list, scale: float | None) -> None:
    steps, weights, spreads = zip(*rows, strict=True)
    profile = TimestepProfile(steps, weights, spreads, scale, "DiT", ("a", 3), 40, labelled=False, note="why")
    path = tmp_path_factory.mktemp("profile") / "profile.json"
    profile.save(path)
    found = TimestepProfile.load(path)
    assert found.timesteps == profile.timesteps
    assert found.weights == pytest.approx(profile.weights)
    assert sum(found.weights) / len(found.weights) == pytest.approx(1)
    assert (found.scale, found.classes, found.note, found.labelled) == (scale, ("a", 3), "why", False)


def test_it_says_what_it_is() -> None:
    assert str(TimestepProfile((5, 6), (1, 2), images=30)) == "2 timesteps, fitted weights, from 30 labelled images"
    assert str(TimestepProfile((5,), (1,), note="too few")) == "1 timesteps, equal weights, from no images: too few"
    assert TimestepProfile((5, 6), (2, 2)).equal


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("{", "is not a timestep profile"),
        ("[]", "expected an object with timesteps and weights"),
        ({"timesteps": [5]}, "expected an object with timesteps and weights"),
        ({"timesteps": [5], "weights": [1]}, "its format must be 1, got None"),
        ({"format": 2, "timesteps": [5], "weights": [1]}, "its format must be 1, got 2"),
        ({"format": 1, "timesteps": [5], "weights": [1], "more": 1}, "unknown key 'more'"),
        ({"format": 1, "timesteps": [5, 6], "weights": [1]}, "weights must be 2 positive numbers"),
        ({"format": 1, "timesteps": [5], "weights": [-1]}, "weights must be 1 positive numbers"),
        ({"format": 1, "timesteps": [5.5], "weights": [1]}, "timesteps must be ints of at least 0"),
        ({"format": 1, "timesteps": 5, "weights": [1]}, "is not a timestep profile"),
        ({"format": 1, "timesteps": [5], "weights": [1], "scale": "big"}, "scale must be a positive number or None"),
    ],
)
def test_bad_files(tmp_path: Path, content: object, error: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ValueError, match=error):
        TimestepProfile.load(path)


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="write one with `bigain fit`"):
        TimestepProfile.load(tmp_path / "none.json")
