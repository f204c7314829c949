"""How a studio is started; checked before anything heavy is imported."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from bigain.checks import whole
from bigain.zoo.catalog import bundled, is_features, locate

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class StudioOptions:
    """The model that the studio begins with, where it listens, and further records to compare."""

    model: str = "fashion-unet"
    host: str = LOOPBACK
    port: int = 7860  # 0 for any free one
    records: Path | None = None

    def check(self) -> None:
        """Raise for words that cannot be meant, and for a missing extra."""
        locate(self.model)
        port = whole(self.port)
        if port is None or not 0 <= port < 65536:
            raise ValueError(f"port must be an int from 0 (any free one) to 65535, got {self.port!r}")
        if self.records is not None and not self.records.is_dir():
            raise FileNotFoundError(f"no folder {self.records}; expected one with records (.sqlite)")
        if find_spec("gradio") is None:
            raise ModuleNotFoundError("the studio needs gradio: pip install bigain[studio]")

    @property
    def models(self) -> list[str]:
        """The models that visitors can choose, the first one first."""
        return list(dict.fromkeys([self.model, *(name for name in bundled() if not is_features(name))]))
