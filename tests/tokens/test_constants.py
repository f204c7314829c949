import threading

import torch
from torch._subclasses import FakeTensorMode

from bigain.tokens.constants import KEPT, arange, constant

CPU = torch.device("cpu")


def test_the_same_tensor_comes_again():
    assert arange(7, CPU) is arange(7, CPU)
    assert arange(7, CPU).tolist() == list(range(7))
    assert arange(7, torch.device("meta")).device.type == "meta"


def test_what_was_made_in_inference_mode_can_be_used_with_gradients():
    with torch.inference_mode():
        index = arange(11, CPU)
    x = torch.randn(11, 2, requires_grad=True)
    x.index_select(0, index).sum().backward()  # saves the index for the way back
    assert x.grad.sum() == 22


def test_fake_tensors_are_not_kept():
    with FakeTensorMode():
        arange(13, CPU)
    assert type(arange(13, CPU)) is torch.Tensor


def test_it_does_not_grow_without_end():
    made = []

    @constant
    def count(size: int) -> torch.Tensor:
        made.append(size)
        return torch.zeros(size)

    for size in range(KEPT + 1):
        count(size)
    count(KEPT)
    assert len(made) == KEPT + 1
    count(0)
    assert len(made) == KEPT + 2


def test_threads_may_ask_at_once():
    found = []
    threads = [threading.Thread(target=lambda: found.append(arange(99, CPU))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(one, torch.arange(99)) for one in found)
