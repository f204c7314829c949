"""What travels to a node, and how a node shows that it has the same."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from bigain.cluster.nodes import complaint, make_probe, title
from bigain.cluster.parcels import Landing, SentFile, pack, read_file, unpacked
from bigain.commands.generate import generate_all
from bigain.commands.remote import GenerateRecipe, Needs, Wanted
from bigain.commands.request import CompressionOptions, GenerateRequest, weights_of
from bigain.data import Dataset, Example, load_data
from bigain.experiments.chunks import all_chunks
from bigain.experiments.compute import Computer
from bigain.experiments.distributed import parts
from bigain.experiments.experiment import build_experiment
from bigain.experiments.folder import RunFolder
from bigain.experiments.remote import Recipe
from bigain.experiments.runner import Run, decisive
from bigain.experiments.sent import send
from bigain.experiments.subjects import chosen_data, whole_data
from bigain.generation import Sampling
from bigain.loading import load
from helpers.clusters import write_operator
from helpers.own_files import forgetting
from helpers.runs import contents, started


class Shelf:
    """An object store that is a list."""

    def __init__(self) -> None:
        self.things: list[Any] = []

    def put(self, thing: Any) -> int:
        self.things.append(thing)
        return len(self.things) - 1

    def get(self, reference: int) -> Any:
        return self.things[reference]


@pytest.fixture
def words(model: Path) -> dict[str, Any]:
    return contents(model, n=20, rows=contents(model)["rows"][:1])


@pytest.fixture
def recipe(words: dict[str, Any]) -> Recipe:
    experiment = build_experiment(words)
    whole = whole_data(experiment)
    hashes = decisive(experiment, load(experiment.model), whole, chosen_data(experiment, whole))
    return Recipe(words, (), hashes, "cpu")


def test_a_node_with_the_same_is_fit(recipe: Recipe) -> None:
    recipe().check()


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        ("weights", "network.conv_out", "has other weights: network.conv_out$"),
        ("image", "test-01014", "has other images: test-01014$"),
        ("source", "mine.py", "has other code: mine.py$"),
    ],
)
def test_what_a_node_has_otherwise_is_named(kind: str, name: str, text: str, recipe: Recipe) -> None:
    hashes = {**recipe.hashes, kind: {**recipe.hashes[kind], name: "of another"}}
    with pytest.raises(ValueError, match=text):
        replace(recipe, hashes=hashes)().check()


def test_chunks_travel_as_numbers_and_come_back_as_results(
    words: dict[str, Any], recipe: Recipe, tmp_path: Path
) -> None:
    run = Run.start(build_experiment(words), tmp_path, load(words["model"]))
    computer, chunks = recipe(), run.chunks()
    part = parts(run, chunks)
    for number, chunk in enumerate(chunks):
        run.results.put(chunk, computer.compute(part(number)))
        run.results.put(chunk, computer.compute(part(number)))  # as when two workers computed it
    assert all(run.results.done(chunk) for chunk in chunks)
    assert len(run.store.decisions(1)) == 20
    run.results.close()


def test_half_the_batch(recipe: Recipe) -> None:
    remote = recipe()
    rows, images = remote.computer.denoiser.rows_at_once(), remote.computer.denoiser.rows_at_once() // 2
    for share in (2, 4):
        remote.halve()
        assert remote.computer.classified_at_once == rows // share
        assert remote.computer.generated_at_once == images // share
    for _ in range(9):
        remote.halve()
    assert (remote.computer.classified_at_once, remote.computer.generated_at_once) == (1, 1)


def test_generation_halves_its_batch_for_good(
    words: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guidance doubles the rows, so that two images are four rows."""
    with forgetting(tmp_path):
        path = write_operator(tmp_path)
        experiment = build_experiment(
            {**words, "load": [path.name], "tasks": ["generate"], "rows": [{"operator": "moody(ratio=0.5)"}]}, tmp_path
        )
        data = chosen_data(experiment, whole_data(experiment))
        chunk = all_chunks(experiment)[0]
        whole = Computer(experiment, load(words["model"]), data).compute(chunk)
        monkeypatch.setenv("MOODY_ROWS", "4")
        computer = Computer(experiment, load(words["model"]), data)
        found = computer.compute(chunk)
        assert computer.generated_at_once == 2
        assert [row[:2] for row in found.generated] == [row[:2] for row in whole.generated]
        for mine, other in zip(found.pictures, whole.pictures, strict=True):
            assert np.abs(pixels(mine) - pixels(other)).max() <= 1


def pixels(data: bytes) -> np.ndarray:
    path = Landing()
    try:
        with Image.open(path.write(SentFile("image.png", data))) as picture:
            return np.asarray(picture).astype(int)
    finally:
        path.clear()


