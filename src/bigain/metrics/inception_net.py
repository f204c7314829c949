"""The Inception network of 5 December 2015 up to its 2048 features, with the names of pytorch-fid's weights.

It differs from later Inception v3 networks in two ways that matter to FID: average pooling does not count the padding,
and the last block pools by the maximum. The network is a table: a step is (name, channels, kernel), a branch is a chain
of steps, and a block joins the outputs of its branches.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Kernel = tuple[int, int]
Step = tuple[str, int, Kernel]
ONE, THREE, FIVE = (1, 1), (3, 3), (5, 5)
ACROSS, DOWN = (1, 7), (7, 1)
FORKS = (("a", (1, 3)), ("b", (3, 1)))


class Block(NamedTuple):
    """Branches side by side, and one that pools first; `fork` names 3 x 3 steps done as 1 x 3 and 3 x 1 at once."""

    branches: tuple[tuple[Step, ...], ...]
    pool: Literal["average", "max", "halve"]  # "halve": the ends of branches and the pool have stride 2
    pooled: int = 0  # channels of the step after the pool; 0 for none
    fork: tuple[str, ...] = ()


def early(pooled: int) -> Block:
    five = (("branch5x5_1", 48, ONE), ("branch5x5_2", 64, FIVE))
    three = (("branch3x3dbl_1", 64, ONE), ("branch3x3dbl_2", 96, THREE), ("branch3x3dbl_3", 96, THREE))
    return Block(((("branch1x1", 64, ONE),), five, three), "average", pooled)


def middle(c: int) -> Block:
    once = (("branch7x7_1", c, ONE), ("branch7x7_2", c, ACROSS), ("branch7x7_3", 192, DOWN))
    kernels = (ONE, DOWN, ACROSS, DOWN, ACROSS)
    twice = tuple((f"branch7x7dbl_{i}", 192 if i == 5 else c, kernel) for i, kernel in enumerate(kernels, 1))
    return Block(((("branch1x1", 192, ONE),), once, twice), "average", 192)


def late(pool: Literal["average", "max"]) -> Block:
    once = (("branch3x3_1", 384, ONE), ("branch3x3_2", 384, THREE))
    twice = (("branch3x3dbl_1", 448, ONE), ("branch3x3dbl_2", 384, THREE), ("branch3x3dbl_3", 384, THREE))
    return Block(((("branch1x1", 320, ONE),), once, twice), pool, 192, fork=("branch3x3_2", "branch3x3dbl_3"))


def first_reduction() -> Block:
    twice = (("branch3x3dbl_1", 64, ONE), ("branch3x3dbl_2", 96, THREE), ("branch3x3dbl_3", 96, THREE))
    return Block(((("branch3x3", 384, THREE),), twice), "halve")


def second_reduction() -> Block:
    once = (("branch3x3_1", 192, ONE), ("branch3x3_2", 320, THREE))
    kernels = (ONE, ACROSS, DOWN, THREE)
    return Block((once, tuple((f"branch7x7x3_{i}", 192, kernel) for i, kernel in enumerate(kernels, 1))), "halve")


BLOCKS = {
    "Mixed_5b": early(32), "Mixed_5c": early(64), "Mixed_5d": early(64),
    "Mixed_6a": first_reduction(),
    "Mixed_6b": middle(128), "Mixed_6c": middle(160), "Mixed_6d": middle(160), "Mixed_6e": middle(192),
    "Mixed_7a": second_reduction(),
    "Mixed_7b": late("average"), "Mixed_7c": late("max"),
}  # fmt: skip


class Unit(nn.Module):
    """Convolution without bias, batch norm, ReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: Kernel, stride: int = 1, padding: Kernel = (0, 0)) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=1e-3)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)))


def same(inputs: int, outputs: int, kernel: Kernel) -> Unit:
    """A unit that keeps the size of the image."""
    return Unit(inputs, outputs, kernel, padding=(kernel[0] // 2, kernel[1] // 2))


class Mixed(nn.Module):
    """A block of the table: (B, inputs, H, W) -> (B, outputs, H', W')."""

    def __init__(self, block: Block, inputs: int) -> None:
        super().__init__()
        self.block = block
        self.outputs = block.pooled or inputs
        for branch in block.branches:
            width = inputs
            for name, channels, kernel in branch:
                if name in block.fork:
                    for letter, thin in FORKS:
                        self.add_module(name + letter, same(width, channels, thin))
                elif block.pool == "halve" and name == branch[-1][0]:
                    self.add_module(name, Unit(width, channels, kernel, stride=2))
                else:
                    self.add_module(name, same(width, channels, kernel))
                width = channels
            self.outputs += width * (2 if branch[-1][0] in block.fork else 1)
        if block.pooled:
            self.branch_pool = same(inputs, block.pooled, ONE)

    def forward(self, x: Tensor) -> Tensor:
        outputs = [part for branch in self.block.branches for part in self._run(branch, x)]
        return torch.cat([*outputs, self._pooled(x)], 1)

    def _run(self, branch: tuple[Step, ...], x: Tensor) -> list[Tensor]:
        for name, _, _ in branch:
            if name in self.block.fork:
                return [self.get_submodule(name + letter)(x) for letter, _ in FORKS]
            x = self.get_submodule(name)(x)
        return [x]

    def _pooled(self, x: Tensor) -> Tensor:
        if self.block.pool == "halve":
            return F.max_pool2d(x, 3, 2)
        if self.block.pool == "max":
            return self.branch_pool(F.max_pool2d(x, 3, 1, 1))
        return self.branch_pool(F.avg_pool2d(x, 3, 1, 1, count_include_pad=False))


class InceptionNet(nn.Module):
    """(B, 3, 299, 299) in [-1, 1] -> (B, 2048)."""

    def __init__(self) -> None:
        super().__init__()
        self.Conv2d_1a_3x3 = Unit(3, 32, THREE, stride=2)
        self.Conv2d_2a_3x3 = Unit(32, 32, THREE)
        self.Conv2d_2b_3x3 = same(32, 64, THREE)
        self.Conv2d_3b_1x1 = Unit(64, 80, ONE)
        self.Conv2d_4a_3x3 = Unit(80, 192, THREE)
        width = 192
        for name, block in BLOCKS.items():
            mixed = Mixed(block, width)
            self.add_module(name, mixed)
            width = mixed.outputs

    def forward(self, x: Tensor) -> Tensor:
        x = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x)))
        x = self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(F.max_pool2d(x, 3, 2)))
        x = F.max_pool2d(x, 3, 2)
        for name in BLOCKS:
            x = self.get_submodule(name)(x)
        return x.mean((2, 3))
