"""A checkpoint: what was measured so far, line by line, so that a killed search goes on where it was."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


class Checkpoint:
    """Measured values by name, kept in a file of JSON lines if there is one."""

    def __init__(self, path: Path | None, settings: Mapping[str, Any]) -> None:
        self.path = path
        self.known: dict[str, Any] = {}
        if path is None:
            return
        head = json.loads(json.dumps({"settings": settings}))
        if path.exists() and path.stat().st_size:
            self._read(path, head)
        else:
            path.write_text(json.dumps(head) + "\n", encoding="utf-8")

    def _read(self, path: Path, head: dict[str, Any]) -> None:
        whole, _, torn = path.read_text(encoding="utf-8").rpartition("\n")
        lines = whole.split("\n")
        try:
            first, *rest = [json.loads(line) for line in lines]
            before = first["settings"]
            self.known = {row["name"]: row["value"] for row in rest}
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is not a checkpoint of tune ({error}); use another file, or delete it") from error
        changed = [key for key in {**before, **head["settings"]} if before.get(key) != head["settings"].get(key)]
        if changed:
            raise ValueError(
                f"{path} was begun with other settings: {changed[0]} was {before.get(changed[0])!r} and is now "
                f"{head['settings'].get(changed[0])!r}; use another file, or delete it to begin anew"
            )
        if torn:  # killed while a line was written
            path.write_text(whole + "\n", encoding="utf-8")

    def value(self, name: str, measure: Callable[[], Any]) -> Any:
        """The value of that name, measured and written down if it is not known."""
        if name not in self.known:
            self.known[name] = measure()
            if self.path is not None:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"name": name, "value": self.known[name]}) + "\n")
        return self.known[name]
