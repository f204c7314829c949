import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bigain.operators import OPERATORS, ToMe
from bigain.registry import Registry, miss, parse_call
from bigain.tokens.scores import SCORERS

literals = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="ascii", exclude_characters="\\")),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=4,
)


@pytest.fixture
def colours():
    registry = Registry("colour")
    for number, name in enumerate(["crimson", "azure", "amber"]):
        registry.register(name)(number)
    return registry


def test_a_registry_is_a_mapping_in_the_order_of_registration(colours):
    assert dict(colours) == {"crimson": 0, "azure": 1, "amber": 2}
    assert list(colours) == ["crimson", "azure", "amber"]
    assert len(colours) == 3
    assert "azure" in colours
    assert "blue" not in colours
    assert colours.get("blue") is None


def test_register_gives_the_item_back(colours):
    @colours.register("green")
    def green():
        return "green"

    assert colours["green"] is green
    assert green() == "green"


def test_a_registry_cannot_be_written_to(colours):
    with pytest.raises(TypeError):
        colours["green"] = 3


def test_duplicates_are_refused_and_the_first_stays(colours):
    with pytest.raises(ValueError, match=r"^the colour 'amber' is already registered$"):
        colours.register("amber")(5)
    assert colours["amber"] == 2


@pytest.mark.parametrize(
    ("registry", "kind", "name"), [(OPERATORS, "operator", "tome"), (SCORERS, "scorer", "l1_norm")]
)
def test_names_of_the_library_cannot_be_taken_twice(registry, kind, name):
    before = registry[name]
    with pytest.raises(ValueError, match=f"the {kind} {name!r} is already registered"):
        registry.register(name)(object)
    assert registry[name] is before


def test_two_registries_do_not_share_names(colours):
    other = Registry("colour")
    other.register("amber")(9)
    assert colours["amber"] == 2
    assert other["amber"] == 9


def test_a_miss_suggests_the_nearest_and_lists_all(colours):
    with pytest.raises(KeyError, match=r"unknown colour 'ambre'. Did you mean 'amber'\? Available: crimson, azure"):
        colours["ambre"]


def test_a_miss_with_nothing_near_lists_all(colours):
    with pytest.raises(KeyError, match=r"unknown colour 'zzz'. Available: crimson, azure, amber"):
        colours["zzz"]


def test_the_two_sentences_of_a_miss_are_set_apart():
    assert miss("colour", "zzz", ["azure"]) == "unknown colour 'zzz'. Available: azure"


def test_a_miss_does_not_mind_capitals(colours):
    with pytest.raises(KeyError, match=r"unknown colour 'AMBRE'\. Did you mean 'amber'"):
        colours["AMBRE"]
    assert "Did you mean 'EulerDiscrete'" in miss("scheduler", "eulerdiscrete", ["EulerDiscrete"])


def test_a_miss_takes_names_that_are_no_text():
    assert "unknown colour 3" in miss("colour", 3, ["azure"])


def test_operators_are_registered_under_their_names():
    assert OPERATORS["tome"] is ToMe
    assert all(name.isidentifier() and name == name.lower() for name in [*OPERATORS, *SCORERS])


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("name", ("name", (), {})),
        ("name()", ("name", (), {})),
        ("  name( 1 )  ", ("name", (1,), {})),
        ("name(1, -2.5, key='value')", ("name", (1, -2.5), {"key": "value"})),
        ("name(pair=(1, 2), flag=True, none=None)", ("name", (), {"pair": (1, 2), "flag": True, "none": None})),
    ],
)
def test_calls_that_can_be_read(text, call):
    assert parse_call(text, "thing") == call


@settings(deadline=None, max_examples=100)
@given(st.lists(literals, max_size=3), st.dictionaries(st.sampled_from(["a", "b", "window"]), literals, max_size=3))
def test_any_literals_come_back(args, kwargs):
    parts = [repr(value) for value in args] + [f"{key}={value!r}" for key, value in kwargs.items()]
    assert parse_call(f"name({', '.join(parts)})", "thing") == ("name", tuple(args), kwargs)


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet="na(me=1,'x)[]{}:.* -", max_size=20))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(ValueError):
        name, args, kwargs = parse_call(text, "thing")
        assert name.isidentifier()
        assert isinstance(args, tuple)
        assert isinstance(kwargs, dict)


@pytest.mark.parametrize("text", ["f(g())", "f(x)", "f(1 + 1)", "f(**{})", "a.b(1)", "f(lambda: 1)", "f(\x00)", "("])
def test_code_is_refused(text):
    with pytest.raises(ValueError, match=r"cannot read the thing .*; write it as a call with plain values"):
        parse_call(text, "thing")