def test_sent_images_need_nothing_of_home(tmp_path: Path) -> None:
    shelf = Shelf()
    for i in range(20):
        Image.new("L", (4, 4), i).save(tmp_path / f"{i}.png")
    (tmp_path / "3.png").unlink()
    names = [f"{i}.png" for i in range(20)]
    paths = [Example(name, tmp_path / name, (i % 2,)) for i, name in enumerate(names)]
    sent = send(Dataset("mine", "all", ("a", "b"), paths), shelf.put, shelf.get)
    assert len(shelf.things) == 2  # blocks of 16
    shutil.rmtree(tmp_path)
    data = sent.dataset()
    assert (data.classes, data.names) == (("a", "b"), names)
    for i in (0, 17, 19, 4):
        example = data.examples[i]
        assert example.labels == (i % 2,)
        with Image.open(example.image) as picture:
            assert picture.getpixel((0, 0)) == i
        assert sent.landing.original(f"cannot read {example.image}") == f"cannot read {tmp_path / names[i]}"
    with pytest.raises(ValueError, match=r"cannot read .*3.png as an image: .*No such file"):
        data.examples[3]
    sent.landing.clear()
    arrays = load_data("fashion-sample").subset(20)
    there = send(arrays, shelf.put, shelf.get).dataset()
    assert all(np.array_equal(a.image, b.image) for a, b in zip(arrays.examples, there.examples, strict=True))


def test_a_sent_path_never_leaves_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    landing = Landing()
    for path in ("../a.txt", tmp_path / "a.txt"):
        place = landing.write(read_file(path))
        assert landing.folder is not None
        assert place.resolve().is_relative_to(Path(landing.folder).resolve())
        assert landing.original(str(place)) == str(tmp_path / "a.txt")
    landing.clear()
    assert not place.exists()


def test_a_model_is_the_same_when_it_was_sent(model: Path, tmp_path: Path) -> None:
    shelf: Any = Shelf()
    (tmp_path / "pickled.bin").write_bytes(b"x")
    shutil.copytree(model, tmp_path, dirs_exist_ok=True)
    parcel = pack(shelf, tmp_path)
    assert "pickled.bin" not in parcel.files
    with unpacked(shelf, parcel) as folder:
        found = load(folder)
    before = load(model).network.state_dict()
    assert all(value.equal(before[name]) for name, value in found.network.state_dict().items())


@pytest.mark.parametrize(
    ("there", "text"),
    [
        ({}, None),
        ({"torch": None}, "has no torch"),
        ({"torch": "1.0"}, "has torch 1.0 instead of 2"),
        ({"torch": None, "numpy": "1"}, "has no torch and has numpy 1 instead of 4"),
    ],
)
def test_what_a_node_lacks(there: dict[str, str | None], text: str | None) -> None:
    own: dict[str, str | None] = {"torch": "2", "numpy": "4"}
    assert complaint(own, own | there) == text


def test_the_probe_knows_what_is_installed() -> None:
    found = make_probe()(("torch", "no-such-package"))
    assert found["no-such-package"] is None
    assert {"python", "torch", "code of bigain"} <= found.keys()
    assert "+" not in str(found["torch"])


@pytest.mark.parametrize(
    ("name", "text"),
    [("10.0.0.5", "host-5 (10.0.0.5)"), ("worker-5", "worker-5 (10.0.0.5)"), ("", "host-5 (10.0.0.5)")],
)
def test_nodes_have_names_for_people(name: str, text: str) -> None:
    assert title({"NodeName": name, "NodeManagerHostname": "host-5", "NodeManagerAddress": "10.0.0.5"}) == text


def test_claims_are_let_go_when_a_run_is_closed(model: Path, tmp_path: Path) -> None:
    run = started(model, tmp_path)
    assert isinstance(run.results, RunFolder)
    assert run.results.claim(run.chunks()[0])
    run.results.close()
    assert run.results.claims.file is None


def test_a_generator_on_a_node_does_what_the_command_does(model: Path, tmp_path: Path) -> None:
    """With an operator and a cache, which each change the images."""
    request = GenerateRequest(str(model), count=4, compression=CompressionOptions("todo(factor=2)"), cache="every(k=2)")
    sampling, needs = Sampling(3), Needs((), weights_of(str(model)))
    generate_all(request, sampling, tmp_path, Console(quiet=True))
    files = [path.read_bytes() for path in sorted(tmp_path.glob("0*.png"))]
    remote = GenerateRecipe(request, sampling, needs, None)()
    remote.check()
    assert remote.compute(Wanted(0, 4)) == files
    assert [remote.compute(Wanted(i, i + 1))[0] for i in range(4)] == files
    for other in (replace(request, cache=None), replace(request, compression=CompressionOptions())):
        assert GenerateRecipe(other, sampling, needs, None)().compute(Wanted(0, 4)) != files
