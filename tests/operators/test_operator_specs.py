"""Operators as text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigain.operators import OPERATORS, BlockMerge, GatedMerge, KVDownsample, SiTo, ToMe, parse, spec
from bigain.tokens.scores import SCORERS

windows = st.integers(2, 6) | st.tuples(st.integers(1, 5), st.integers(1, 5)).filter(lambda pair: pair != (1, 1))
seeds = st.integers(0, 2**31 - 1)
scorers = st.sampled_from(sorted(SCORERS))
numbers = st.floats(-10, 10) | st.integers(-3, 3)
factors = st.integers(1, 64)


@st.composite
def with_ratio(draw, name, **fields):
    window = draw(windows)
    size = window**2 if isinstance(window, int) else window[0] * window[1]
    ratio = draw(st.floats(0, 1 - 1 / size) | st.just(0))
    rest = {key: draw(values) for key, values in fields.items()}
    return OPERATORS[name](ratio=ratio, window=window, weighted=draw(st.booleans()), **rest)


VALID = {
    "gated_merge": with_ratio(
        "gated_merge", scorer=scorers, anchor=st.sampled_from(["lowest", "highest", "row_order"])
    ),
    "block_merge": with_ratio("block_merge", scorer=scorers, tile=st.sampled_from(["max", "mean", "min"])),
    "tome": with_ratio("tome", seed=seeds, pattern=st.sampled_from(["per_call", "per_row", "fixed", "corner"])),
    "sito": with_ratio("sito", seed=seeds, noise=st.floats(0, allow_infinity=False) | st.integers(0, 9)),
    "toma": st.builds(
        OPERATORS["toma"],
        ratio=st.floats(0, 0.5),
        tiles=windows,
        temperature=st.floats(0, allow_infinity=False, exclude_min=True) | st.integers(1, 9),
        unmerge=st.sampled_from(["transpose", "pinv"]),
        weighted=st.booleans(),
    ),
    "kv_downsample": st.builds(OPERATORS["kv_downsample"], factor=factors, alpha=numbers | st.tuples(numbers, numbers)),
    "todo": st.builds(OPERATORS["todo"], factor=factors),
    "avg_pool": st.builds(OPERATORS["avg_pool"], factor=factors),
    "kv_select": st.builds(
        OPERATORS["kv_select"],
        keep=st.floats(0, 1, exclude_min=True) | st.just(1),
        prefer=st.sampled_from(["smooth", "detail"]),
        scorer=scorers,
    ),
}


def test_every_operator_is_written_and_read():
    assert set(VALID) == set(OPERATORS)


@settings(deadline=None, max_examples=40)
@pytest.mark.parametrize("name", OPERATORS)
@given(data=st.data())
def test_parse_undoes_spec(name, data):
    operator = data.draw(VALID[name])
    text = spec(operator)
    assert text.startswith(f"{name}(")
    assert parse(text) == operator
    assert spec(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("gated_merge(ratio=0.7)", GatedMerge(0.7)),
        ("gated_merge(0.7)", GatedMerge(0.7)),
        (" gated_merge( ratio = .5 , window=(1,2)) ", GatedMerge(0.5, window=(1, 2))),
        ("block_merge(0.5, 3, tile='mean')", BlockMerge(0.5, 3, tile="mean")),
        ("kv_downsample", KVDownsample()),
        ("kv_downsample()", KVDownsample()),
        ("kv_downsample(alpha=-0.5)", KVDownsample(alpha=-0.5)),
        ('tome(ratio=0.5, pattern="fixed")', ToMe(0.5, pattern="fixed")),
        ("sito(0.5, noise=0)", SiTo(0.5, noise=0)),
    ],
)
def test_texts_that_can_be_read(text, operator):
    assert parse(text) == operator


@pytest.mark.parametrize(
    ("operator", "text"),
    [
        (GatedMerge(0.7), "gated_merge(ratio=0.7)"),
        (GatedMerge(0.5, window=2, scorer="l1_norm"), "gated_merge(ratio=0.5, scorer='l1_norm')"),
        (GatedMerge(0.5, window=(1, 2), weighted=True), "gated_merge(ratio=0.5, window=(1, 2), weighted=True)"),
        (KVDownsample(), "kv_downsample()"),
        (KVDownsample(3, (0.8, 1.2)), "kv_downsample(factor=3, alpha=(0.8, 1.2))"),
    ],
)
def test_spec_shows_what_is_not_the_default(operator, text):
    assert spec(operator) == text


def test_numbers_of_numpy_are_written_as_plain_numbers():
    numpy = pytest.importorskip("numpy")
    operator = GatedMerge(numpy.float64(0.5))
    assert parse(spec(operator)) == operator


def test_infinite_noise_is_refused():
    """inf is no literal, so an operator that has it could not be read back."""
    with pytest.raises(ValueError, match="noise must be a number of at least 0, got inf"):
        SiTo(0.5, noise=float("inf"))


def test_spec_of_something_else():
    with pytest.raises(TypeError, match=r"operator must be an instance or a string, got 3. Available: .*gated_merge"):
        spec(3)
