"""The wheel holds all that is needed, and works from another place than the clone."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(words, check=True, capture_output=True)
    return folder


def test_both_archives_have_weights_images_and_types(built: Path) -> None:
    wheel, sdist = next(built.glob("*.whl")), next(built.glob("*.tar.gz"))
    with zipfile.ZipFile(wheel) as found:
        inside = set(found.namelist())
    with tarfile.open(sdist) as archive:
        source = {name.partition("/")[2].removeprefix("src/") for name in archive.getnames()}
    package = ROOT / "src" / "bigain"
    wanted = {f"bigain/{p.relative_to(package)}" for p in package.rglob("*") if p.is_file() and p.suffix != ".pyc"}
    assert {"bigain/py.typed", "bigain/zoo/models/fashion-unet/prompts.safetensors"} <= wanted
    assert wanted <= inside
    assert wanted <= source
    assert wheel.stat().st_size < 20e6


def test_the_wheel_runs_in_an_environment_of_its_own(built: Path, tmp_path: Path) -> None:
    """What it depends on is borrowed from this environment; the package is not."""
    place = tmp_path / "env"
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    site = Path(sysconfig.get_path("purelib", vars={"base": str(place)}))
    words = [sys.executable, "-m", "pip", "install", "--no-deps", "--target", site, next(built.glob("*.whl"))]
    subprocess.run(words, check=True, capture_output=True)
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}

    def run(*given: str) -> str:
        words = [str(python), *given]
        return subprocess.run(words, cwd=tmp_path, env=env, check=True, capture_output=True, text=True).stdout

    assert run("-c", "import bigain; print(bigain.__file__)").strip().startswith(str(site))
    run(str(site / "bin" / "bigain"), "demo", "--quick", "--out", "demo")
    assert (tmp_path / "demo" / "report.html").stat().st_size > 100_000
