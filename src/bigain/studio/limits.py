"""What one visitor may ask for, so that nobody stops the others; and errors in words."""

import functools
import inspect
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gradio as gr
from PIL import Image, UnidentifiedImageError

from bigain.checks import whole
from bigain.classify.images import open_image
from bigain.escape import html as escape

MB = 2**20
MAX_UPLOAD = 32 * MB  # a record; the server refuses more
MAX_IMAGE = 8 * MB
MAX_PIXELS = 24_000_000
MAX_NAMES = 50  # class names of one's own
MAX_NAME = 200  # characters
MAX_STEPS = 50
MAX_IMAGES = 4
WAITING = 100  # requests in the queue
AT_ONCE = 2  # of each kind that computes
QUICK = 8  # of what computes nothing
SESSIONS = 500  # visitors whose state is kept
HOUR = 3600  # seconds for which uploads are kept

EXPECTED = (ValueError, TypeError, OSError, FloatingPointError, sqlite3.Error)  # bad input, in our own words


def in_words(answer: Callable[..., Any]) -> Callable[..., Any]:
    """Show errors of bad input to the visitor as text."""
    if inspect.isgeneratorfunction(answer):

        @functools.wraps(answer)
        def streaming(*args: Any, **kwargs: Any) -> Iterator[Any]:
            try:
                yield from answer(*args, **kwargs)
            except EXPECTED as error:
                raise spoken(error) from error

        return streaming

    @functools.wraps(answer)
    def once(*args: Any, **kwargs: Any) -> Any:
        try:
            return answer(*args, **kwargs)
        except EXPECTED as error:
            raise spoken(error) from error

    return once


def spoken(error: Exception) -> gr.Error:
    return gr.Error(escape(str(error) or type(error).__name__), duration=None, print_exception=False)


def check_image(file: str) -> Image.Image:
    """Read an uploaded image, unless it is too large; the size is known before pixels are decoded."""
    path = Path(file)
    if path.stat().st_size > MAX_IMAGE:
        raise ValueError(f"an image must have at most {MAX_IMAGE // MB} MB, got {path.stat().st_size / MB:.1f} MB")
    try:
        with Image.open(path) as opened:
            width, height = opened.size
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError):
        raise ValueError(f"{path.name} cannot be read as an image; use a PNG, JPEG or WebP file") from None
    if width * height > MAX_PIXELS:
        raise ValueError(
            f"an image must have at most {MAX_PIXELS // 10**6} million pixels, got {width} x {height}; scale it down"
        )
    try:
        return open_image(path)
    except ValueError:
        raise ValueError(f"{path.name} is damaged; save it anew as PNG or JPEG") from None


def check_range(name: str, value: Any, low: int, high: int) -> int:
    """A whole number in a range, whatever the browser sent."""
    number = whole(int(value)) if isinstance(value, float) and value.is_integer() else whole(value)
    if number is None or not low <= number <= high:
        raise ValueError(f"{name} must be a whole number from {low} to {high}, got {value!r:.40}")
    return number


def check_names(text: str) -> list[str]:
    """Names by comma or line."""
    names = [part.strip() for part in str(text or "").replace("\n", ",").split(",") if part.strip()]
    if len(names) > MAX_NAMES:
        raise ValueError(f"at most {MAX_NAMES} names, got {len(names)}; `bigain classify` has no limit")
    long = next((name for name in names if len(name) > MAX_NAME), None)
    if long is not None:
        raise ValueError(f"a name must have at most {MAX_NAME} characters, got {len(long)}")
    return names
