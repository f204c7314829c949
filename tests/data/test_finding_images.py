"""Which files below a folder are images, and what is said of the others."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bigain.data import load_data
from bigain.data.images import no_file, walk


def test_pipes_sockets_and_dead_links_are_named_and_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    (tmp_path / "a.png").touch()
    os.mkfifo("pipe.png")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket.png")
    (tmp_path / "dead.png").symlink_to("nowhere.png")
    (tmp_path / "self.png").symlink_to("self.png")
    (tmp_path / "zero.png").symlink_to("/dev/null")
    (tmp_path / "notes").symlink_to("nowhere")  # would be no image anyway
    found = walk(tmp_path)
    assert found.images == [tmp_path / "a.png"]
    assert found.left_out == {
        str(tmp_path / "pipe.png"): "a named pipe, not a file",
        str(tmp_path / "socket.png"): "a socket, not a file",
        str(tmp_path / "dead.png"): "a broken link",
        str(tmp_path / "self.png"): "cannot be read: Too many levels of symbolic links",
        str(tmp_path / "zero.png"): "a device, not a file",
    }


def test_links_to_folders_are_followed_once(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "1.png").touch()
    (tmp_path / "a" / "b" / "up").symlink_to(tmp_path)
    (tmp_path / "again").symlink_to(tmp_path / "a")
    (tmp_path / "link.png").symlink_to(tmp_path / "a" / "b" / "1.png")
    found = walk(tmp_path)
    assert [path.name for path in found.images] == ["1.png", "link.png"]
    assert found.left_out == {str(tmp_path / "a" / "b" / "up"): "a link to a parent folder"}


def test_a_deep_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    depth = 1200  # deeper than Python recurses
    for _ in range(depth):
        os.mkdir("d")
        os.chdir("d")
    Path("1.png").touch()
    assert len(walk(tmp_path).images) == 1
    os.remove("1.png")
    for _ in range(depth):  # pytest itself recurses when it clears up
        os.chdir("..")
        os.rmdir("d")


def test_a_folder_that_goes_away_is_named(tmp_path: Path) -> None:
    found = walk(tmp_path / "gone")
    assert found.left_out == {str(tmp_path / "gone"): "cannot be read: No such file or directory"}
    assert no_file(tmp_path / "gone.png") == "no longer exists"


def test_a_folder_without_permission_is_named(tmp_path: Path) -> None:
    """As a user without rights, whoever runs the tests."""
    root = tmp_path / "root"
    closed = root / "closed"
    closed.mkdir(parents=True)
    (closed / "1.png").touch()
    (root / "2.png").touch()
    closed.chmod(0)
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom bigain.data.images import readable_endings, walk\n"
        "readable_endings()\n"
        "os.chdir(sys.argv[1])\n"
        "if os.getuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "print(walk(Path('.')))"
    )
    try:
        done = subprocess.run([sys.executable, "-c", code, root], capture_output=True, text=True, check=True)
    finally:
        closed.chmod(0o755)
    assert "images=[PosixPath('2.png')]" in done.stdout
    assert "left_out={'closed': 'cannot be read: Permission denied'}" in done.stdout


def test_a_dataset_says_what_it_left_out(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").touch()
    os.mkfifo(tmp_path / "dog" / "2.png")
    found = load_data(f"folder({str(tmp_path)!r})")
    assert len(found) == 2
    assert found.describe().endswith(f"; 1 left out, first {tmp_path / 'dog' / '2.png'}: a named pipe, not a file")
