"""What the rows of `status()` say before and after a call."""

import bigain
from bigain.tokens.grid import Grid
from helpers.models import run

KEYS_OF_64 = {"kv_downsample": 16, "todo": 16, "avg_pool": 16, "kv_select": 25}
KEYS_OF_256 = {"kv_downsample": 64, "todo": 64, "avg_pool": 64, "kv_select": 102}
# ratio 0.6: 153 of 256 and 38 of 64 tokens go; block_merge takes whole tiles of 2x2, three tokens each, and toma
# equally many of each tile of 4x4
LEFT_OF_256 = {"gated_merge": 103, "tome": 103, "sito": 103, "block_merge": 256 - 153 // 3 * 3,
               "toma": 256 - 153 // 16 * 16}  # fmt: skip
LEFT_OF_64 = {"gated_merge": 26, "tome": 26, "sito": 26, "block_merge": 64 - 38 // 3 * 3, "toma": 64 - 38 // 4 * 4}
FINEST = {"sd": 256, "controlnet": 256}  # of the others 64, in patches of 2x2 or one down-sampling later


def test_nothing_ran_before_the_first_call(backbone, model, operator):
    with bigain.compress(model, operator) as handle:
        rows = handle.status()
        assert rows
        for row in rows:
            assert not row.ran
            assert row.grid is None
            assert row[2:7] == (0, 0, 0, 0, 0)
        assert rows.flops_before == rows.flops_after == 0


def test_tokens_before_and_after(backbone, model, operator):
    name = operator.partition("(")[0]
    tokens = FINEST.get(backbone.name, 64)
    with bigain.compress(model, operator) as handle:
        run(backbone, model)
        for row in handle.status():
            assert row.ran
            assert row.tokens == tokens
            assert row.grid == Grid(int(tokens**0.5), int(tokens**0.5))
            left = (LEFT_OF_256 if tokens == 256 else LEFT_OF_64).get(name, tokens)
            assert row.queries == left
            assert row.keys == (KEYS_OF_256 if tokens == 256 else KEYS_OF_64).get(name, left)


def test_the_table_names_every_site(backbone, model):
    with bigain.compress(model, "block_merge(ratio=0.5)") as handle:
        assert all(line.endswith("no") for line in str(handle.status()).splitlines()[1:])
        run(backbone, model)
        lines = str(handle.status()).splitlines()
        assert len(lines) == 1 + len(handle.status())
        for line, row in zip(lines[1:], handle.status(), strict=True):
            assert line.startswith(row.name)
            assert str(row.grid) in line
            assert line.endswith("yes")
