"""A pass ends as it began, whatever another thread attaches or removes meanwhile."""

import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import bigain
from helpers.models import BACKBONES, run, traces

SMALL = {
    "sd": {"sample_size": 8, "layers_per_block": 1},
    "dit": {"sample_size": 8, "num_layers": 4},
    "flux": {"num_layers": 2, "num_single_layers": 2},
}
MERGE = "gated_merge(ratio=0.6)"


@pytest.fixture
def often():
    """Threads take turns as often as they can, so that every moment of a pass is met."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def attach_until(stop, model, operators):
    """Attach and remove in all ways until told to stop."""
    rng = random.Random(0)
    while not stop.is_set():
        handles = [bigain.compress(model, operator, where=where) for operator, where in operators]
        for _ in range(rng.randrange(40)):
            time.sleep(0)  # let others run for a while
        if rng.random() < 0.3:
            with handles[0].paused():
                time.sleep(0)
        rng.shuffle(handles)
        if rng.random() < 0.5:
            bigain.restore(model)
        for handle in handles:
            handle.remove()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "operators"),
    [
        ("dit", [(MERGE, None)]),
        ("sd", [("todo(factor=2)", None)]),
        ("sd", [(MERGE, "part='down'"), ("kv_downsample(factor=2)", "part='up'")]),
        ("dit", [(MERGE, "module='mlp', index=(0, 1)"), (MERGE, "index=(2, 3)")]),
        ("flux", [(MERGE, "part='double', index=(0, 1)"), ("kv_downsample(factor=2)", "part='single', index=(2, 3)")]),
    ],
)
def test_passes_in_two_threads_are_pure(name, operators, often):
    backbone = BACKBONES[name]
    model = backbone.build(**SMALL[name])
    before = traces(model)
    pure = [run(backbone, model, size=(8, 8))]
    for chosen in [[one] for one in operators] + [operators] * (len(operators) > 1):
        handles = [bigain.compress(model, operator, where=where) for operator, where in chosen]
        pure.append(run(backbone, model, size=(8, 8)))
        for handle in handles:
            handle.remove()
    assert all(not torch.equal(a, b) for i, a in enumerate(pure) for b in pure[:i])

    stop, start = threading.Event(), threading.Barrier(3)

    def passes(_):
        start.wait(60)
        return [run(backbone, model, size=(8, 8)) for _ in range(120 if name == "dit" else 30)]

    def attach():
        start.wait(60)
        attach_until(stop, model, operators)

    with ThreadPoolExecutor(3) as pool:
        attaching = pool.submit(attach)
        try:
            found = [output for outputs in pool.map(passes, range(2)) for output in outputs]
        finally:
            stop.set()
        attaching.result()
    kinds = [next((i for i, one in enumerate(pure) if torch.equal(output, one)), None) for output in found]
    assert None not in kinds
    assert len(set(kinds)) > 1  # otherwise the threads have not met
    run(backbone, model, size=(8, 8))
    assert traces(model) == before


def test_hooks_go_when_the_last_pass_has_ended():
    backbone = BACKBONES["sd"]
    model = backbone.build(**SMALL["sd"])
    before, dense = traces(model), run(backbone, model, size=(8, 8))
    inside, go_on = threading.Event(), threading.Event()

    def wait(*_):
        inside.set()
        assert go_on.wait(60)

    handle = bigain.compress(model, MERGE)
    compressed = run(backbone, model, size=(8, 8))
    waiting = model.mid_block.register_forward_pre_hook(wait)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, backbone, model, size=(8, 8))
        assert inside.wait(60)
        waiting.remove()
        handle.remove()
        assert repr(handle).endswith("removed>")
        assert torch.equal(run(backbone, model, size=(8, 8)), dense)
        with bigain.compress(model, "todo(factor=2)"):  # in the same places
            other = run(backbone, model, size=(8, 8))
            assert not torch.equal(other, compressed)
            go_on.set()
            assert torch.equal(running.result(), compressed)
            assert torch.equal(run(backbone, model, size=(8, 8)), other)
    assert traces(model) == before


def test_a_pass_that_was_broken_off_holds_nothing_up():
    backbone = BACKBONES["dit"]
    model = backbone.build(**SMALL["dit"])
    before = traces(model)

    def interrupt(*_):
        raise KeyboardInterrupt

    handle = bigain.compress(model, MERGE)
    hook = model.transformer_blocks[1].register_forward_pre_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(backbone, model, size=(8, 8))
    hook.remove()
    handle.remove()
    assert traces(model) == before


def test_a_pass_that_began_dense_stays_dense_and_a_lone_block_is_no_pass():
    backbone = BACKBONES["sd"]
    model = backbone.build(**SMALL["sd"])
    dense = run(backbone, model, size=(8, 8))
    attached = []

    def attach(*_):
        with ThreadPoolExecutor(1) as pool:
            attached.append(pool.submit(bigain.compress, model, MERGE).result())

    hook = model.down_blocks[0].register_forward_pre_hook(attach)
    assert torch.equal(run(backbone, model, size=(8, 8)), dense)
    hook.remove()
    assert not torch.equal(run(backbone, model, size=(8, 8)), dense)
    attached[0].remove()
