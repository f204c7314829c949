"""Bad and odd inputs to the public functions, by table: what is refused, in which words, and what works.

Each case is a name, a call, and words that the error must hold, one table for each kind of error; in the last table
what the call must give.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import bigain
from bigain import DiffusionClassifier, GatedMerge, KVDownsample, KVSelect, SiTo, TimestepProfile, ToDo, ToMe, Where
from bigain.bench.speed import Bench
from bigain.classify.policies import Exhaustive, Stages, parse_policy
from bigain.classify.race import Race
from bigain.classify.trials import check_timesteps, even_timesteps
from bigain.data import load_data
from bigain.data.dataset import Example
from bigain.generation import Sampling
from helpers.input_world import World, pixels
from helpers.toys import points

OWN = SimpleNamespace(rounds=lambda state, sampler: iter(()))
SEED = "seed must be an int from 0 to 2**63 - 1, got "
DRAWN = "seed must be an int from 0 to 2**31 - 1, got "
WINDOW = "window must be an int of at least 2 or a pair (height, width), got "
FACTOR = "factor must be an int of at least 1, got "
IMAGE = "an image must be a path, a PIL image, an array or a tensor, got "
POLICY = 'policy must be a string such as "race(confidence=0.95)" or an instance, got '
BATCH = 'batch_size must be an int of at least 1, or "auto", got '
GROUPS = 'groups must be None, an int of at least 1, "cfg", "input" or "classes", got '
PROMPTS = 'prompts must be a string with one {} for the class, like "a photo of a {}", got '
STEPS = 'timesteps must be "even", "random", "fitted", a TimestepProfile, its JSON file or a sequence of ints, got '
STEP_COUNT = "num_inference_steps must be an int of at least 1, got "
GUIDANCE = "guidance_scale must be a number of at least 0 (1 means no guidance), got "


@pytest.fixture(scope="module")
def world() -> World:
    return World()


Case = tuple[str, Callable[[World], Any], Any]  # name, call, and the words of the error or what it gives

TYPE_ERRORS: list[Case] = [
    # operators
    ("operator=5", lambda w: w.compress(5), "operator must be an instance or a string, got 5. Available: block_merge"),
    ("operator=None", lambda w: w.compress(None), "operator must be an instance or a string, got None. Available: "),
    ("operator a class", lambda w: w.compress(GatedMerge), "such as GatedMerge(…), or a string, got the class"),
    ("operator a list", lambda w: w.compress(["todo(2)"]), "or a string, got ['todo(2)']. Av"),
    ("ratio a text", lambda w: GatedMerge("0.5"), "ratio must be a number in [0, 1), got '0.5'"),
    ("ratio a tensor", lambda w: GatedMerge(torch.tensor(0.5)), "a number in [0, 1), got tensor(0.5000)"),
    ("parse(5)", lambda w: bigain.parse(5), 'the operator must be a string such as name(ratio=0.7, key="word"), got 5'),
    ("parse bytes", lambda w: bigain.parse(b"todo(2)"), "the operator must be a string"),
    # where, reuse, groups, the model
    ("where=5", lambda w: w.compress("todo(2)", where=5), "must be a Where, a function of a Site or a string, got 5"),
    ("where a class", lambda w: w.compress("todo(2)", where=Where), "where must be a Where, a function of"),
    ("downsample a float", lambda w: Where(downsample=1.0), "downsample must be an int or a sequence of ints, got 1.0"),
    ("index a text", lambda w: Where(index="1"), "index must be an int or a sequence of ints, got '1'"),
    ("index of bools", lambda w: Where(index=(True,)), "index must be an int or a sequence of ints, got (True,)"),
    ("only=5", lambda w: Where(only=5), "only must be a function of a Site, got 5"),
    ("model=None", lambda w: bigain.compress(None, "todo(2)"), "a unet or a transformer, got NoneType"),
    ("model a text", lambda w: bigain.compress("sd2", "todo(2)"), "model must be a torch module, a denoiser"),
    ("model a layer", lambda w: bigain.compress(torch.nn.Linear(2, 2), "todo(2)"), "Linear is not supported. Sup"),
    # the classifier
    ("denoiser a text", lambda w: DiffusionClassifier("fashion-dit", "ab"), "call bigain.load('fashion-dit') first"),
    ("denoiser a network", lambda w: DiffusionClassifier(w.unet, "ab"), "be a diffusers pipeline, got UNet2D"),
    ("denoiser=None", lambda w: DiffusionClassifier(None, "ab"), "must come from bigain.load or be a diffusers"),
    ("classes=5", lambda w: w.classifier(5), "classes must be a list of names or numbers, got 5"),
    ("classes=None", lambda w: w.classifier(None), "classes must be a list of names or numbers, got None"),
    ("classes a set", lambda w: w.classifier({0, 1}), "classes must be ordered, got a set; use sorted(classes)"),
    ("classes a dict", lambda w: w.classifier({0: 1, 2: 3}), "got a dict; use list(classes) or"),
    ("classes of paths", lambda w: w.classifier([Path("a"), Path("b")]), "or a label number, got PosixPath('a')"),
    ("classes of floats", lambda w: w.classifier([0.0, 1.0]), "a string or a label number, got 0.0"),
    ("classes of bools", lambda w: w.classifier([False, True]), "a string or a label number, got False"),
    ("classes of lists", lambda w: w.classifier([[0], [1]]), "a string or a label number, got [0]"),
    ("policy=5", lambda w: w.classifier(policy=5), POLICY + "5. Available: paper, balanced, fast, curtail, race"),
    ("policy a class", lambda w: w.classifier(policy=Stages), "an instance, such as Stages(), got the class Stages"),
    ("policy a list", lambda w: w.classifier(policy=["race"]), POLICY + "['race']"),
    ("policy a dict", lambda w: w.classifier(policy={}), POLICY + "{}"),
    ("data=5", lambda w: load_data(5), "data must be a string such as \"folder('my/images')\", got 5"),
    # images
    ("image None", lambda w: pixels(None), IMAGE + "NoneType"),
    ("image a dict", lambda w: pixels({"bytes": b""}), IMAGE + "a dict; pass the image inside it"),
    ("image a generator", lambda w: pixels(iter([1])), IMAGE + "a list_iterator; pass images one by one"),
    ("image bytes", lambda w: pixels(b"x"), IMAGE + "bytes; open it with PIL.Image.open"),
    ("one image as a list", lambda w: w.classifier()(Image.new("L", (4, 4))), "images must be a list, like"),
]  # fmt: skip

VALUE_ERRORS: list[Case] = [
    # operators
    ("operator misspelt", lambda w: w.compress("tomé(0.5)"), "unknown operator 'tomé'. Did you mean 'tome'?"),
    ("operator with code", lambda w: w.compress("todo(open('x'))"), "cannot read the operator"),
    ("ratio in percent", lambda w: w.compress("tome(50)"), "got 50; did you mean 0.5?"),
    ("ratio NaN", lambda w: GatedMerge(float("nan")), "in [0, 1), got nan"),
    ("window 2.0", lambda w: GatedMerge(0.5, window=2.0), WINDOW + "2.0"),
    ("window numpy 0", lambda w: GatedMerge(0.5, window=np.int64(0)), WINDOW + "0"),
    ("window an array", lambda w: GatedMerge(0.5, window=np.array([2, 2])), WINDOW + "array([2, 2])"),
    ("factor a float", lambda w: ToDo(2.0), FACTOR + "2.0"),
    ("factor numpy 0", lambda w: ToDo(np.int32(0)), FACTOR + "0"),
    ("factor a numpy bool", lambda w: ToDo(np.True_), FACTOR + "np.True_"),
    ("scorer a list", lambda w: GatedMerge(0.5, scorer=["l1_norm"]), "scorer ['l1_norm']. Did you mean 'l1_norm'?"),
    ("pattern a dict", lambda w: ToMe(0.5, pattern={}), "unknown pattern {}. Available: per_call, per_row"),
    ("keep a text", lambda w: KVSelect("half"), "keep must be in (0, 1], got 'half'"),
    ("alpha a triple", lambda w: KVDownsample(2, (1, 2, 3)), "a pair (at high noise, at low noise), got"),
    ("noise a list", lambda w: SiTo(0.5, noise=[0.1]), "noise must be a number of at least 0, got [0.1]"),
    ("tome seed 1.5", lambda w: ToMe(0.5, seed=1.5), DRAWN + "1.5"),
    ("tome seed 3.0", lambda w: ToMe(0.5, seed=3.0), DRAWN + "3.0"),
    ("tome seed a text", lambda w: ToMe(0.5, seed="3"), DRAWN + "'3'"),
    ("sito seed True", lambda w: SiTo(0.5, seed=True), DRAWN + "True"),
    ("sito seed too large", lambda w: SiTo(0.5, seed=2**80), DRAWN + str(2**80)),
    # where, reuse, groups, the model
    ("where unread", lambda w: w.compress("todo(2)", where="part=down"), "cannot read the sites 'part=down'"),
    ("where empty", lambda w: w.compress("todo(2)", where=lambda site: False), "matches no site of"),
    ("module=5", lambda w: Where(module=5), "unknown module 5. Available: self, cross, mlp"),
    ("no such grid", lambda w: w.compress("todo(2)", where=Where(downsample=np.int64(9))), "no site at downsample 9"),
    ("reuse a list", lambda w: w.compress("todo(2)", reuse=["stage"]), "must be None or \"stage\", got ['stage']"),
    ("groups 0", lambda w: w.compress("tome(0.5)", groups=np.int64(0)), GROUPS),
    ("groups 2.0", lambda w: w.compress("tome(0.5)", groups=2.0), GROUPS + "2.0"),
    ("groups an array", lambda w: w.compress("tome(0.5)", groups=np.array([2, 2])), GROUPS + "array([2, 2])"),
    # the classifier
    ("classes a text", lambda w: w.classifier("bag"), "classes must have at least two elements, got ['bag']"),
    ("classes empty", lambda w: w.classifier([]), "classes must have at least two elements, got []"),
    ("class twice", lambda w: w.classifier([1, np.int64(1)]), "classes must be unique, got 1 more than once"),
    ("name and number", lambda w: DiffusionClassifier(w.bundled, ["bag", 8]), "'bag' and 8 are the same class of this"),
    ("two synonyms", lambda w: DiffusionClassifier(w.pipeline, ["tench", "Tinca tinca"]), "and 'Tinca tinca' are the"),
    ("class unknown", lambda w: DiffusionClassifier(w.bundled, ["bag", "boat"]), "unknown class 'boat'. Did you mean"),
    ("class number", lambda w: DiffusionClassifier(w.bundled, [0, -1]), "no class number -1; this model has 0..9"),
    ("policy misspelt", lambda w: w.classifier(policy="rase"), "unknown policy 'rase'. Did you mean 'race'?"),
    ("policy empty", lambda w: w.classifier(policy=""), "cannot read the policy ''"),
    ("prompts=None", lambda w: w.classifier(prompts=None), PROMPTS + "None"),
    ("prompts without {}", lambda w: w.classifier(prompts="a photo"), PROMPTS + "'a photo'"),
    ("prompts a list", lambda w: w.classifier(prompts=["{}"]), PROMPTS + "['{}']"),
    ("batch_size 2.0", lambda w: w.classifier(batch_size=2.0), BATCH + "2.0"),
    ("batch_size 0", lambda w: w.classifier(batch_size=np.int64(0)), BATCH),
    ("batch_size None", lambda w: w.classifier(batch_size=None), BATCH + "None"),
    ("batch_size a word", lambda w: w.classifier(batch_size="big"), BATCH + "'big'"),
    ("loss a list", lambda w: w.classifier(loss=["l2"]), "unknown loss ['l2']"),
    ("loss misspelt", lambda w: w.classifier(loss="l3"), "unknown loss 'l3'. Available: l2, l1, huber"),
    ("seed 1.5", lambda w: w.classifier(seed=1.5), SEED + "1.5"),
    ("seed a text", lambda w: w.classifier(seed="3"), SEED + "'3'"),
    ("seed True", lambda w: w.classifier(seed=True), SEED + "True"),
    ("seed None", lambda w: w.classifier(seed=None), SEED + "None"),
    ("seed -1", lambda w: w.classifier(seed=-1), SEED + "-1"),
    ("seed 2**80", lambda w: w.classifier(seed=2**80), SEED + str(2**80)),
    ("timesteps=5", lambda w: w.classifier(timesteps=5), STEPS + "5"),
    ("timesteps misspelt", lambda w: w.classifier(timesteps="evn"), STEPS + "'evn'"),
    ("timesteps of texts", lambda w: w.classifier(timesteps=["25"]), "ints from 0 to 999, got '25'"),
    ("timesteps beyond", lambda w: w.classifier(timesteps=[1000]), "ints from 0 to 999, got 1000"),
    ("timesteps NaN", lambda w: w.classifier(timesteps=[float("nan")]), "ints from 0 to 999, got nan"),
    ("fitted of none", lambda w: w.classifier(timesteps="fitted"), "call classifier.fit(images, labels)"),
    ("curtail unfitted", lambda w: w.classifier(policy="curtail")(points(1)), "curtail needs fitted timesteps: timest"),
    ("cascade alone", lambda w: w.classifier(policy="cascade"), "a cascade needs final="),
    ("final alone", lambda w: w.classifier(final=w.toy), "and final= needs a cascade"),
    ("final of another size", lambda w: w.classifier(policy="cascade", final=w.bundled), "final must have the same"),
    ("profile of no weights", lambda w: TimestepProfile((5, 6), (1,)), "weights must be 2 positive numbers"),
    ("profile of weight 0", lambda w: TimestepProfile((5, 6), (1, 0)), "weights must be 2 positive numbers"),
    ("profile of no steps", lambda w: TimestepProfile((), ()), "timesteps must be ints of at least 0, and at"),
    ("profile of scale 0", lambda w: TimestepProfile((5,), (1,), scale=0), "scale must be a positive number or None"),
    ("fit of trials", lambda w: w.classifier().fit(points(10), trials=30), "trials must be an int from 1 to 20"),
    ("fit of nine", lambda w: w.classifier().fit(points(9)), "at least 10 images are needed, better 100, got 9"),
    ("calibrate on three", lambda w: w.classifier().calibrate(points(3), [0, 1, 2]), "at least 10 labelled images are"),
    ("calibrate on one class", lambda w: w.classifier().calibrate(points(10), [1] * 10), "got 1 for all 10 images"),
    ("labels too few", lambda w: w.classifier().calibrate(points(10), [1]), "got 1 for 10 images"),
    ("label unknown", lambda w: w.classifier().fit(points(10), [9] * 10), "class 9. Available: 0, 1"),
    # policies
    ("stages of floats", lambda w: Stages((5.0, 20), (5, 1)), "trials must be a list of ints, one per stage, got"),
    ("stages of one", lambda w: Stages(5, 1), "trials must be a list of ints, one per stage, got 5"),
    ("stages that fall", lambda w: Stages((20, 5), (5, 1)), "trials must be cumulative and increasing, got (20, 5)"),
    ("stages uneven", lambda w: Stages((5, 20), (1,)), "trials and keep must have the same length, got (5, 20) and"),
    ("exhaustive 2.5", lambda w: Exhaustive(2.5), "trials must be an int of at least 1, got 2.5"),
    ("exhaustive beyond", lambda w: w.classifier(policy=Exhaustive(2000))(points(1)), "from 1 to 1000, the model's"),
    ("race sure", lambda w: Race(1.0), "confidence must be a probability between 0 and 1, got 1.0"),
    ("race in words", lambda w: parse_policy("race('0.9')"), "between 0 and 1, got '0.9'"),
    ("race of floats", lambda w: Race(max_trials=20.0), "ints with 2 <= first <= max_trials, got 3 and 20.0"),
    # images
    ("image missing", lambda w: pixels("no.png"), "cannot read no.png as an image"),
    ("image a folder", lambda w: pixels(Path(__file__).parent), "as an image: [Errno 21] Is a directory"),
    ("image a text file", lambda w: pixels(__file__), "cannot identify image file"),
    ("image of ints", lambda w: pixels(np.zeros((9, 9), int)), "convert values of 0 to 255 to uint8"),
    ("image of objects", lambda w: pixels(np.array([[None]])), "must be uint8, or floats in [0, 1], got object"),
    ("image of texts", lambda w: pixels(np.array([["a"]])), "an array must be uint8, or floats in [0, 1], got <U1"),
    ("floats to 255", lambda w: pixels(np.full((9, 9), 255.0)), "must be in [0, 1], got 255 to 255; divide it by 255"),
    ("floats from -1", lambda w: pixels(np.full((9, 9), -1.0)), "scale it to [0, 1], or pass a float tensor"),
    ("NaN", lambda w: pixels(np.full((9, 9), np.nan)), "got NaN or infinite values"),
    ("no pixels", lambda w: pixels(np.zeros((0, 9), np.uint8)), "got uint8 (0, 9)"),
    ("a batch", lambda w: pixels(np.zeros((1, 9, 9, 3), np.uint8)), "got a batch of shape (1, 9, 9, 3); pass a list"),
    ("five axes", lambda w: pixels(np.zeros((1,) * 5, np.uint8)), "got uint8 (1, 1, 1, 1, 1)"),
    ("seven channels", lambda w: pixels(np.zeros((9, 9, 7), np.uint8)), "(h, w, 1 | 3 | 4), got uint8 (9, 9, 7)"),
    ("tensor of another size", lambda w: pixels(torch.zeros(3, 9, 9)), "got (3, 9, 9); pass a path, a PIL image or"),
    ("tensor to 255", lambda w: pixels(torch.full((3, 16, 16), 200.0)), "from 0 to 255 use image / 127.5 - 1"),
    ("tensor NaN", lambda w: pixels(torch.full((3, 16, 16), torch.nan)), "got NaN or infinite values"),
    ("mode F", lambda w: pixels(Image.new("F", (9, 9))), "mode F does not define white"),
    # models, sampling, data, bench
    ("load a typo", lambda w: bigain.load("fashion-unt"), "unknown bundled model 'fashion-unt'. Did you mean"),
    ("load=5", lambda w: bigain.load(5), "a bundled name, a folder or a Hub model ID, got 5"),
    ("load nothing", lambda w: bigain.load(""), "a bundled name, a folder or a Hub model ID, got ''"),
    ("load a long name", lambda w: bigain.load("a" * 5000), "a folder or a Hub model ID, got 'aaaa"),
    ("dtype a text", lambda w: bigain.load("fashion-dit", dtype="float16"), "such as torch.float16, got 'float16'"),
    ("dtype of ints", lambda w: bigain.load("fashion-dit", dtype=torch.int8), "such as torch.float16, got torch.int8"),
    ("load a file", lambda w: bigain.load(Path(__file__)), "or pass a folder or a Hub model ID"),
    ("load an empty folder", lambda w: bigain.load(Path(__file__).parent), "has neither a bigain model (bigain"),
    ("sampling seed", lambda w: Sampling(seed=1.5), SEED + "1.5"),
    ("sampling seed None", lambda w: Sampling(seed=None), SEED + "None"),
    ("sampling steps", lambda w: Sampling(num_inference_steps=2.5), STEP_COUNT + "2.5"),
    ("guidance a text", lambda w: Sampling(guidance_scale="4"), GUIDANCE + "'4'"),
    ("guidance NaN", lambda w: Sampling(guidance_scale=float("nan")), GUIDANCE + "nan"),
    ("subset of none", lambda w: w.data.subset(0), "n must be from 1 to 20, the size of fashion-sample test, got 0"),
    ("subset 2.0", lambda w: w.data.subset(2.0), "n must be from 1 to 20, the size of fashion-sample test, got 2.0"),
    ("subset seed", lambda w: w.data.subset(2, seed="0"), SEED + "'0'"),
    ("data misspelt", lambda w: load_data("fashion-smaple"), "Did you mean 'fashion-sample'?"),
    ("data without quotes", lambda w: load_data("folder(my/images)"), "cannot read the dataset 'folder(my/images)'"),
    ("data of one label", lambda w: replace(w.data, examples=[Example("a", None, (99,))]), "not one label from 0 to 9"),
    ("bench rounds", lambda w: Bench(rounds="7"), "rounds must be an int of at least 1, got '7'"),
    ("candidates 2.5", lambda w: even_timesteps(1000, 2.5), "the model's num_train_timesteps, got 2.5"),
    ("trials of none", lambda w: even_timesteps(1000, 0), "trials must be from 1 to 1000, the model's"),
]  # fmt: skip


def assert_refused(case: Case, world: World, error: type[Exception]) -> None:
    _, call, words = case
    with pytest.raises(error) as raised:
        call(world)
    assert words in str(raised.value)
    assert type(raised.value) is error  # not a subclass that some library raised


@pytest.mark.parametrize("case", TYPE_ERRORS, ids=lambda case: case[0])
def test_of_another_kind(case: Case, world: World) -> None:
    assert_refused(case, world, TypeError)


@pytest.mark.parametrize("case", VALUE_ERRORS, ids=lambda case: case[0])
def test_of_another_value(case: Case, world: World) -> None:
    assert_refused(case, world, ValueError)


WORKS: list[Case] = [
    ("numpy window", lambda w: bigain.spec(GatedMerge(0.5, window=np.int64(4))), "gated_merge(ratio=0.5, window=4)"),
    ("numpy pair", lambda w: bigain.spec(ToMe(0.5, window=(np.int8(1), np.int8(2)))), "tome(ratio=0.5, window=(1, 2))"),
    ("numpy factor", lambda w: bigain.spec(ToDo(np.uint8(4))), "todo(factor=4)"),
    ("numpy ratio", lambda w: bigain.spec(GatedMerge(np.float32(0.5))), "gated_merge(ratio=0.5)"),
    ("numpy alpha", lambda w: bigain.spec(KVDownsample(2, np.float32(0.5))), "kv_downsample(alpha=0.5)"),
    ("numpy noise", lambda w: bigain.spec(SiTo(0.5, noise=np.float32(0.5))), "sito(ratio=0.5, noise=0.5)"),
    ("numpy seed of tome", lambda w: bigain.spec(ToMe(0.5, seed=np.int64(3))), "tome(ratio=0.5, seed=3)"),
    ("numpy downsample", lambda w: repr(Where(downsample=np.int64(1)).downsample), "1"),
    ("numpy indices", lambda w: repr(Where(index=np.arange(2)).index), "(0, 1)"),
    ("a generator of tokens", lambda w: Where(tokens=(n for n in (16, 64))).tokens, (16, 64)),
    ("a range of indices", lambda w: Where(index=range(3)).index, range(3)),
    ("numpy groups", lambda w: w.compress("tome(0.5)", groups=np.int64(2)), None),
    ("classes of a generator", lambda w: w.classifier(k for k in range(3)).classes, (0, 1, 2)),
    ("classes of an array", lambda w: w.classifier(np.arange(3)).classes, (0, 1, 2)),
    ("classes of a tensor", lambda w: w.classifier(torch.arange(3)).classes, (0, 1, 2)),
    ("classes of numpy texts", lambda w: type(w.classifier(np.array(["0", "1"])).classes[0]), str),
    ("policy None", lambda w: w.classifier(policy=None).policy, Stages()),
    ("a policy of one's own", lambda w: type(w.classifier(policy=OWN).policy), SimpleNamespace),
    ("stages of lists", lambda w: Stages([5, 20], [5, 1]), Stages()),
    ("stages of arrays", lambda w: Stages(np.array([5, 20]), np.array([5, 1])), Stages()),
    ("numpy trials", lambda w: repr(Exhaustive(np.int64(5))), "Exhaustive(trials=5)"),
    ("numpy race", lambda w: repr(Race(np.float64(0.5), np.int64(9))), repr(Race(0.5, 9))),
    ("numpy batch size", lambda w: type(w.classifier(batch_size=np.int32(8)).batch_size), int),
    ("numpy seed", lambda w: w.classifier(seed=np.uint64(7)).seed, 7),
    ("largest seed", lambda w: w.classifier(seed=2**63 - 1).seed, 2**63 - 1),
    ("timesteps of an array", lambda w: w.classifier(timesteps=np.array([25, 75])).timesteps.timesteps, (25, 75)),
    ("timesteps of a tensor", lambda w: check_timesteps(torch.tensor([25, 75]), 1000).timesteps, (25, 75)),
    ("a pipeline as denoiser", lambda w: DiffusionClassifier(w.pipeline, [0, "goldfish"]).classes, (0, "goldfish")),
    ("numpy sampling", lambda w: repr(Sampling(np.int64(9), seed=np.int8(2))), repr(Sampling(9, seed=2))),
    ("numpy subset", lambda w: len(w.data.subset(np.int64(3), seed=np.int64(1))), 3),
    ("same subset", lambda w: w.data.subset(3, seed=np.int64(1)).names == w.data.subset(3, seed=1).names, True),
    ("floats in 0..1", lambda w: float(pixels(np.ones((9, 9, 3))).min()), 1.0),
    ("floats beyond by rounding", lambda w: float(pixels(np.full((9, 9), 1 + 1e-7)).min()), 1.0),
    ("channels first", lambda w: tuple(pixels(np.zeros((3, 9, 12), np.uint8)).shape), (3, 16, 16)),
    ("bools", lambda w: float(pixels(np.ones((9, 9), bool)).min()), 1.0),
    ("a tensor that needs a gradient", lambda w: pixels(torch.zeros(3, 16, 16, requires_grad=True)).shape[0], 3),
    ("read-only pixels", lambda w: pixels(np.broadcast_to(np.uint8(255), (9, 9))).shape[0], 3),
]  # fmt: skip


@pytest.mark.parametrize("case", WORKS, ids=lambda case: case[0])
def test_works(case: Case, world: World) -> None:
    _, call, wanted = case
    assert call(world) == wanted


def test_the_tables_are_long_enough() -> None:
    names = [name for name, _, _ in TYPE_ERRORS + VALUE_ERRORS + WORKS]
    assert len(names) == len(set(names)) >= 100
