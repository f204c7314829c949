from pathlib import Path

import pytest

from bigain.compression import Compression
from bigain.experiments.experiment import build_experiment, read_experiment
from helpers.runs import contents

HERE = Path("model")


def test_rows_expand_to_settings() -> None:
    found = build_experiment(contents(HERE)).settings
    assert [s.label for s in found] == ["none", "merge, ratio 0.3", "merge, ratio 0.5", "own"]
    assert found[0].attach == ()
    assert found[1].attach == (Compression("gated_merge(ratio=0.3)"),)
    assert [s.n for s in found] == [20, 20, 20, 17]
    assert found[3].tasks == ("classify",)


def test_hybrids_and_two_variables() -> None:
    row = {
        "name": "hybrid",
        "attach": [
            {"operator": "gated_merge(ratio={ratio})", "where": "part='down'"},
            {"operator": "kv_downsample(factor={factor})", "where": "part='up'"},
        ],
        "ratio": [0.3, 0.5],
        "factor": [2, 4],
    }
    found = build_experiment(contents(HERE, rows=[row])).settings
    assert len(found) == 4
    assert found[1].values == {"ratio": 0.3, "factor": 4}
    assert found[1].attach[1] == Compression("kv_downsample(factor=4)", "part='up'")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"modle": "x"}, "Did you mean 'model'"),
        ({"rows": [{"operator": "merge(ratio=0.3)"}]}, "unknown operator 'merge'"),
        ({"rows": [{"operator": "tome(ratio={ratio})"}]}, "braces are"),
        ({"rows": [{"operator": "tome(ratio=0.5)", "ratio": [0.5]}]}, "sweeps"),
        ({"rows": [{"operator": "tome(ratio=0.5)", "wehre": "x"}]}, "Did you mean 'where'"),
        ({"rows": [{"operator": "tome(ratio=0.5)"}] * 2}, "two rows are called"),
        ({"rows": [{"name": "x"}]}, "either operator or attach"),
        ({"rows": [{"operator": "tome(ratio=0.5)", "where": "parts='x'"}]}, "parts"),
        ({"rows": [{"operator": "tome(ratio=0.5)", "groups": "half"}]}, '"cfg" or "input"'),
        ({"tasks": ["classfy"]}, "Did you mean 'classify'"),
        ({"tasks": []}, "list of classify, generate"),
        ({"policy": "rase"}, "Did you mean 'race'"),
        ({"n": 0}, "needs n"),
        ({"generate": {"count": 3, "num_inference_step": 1}}, "Did you mean 'num_inference_steps'"),
        ({"generate": {"count": 3, "num_inference_steps": 0}}, "num_inference_steps must be an int of at least 1"),
        ({"generate": {"count": 0}}, "count must be an int of at least 1, got 0"),
        ({"generate": {"count": True}}, "count must be an int of at least 1, got True"),
        ({"generate": {"num_inference_steps": 1}}, "needs a count"),
        ({"rows": {"operator": "none"}}, r"rows must be a list of tables, each under \[\[rows\]\]"),
        ({"rows": "none"}, "rows must be a list of tables"),
        ({"rows": []}, r"needs at least one table \[\[rows\]\]"),
        ({"rows": [{"operator": 3}]}, "operator must be a string"),
        ({"rows": [{"name": "x", "attach": []}]}, "attach must be a list of tables"),
        ({"rows": [{"name": "x", "attach": "todo(2)"}]}, "attach must be a list of tables"),
        ({"rows": [{"name": "x", "attach": [{"where": "part='up'"}]}]}, "operator must be a string"),
        ({"rows": [{"attach": [{"operator": "todo(2)"}]}]}, "in a row with a name"),
        ({"paper": "x"}, "paper must be a list of tables"),
        ({"data": 3}, "data must be a string, got 3"),
        ({"policy": 3}, "policy must be a string, got 3"),
        ({"n": "2"}, "n must be an int"),
        ({"seed": 1.5}, "seed must be an int, got 1.5"),
        ({"image_size": "512"}, "image_size must be an int of at least 1, got '512'"),
    ],
)
def test_mistakes_are_found_before_anything_runs(change: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        build_experiment(contents(HERE, **change))


def test_a_missing_part_and_a_broken_file(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("title = 'x'")
    with pytest.raises(ValueError, match=r"x\.toml: model is missing"):
        read_experiment(path)
    path.write_text("title = ")
    with pytest.raises(ValueError, match=r"x\.toml: Invalid value"):
        read_experiment(path)


def test_generation_needs_its_table() -> None:
    found = contents(HERE)
    del found["generate"]
    with pytest.raises(ValueError, match=r"table \[generate\]"):
        build_experiment(found)
