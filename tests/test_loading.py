"""`bigain.load` on folders and Hub model IDs: what it reads, what it refuses, and what it says."""

import hashlib
import json
import os
import pickle
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import bigain
from bigain.denoisers.pipelines import PIPELINES
from helpers.pipelines import JOINT, edit_index, save

pytestmark = pytest.mark.slow

COMMIT = "0123456789" * 4


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save("sd", tmp_path_factory.mktemp("sd"))


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy to do harm to."""
    return shutil.copytree(saved, tmp_path / "pipe")


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **options: Any) -> Any:
        raise OSError("the network was touched")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("name", ["sd", "sdxl", "dit", "pixart", *JOINT])
def test_folders_need_no_network(name: str, tmp_path: Path) -> None:
    denoiser = bigain.load(str(save(name, tmp_path)), dtype=torch.bfloat16, image_size=32)
    assert denoiser.image_spec == (32, 3, 0)
    assert denoiser.latent_shape == (4, 16, 16)
    assert denoiser.dtype == torch.bfloat16
    assert not denoiser.network.training


@pytest.mark.usefixtures("no_network")
def test_a_hub_id_without_network_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"connect to the internet, log in .* or pass a pipeline's folder") as caught:
        bigain.load("nobody/nothing")
    assert "no folder nobody/nothing, and" in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("name", ["fashion", "/no-such-folder", "./no-such", "a/b/c", Path("a/b")])
def test_what_is_neither_a_name_nor_a_folder_nor_a_hub_id(name: Any) -> None:
    with pytest.raises(
        ValueError, match=r"unknown bundled model .*; or pass a folder or a Hub model ID \(owner/name\)"
    ):
        bigain.load(name)


def test_folders_that_are_no_pipelines(folder: Path) -> None:
    (folder / "model_index.json").write_text("{")
    with pytest.raises(ValueError, match="is not a pipeline index"):
        bigain.load(folder)
    (folder / "model_index.json").write_text("[1]")
    with pytest.raises(ValueError, match="is not a pipeline index"):
        bigain.load(folder)
    (folder / "model_index.json").unlink()
    with pytest.raises(ValueError, match=r"neither a bigain model \(bigain.json\) nor a pipeline \(model_index.json\)"):
        bigain.load(folder)


@pytest.mark.parametrize("kind", ["SanaPipeline", "TextToVideoSDPipeline", None, ["mine", "MyPipeline"]])
def test_unsupported_pipelines(kind: Any, folder: Path) -> None:
    edit_index(folder, _class_name=kind)
    expected = f"{kind} is not supported. Supported: {', '.join(sorted(PIPELINES))}"
    with pytest.raises(ValueError, match=re.escape(expected)):
        bigain.load(folder)


@pytest.mark.parametrize("part", ["vae", "text_encoder", "tokenizer", "unet", "scheduler"])
def test_missing_parts(part: str, folder: Path) -> None:
    text = f"has no {part}; to classify or generate it needs unet, vae, text_encoder, scheduler, tokenizer"
    shutil.move(folder / part, folder / "away")
    with pytest.raises(ValueError, match=text):
        bigain.load(folder)
    shutil.move(folder / "away", folder / part)
    edit_index(folder, **{part: [None, None]})
    with pytest.raises(ValueError, match=text):
        bigain.load(folder)


class Trap:
    """Unpickling it writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("part", ["unet", "vae", "text_encoder"])
def test_pickled_weights_are_not_read(part: str, folder: Path) -> None:
    weights = next((folder / part).glob("*.safetensors"))
    pickled = weights.with_name("pytorch_model.bin" if part == "text_encoder" else "diffusion_pytorch_model.bin")
    pickled.write_bytes(pickle.dumps(Trap(folder / "sprung")))
    bigain.load(folder)  # beside safetensors it is let alone
    weights.unlink()
    with pytest.raises(ValueError, match=rf"{part} holds only pickled weights \({pickled.name}\)"):
        bigain.load(folder)
    pickled.unlink()
    with pytest.raises(ValueError, match=f"{part} holds no weights"):
        bigain.load(folder)
    assert not (folder / "sprung").exists()


@pytest.mark.parametrize("damage", ["unet/config.json", "unet", "text_encoder", "tokenizer/tokenizer.json"])
def test_damaged_pipelines(damage: str, folder: Path) -> None:
    path = folder / damage
    path = next(path.glob("*.safetensors")) if path.is_dir() else path
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(
        ValueError, match=r"is not a complete StableDiffusionPipeline|unet/config\.json is not valid JSON"
    ):
        bigain.load(folder)


