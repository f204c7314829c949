import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from bigain.classify.images import to_tensor, to_tensors
from bigain.denoisers.base import ImageSpec

GREY, COLOUR = ImageSpec(28, 1, 2), ImageSpec(16, 3)


def test_an_image_of_the_right_size_is_only_scaled_and_padded() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (28, 28), dtype=np.uint8)
    found = to_tensor(pixels, GREY)
    assert found.shape == (1, 32, 32)
    assert torch.equal(found[0, 2:-2, 2:-2], torch.from_numpy(pixels).float() / 127.5 - 1)
    assert (found[0, :2] == -1).all()


def test_path_pil_array_and_tensor_agree(tmp_path) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (40, 30, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    ways = [tmp_path / "a.png", str(tmp_path / "a.png"), Image.fromarray(pixels), pixels]
    ways.append(torch.from_numpy(pixels).permute(2, 0, 1))
    first, *others = to_tensors(ways, COLOUR)
    assert first.shape == (3, 16, 16)
    assert all(torch.equal(first, other) for other in others)


def test_short_side_and_centre_crop() -> None:
    pixels = np.zeros((16, 48, 3), dtype=np.uint8)
    pixels[:, 16:32] = 255
    assert (to_tensor(pixels, COLOUR) == 1).all()


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
@pytest.mark.parametrize("image_spec", [GREY, COLOUR])
def test_all_modes(mode: str, image_spec: ImageSpec) -> None:
    found = to_tensor(Image.new(mode, (21, 33)), image_spec)
    assert found.shape == (
        image_spec.channels,
        image_spec.size + 2 * image_spec.padding,
        image_spec.size + 2 * image_spec.padding,
    )
    assert found.min() >= -1
    assert found.max() <= 1


def test_sixteen_bits_are_scaled() -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (28, 28), dtype=np.uint8)
    assert torch.equal(to_tensor(Image.fromarray(pixels.astype(np.uint16) * 257), GREY), to_tensor(pixels, GREY))


@pytest.mark.parametrize("mode", ["I", "F"])
def test_values_without_a_white_are_refused(mode: str) -> None:
    with pytest.raises(ValueError, match=f"mode {mode} does not define white"):
        to_tensor(Image.new(mode, (28, 28)), GREY)


def test_transparency_is_white() -> None:
    assert (to_tensor(Image.new("RGBA", (16, 16), (0, 0, 0, 0)), COLOUR) == 1).all()


def test_exif_rotation(tmp_path) -> None:
    pixels = np.zeros((16, 16, 3), dtype=np.uint8)
    pixels[:8] = 255
    picture = Image.fromarray(pixels)
    exif = picture.getexif()
    exif[0x0112] = 6
    picture.save(tmp_path / "a.png", exif=exif)
    found = to_tensor(tmp_path / "a.png", COLOUR)
    assert (found[:, :, 8:] == 1).all()
    assert (found[:, :, :8] == -1).all()


@pytest.mark.parametrize(
    ("image", "text"),
    [
        ("nowhere.png", "cannot read nowhere.png"),
        (np.zeros((4, 4), np.int64), r"got int64 \(4, 4\); convert values of 0 to 255 to uint8"),
        (np.full((4, 4), 255.0), r"must be in \[0, 1\], got 255 to 255; divide it by 255"),
        (np.full((4, 4), -1.0), r"must be in \[0, 1\], got -1 to -1; scale it to \[0, 1\], or pass a float tensor"),
        (np.full((4, 4), np.nan), r"must be in \[0, 1\], got NaN or infinite values"),
        (np.zeros((0, 4), np.uint8), r"got uint8 \(0, 4\)"),
        (np.zeros((5, 6, 7), np.uint8), r"\(h, w, 1 | 3 | 4\), got uint8 \(5, 6, 7\)"),
        (np.zeros((2, 4, 4, 3), np.uint8), r"got a batch of shape \(2, 4, 4, 3\)"),
        (np.zeros((1, 1, 1, 4, 4), np.uint8), r"got uint8 \(1, 1, 1, 4, 4\)"),
        (
            torch.zeros(3, 8, 8),
            r"\(3, 16, 16\) in \[-1, 1\], got \(3, 8, 8\); pass a path, a PIL image or uint8 to have it resized",
        ),
        (torch.full((3, 16, 16), 2.0), r"in \[-1, 1\], got 2 to 2; for values from 0 to 255 use image / 127.5 - 1"),
        (torch.full((3, 16, 16), -2.0), r"in \[-1, 1\], got -2 to -2$"),
        (torch.full((3, 16, 16), torch.nan), "got NaN or infinite values"),
    ],
)
def test_bad_images(image: object, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        to_tensor(image, COLOUR)


def test_truncated_file(tmp_path) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(tmp_path / "a.png")
    data = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match=r"cannot read .*a\.png"):
        to_tensor(tmp_path / "a.png", COLOUR)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "got int$"),
        (None, "got NoneType$"),
        ({"image": 1}, "got a dict; pass the image inside it"),
        ([1, 2], "got a list; pass images one by one, or pixels as a numpy array"),
        ((i for i in range(2)), "got a generator; pass images one by one"),
        (b"\x89PNG", "got bytes; open it with PIL.Image.open"),
    ],
    ids=["int", "none", "dict", "list", "generator", "bytes"],
)
def test_not_an_image(value: object, text: str) -> None:
    with pytest.raises(TypeError, match=f"an image must be a path, a PIL image, an array or a tensor, {text}"):
        to_tensor(value, COLOUR)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"a\.png as an image: it is not a regular file"):
        to_tensor(tmp_path / "a.png", COLOUR)


def test_arrays_of_all_kinds_agree() -> None:
    """Floats in [0, 1], channels first or last, with one channel or none: the image of the bytes."""
    pixels = np.random.default_rng(4).integers(0, 256, (20, 24, 3), dtype=np.uint8)
    wanted = to_tensor(pixels, COLOUR)
    tensor = torch.from_numpy(pixels)
    first = pixels.transpose(2, 0, 1)
    for same in (pixels / 255, (pixels / 255).astype(np.float32), first, first / 255, tensor, tensor.permute(2, 0, 1)):
        assert torch.equal(to_tensor(same, COLOUR), wanted)
    grey = pixels[..., 0]
    for same in (grey / 255, grey[..., None], grey[None], torch.from_numpy(grey)):
        assert torch.equal(to_tensor(same, GREY), to_tensor(grey, GREY))


def test_bools_are_black_and_white() -> None:
    mask = np.arange(28 * 28).reshape(28, 28) % 3 == 0
    assert torch.equal(to_tensor(mask, GREY), to_tensor(mask.astype(np.uint8) * 255, GREY))
    assert torch.equal(to_tensor(torch.from_numpy(mask), GREY), to_tensor(mask, GREY))


def test_where_both_orders_are_possible_the_documented_one_counts() -> None:
    pixels = np.zeros((3, 8, 3), np.uint8)
    pixels[..., 0] = 255  # red, channels last
    assert (to_tensor(pixels, COLOUR)[0] == 1).all()
