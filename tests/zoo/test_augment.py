"""Random views of training images."""

import pytest
import torch
from torch import Tensor

from bigain.zoo.augment import Augmentation, augmented, middles

NOTHING = Augmentation(mirror=0.0, shift=0, affine=0.0)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def drawings() -> Tensor:
    """White on black, in boxes that are not in the middle: (3, 1, 32, 32)."""
    found = torch.full((3, 1, 32, 32), -1.0)
    found[0, 0, 4:12, 5:17] = torch.where(torch.rand((8, 12), generator=generator()) > 0.3, 1.0, -1.0)
    found[0, 0, [4, 11], 5:17] = 1.0
    found[0, 0, 4:12, [5, 16]] = 1.0
    found[1, 0, 20:23, 9] = 1.0
    return found


def test_no_augmentation_is_the_identity(drawings: Tensor) -> None:
    assert torch.equal(augmented(drawings, NOTHING, generator()), drawings)


def test_a_mirrored_drawing_stays_in_its_box(drawings: Tensor) -> None:
    found = augmented(drawings, Augmentation(mirror=1.0, shift=0, affine=0.0), generator())
    expected = drawings.clone()
    expected[0, 0, 4:12, 5:17] = drawings[0, 0, 4:12, 5:17].flip(1)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)


def test_shifts_are_whole_pixels(drawings: Tensor) -> None:
    found = augmented(drawings.repeat(20, 1, 1, 1), Augmentation(mirror=0.0, shift=2, affine=0.0), generator())
    rolls = [drawings.roll((dy, dx), (2, 3)) for dy in range(-2, 3) for dx in range(-2, 3)]
    known = torch.stack(rolls).flatten(0, 1)
    nearest = (found[:, None] - known).abs().flatten(2).amax(2).amin(1)
    assert nearest.max() < 1e-4
    assert len({tuple(image.flatten().round().tolist()) for image in found[::3]}) > 10


def test_turned_and_scaled_about_the_middle_of_the_drawing(drawings: Tensor) -> None:
    square = torch.full((40, 1, 32, 32), -1.0)
    square[:, 0, 6:16, 8:18] = 1.0
    found = augmented(square, Augmentation(mirror=0.0, shift=0, affine=1.0, rotation=0.0, scale=0.2), generator())
    ink = (found + 1).sum((1, 2, 3)) / 2
    assert ink.min() < 80
    assert ink.max() > 125  # between 64 and 144 pixels
    torch.testing.assert_close(middles(found), middles(square), rtol=0, atol=0.07)
    turned = augmented(square, Augmentation(mirror=0.0, shift=0, affine=1.0, rotation=30.0, scale=0.0), generator())
    torch.testing.assert_close((turned + 1).sum((1, 2, 3)) / 2, torch.full((40,), 100.0), rtol=0.06, atol=0)
    assert not torch.equal(turned[0], turned[1])


def test_the_middle_is_that_of_the_box(drawings: Tensor) -> None:
    x, y = (5 + 16 + 1) / 32 - 1, (4 + 11 + 1) / 32 - 1
    assert middles(drawings).tolist() == [[x, y], [(9 + 9 + 1) / 32 - 1, (20 + 22 + 1) / 32 - 1], [0, 0]]


def test_views_depend_on_the_generator_only(drawings: Tensor) -> None:
    first, again = (augmented(drawings, Augmentation(), generator()) for _ in range(2))
    assert torch.equal(first, again)
    assert first.min() >= -1
    assert first.max() <= 1