def test_wrong_and_missing_weights(folder: Path) -> None:
    path = next((folder / "unet").glob("*.safetensors"))
    weights = load_file(path)
    save_file(weights | {"conv_in.weight": torch.zeros(32, 5, 3, 3)}, path, {"format": "pt"})
    with pytest.raises(ValueError, match=r"is not a complete StableDiffusionPipeline .*conv_in.weight"):
        bigain.load(folder)
    del weights["conv_in.weight"]
    save_file(weights, path, {"format": "pt"})
    with pytest.raises(ValueError, match=r"is not a complete StableDiffusionPipeline .*no weights for conv_in.weight"):
        bigain.load(folder)


def test_code_in_a_folder_is_not_run(folder: Path) -> None:
    (folder / "unet" / "mine.py").write_text(f"open({str(folder / 'sprung')!r}, 'w')\n")
    edit_index(folder, unet=["mine", "UNet2DConditionModel"])
    with pytest.raises(ValueError, match=r"is not a complete StableDiffusionPipeline .*custom code"):
        bigain.load(folder)
    assert not (folder / "sprung").exists()


def test_parts_that_are_not_needed_are_left_out(folder: Path) -> None:
    edit_index(
        folder,
        safety_checker=["stable_diffusion", "StableDiffusionSafetyChecker"],
        feature_extractor=["transformers", "CLIPImageProcessor"],
        requires_safety_checker=True,
    )
    assert bigain.load(folder).pipeline.safety_checker is None


class Hub(BaseHTTPRequestHandler):
    """The few answers of the Hugging Face hub that a download asks for; `repos` are folders by their ids."""

    protocol_version = "HTTP/1.1"
    repos: dict[str, Path]

    def log_message(self, *words: Any) -> None:
        pass

    def do_GET(self) -> None:
        words = self.path.split("?")[0].strip("/").split("/")
        asked = words[2:] if words[0] == "api" else words
        root = self.repos.get("/".join(asked[:2]))
        if root is None:
            self.answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif words[0] == "api":
            files = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
            tree = [{"type": "file", "path": path, "size": (root / path).stat().st_size, "oid": path} for path in files]
            about = {"id": "/".join(asked[:2]), "sha": COMMIT, "siblings": [{"rfilename": path} for path in files]}
            self.answer(200, json.dumps(tree if "tree" in asked else about).encode(), {})
        else:
            data = (root / "/".join(asked[4:])).read_bytes()
            self.answer(200, data, {"X-Repo-Commit": COMMIT, "ETag": f'"{hashlib.sha1(data).hexdigest()}"'})

    def do_HEAD(self) -> None:
        self.do_GET()

    def answer(self, code: int, body: bytes, heads: dict[str, str]) -> None:
        self.send_response(code)
        for key, value in (heads | {"Content-Length": str(len(body))}).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.fixture
def hub(saved: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a hub with a good pipeline, one of another family, and one with pickled weights."""
    other, pickled = (shutil.copytree(saved, tmp_path / name) for name in ("other", "pickled"))
    edit_index(other, _class_name="SanaPipeline")
    weights = next((pickled / "unet").glob("*.safetensors"))
    weights.rename(weights.with_suffix(".bin"))
    Hub.repos = {"me/good": saved, "me/other": other, "me/pickled": pickled}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


LOAD_ALL = """
import bigain
print("good", type(bigain.load("me/good")).__name__)
for name in ("me/other", "me/pickled", "me/nothing"):
    try:
        bigain.load(name)
    except ValueError as error:
        print(name, error)
"""


def test_hub_ids_are_fetched_once(hub: str, tmp_path: Path) -> None:
    place = os.environ | {"HF_ENDPOINT": hub, "HF_HOME": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", LOAD_ALL], env=place, capture_output=True, text=True, check=True)
    good, other, pickled, nothing = done.stdout.splitlines()
    assert good == "good TextDenoiser"
    assert "SanaPipeline is not supported" in other
    assert "cannot download me/pickled with safetensors weights, the only supported format" in pickled
    assert "log in with `hf auth login`" in nothing
    cached = {path.suffix for path in (tmp_path / "cache").rglob("models--me--o*/snapshots/*/**/*")}
    assert cached == {".json"}, "only the index of the refused pipeline was fetched"
