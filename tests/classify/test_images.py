import numpy as np
import pytest
import torch
from PIL import Image

from bigain.backbones.denoiser import Frame
from bigain.classify.images import to_tensor, to_tensors

GREY, COLOUR = Frame(28, 1, 2), Frame(16, 3)


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
@pytest.mark.parametrize("frame", [GREY, COLOUR])
def test_all_modes(mode: str, frame: Frame) -> None:
    found = to_tensor(Image.new(mode, (21, 33)), frame)
    assert found.shape == (frame.channels, frame.size + 2 * frame.padding, frame.size + 2 * frame.padding)
    assert found.min() >= -1
    assert found.max() <= 1


def test_sixteen_bits_are_scaled() -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (28, 28), dtype=np.uint8)
    assert torch.equal(to_tensor(Image.fromarray(pixels.astype(np.uint16) * 257), GREY), to_tensor(pixels, GREY))


@pytest.mark.parametrize("mode", ["I", "F"])
def test_values_without_a_white_are_refused(mode: str) -> None:
    with pytest.raises(ValueError, match=f"mode {mode} does not say which value is white"):
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
        (np.zeros((4, 4)), "uint8"),
        (torch.zeros(3, 8, 8), r"\(3, 16, 16\)"),
        (torch.full((3, 16, 16), 2.0), r"in \[-1, 1\]"),
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


def test_not_an_image() -> None:
    with pytest.raises(TypeError, match="got int"):
        to_tensor(3, COLOUR)
