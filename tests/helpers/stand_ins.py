"""All that differs between a page and its test: what stands in for weights and devices, smaller counts, given files."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from diffusers import StableDiffusionPipeline
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict
from PIL import Image

from bigain.data import load_data
from bigain.loading import load
from helpers.doc_pages import ROOT, StandIn
from helpers.models import BACKBONES
from helpers.pipelines import save
from helpers.pruning import scores_of

TINY = "weights of several GB; a tiny pipeline of the same classes with random weights, saved to a folder"
NO_GPU = "the tests run on a CPU"
QUICK = "seconds"
SD2 = StandIn("stabilityai/stable-diffusion-2-base", "{sd}", TINY)
SDXL = StandIn("stabilityai/stable-diffusion-xl-base-1.0", "{sdxl}", TINY)
SD3 = StandIn("stabilityai/stable-diffusion-3.5-medium", "{sd3}", TINY)
DIT = StandIn("facebook/DiT-XL-2-256", "{dit}", TINY)
CANNY = StandIn("thibaud/controlnet-sd21-canny-diffusers", "{controlnet}", TINY)
LORA = StandIn("my-lora", "{lora}", "the reader's own; a random one for the tiny U-Net")
CUDA = StandIn('"cuda"', '"cpu"', NO_GPU)
ON_CUDA = StandIn("--device cuda", "--device cpu", NO_GPU)
HALF = StandIn("torch.float16", "torch.float32", NO_GPU)
STEPS = StandIn("num_inference_steps=25", "num_inference_steps=2", QUICK)
ONE_TRIAL = StandIn("--device cuda", "--device cpu --policy 'exhaustive(1)'", f"{NO_GPU}, in seconds")
FEW_TRIALS = StandIn("stages(trials=(5, 20), keep=(5, 1))", "stages(trials=(1, 2), keep=(2, 1))", QUICK)
EAGER = StandIn("fullgraph=True)", 'fullgraph=True, backend="eager")', "a C++ compiler and minutes; still one graph")
OFFLOAD = StandIn(
    "offloaded.enable_model_cpu_offload()",
    'import accelerate; accelerate.cpu_offload(offloaded.unet, execution_device="cpu")',
    "it refuses to work without a GPU; accelerate's hooks on the U-Net are of the same kind",
)

STAND_INS: dict[str, tuple[StandIn, ...]] = {
    "README.md": (SD2, CUDA, HALF),
    "classify.md": (
        SD2,
        DIT,
        LORA,
        CUDA,
        HALF,
        ONE_TRIAL,
        StandIn("classes, prompts=", 'classes, "exhaustive(1)", prompts=', QUICK),
        StandIn(".subset(100)", ".subset(20)", QUICK),
        StandIn("candidates=20", "candidates=5", QUICK),
        StandIn("--out own.json", "--out own.json --candidates 3 --trials 3", QUICK),
    ),
    "cluster.md": (
        StandIn("n = 64", "n = 16", QUICK),
        StandIn("exhaustive(2)", "exhaustive(1)", QUICK),
        StandIn("--count 40 --num-inference-steps 5 --cluster local", "--count 2 --num-inference-steps 1", QUICK),
        StandIn("--policy fast --cluster local", "--policy fast", QUICK),
    ),
    "commands.md": (
        StandIn("--count 20", "--count 2", QUICK),
        StandIn("--rounds 6", "--rounds 1 --operator 'gated_merge(ratio=0.7)'", QUICK),
    ),
    "compress.md": (SD2, SDXL, SD3, DIT, CANNY, LORA, CUDA, HALF, STEPS, EAGER, OFFLOAD),
    "experiments.md": (SD2, ON_CUDA, FEW_TRIALS, StandIn("n = 200", "n = 2", QUICK)),
    "generate.md": (
        SD2,
        ON_CUDA,
        StandIn("--count 20", "--count 2", QUICK),
        StandIn("--count 4", "--count 2 --num-inference-steps 2", QUICK),
    ),
    "index.md": (StandIn("--num-inference-steps 25", "--num-inference-steps 2", QUICK),),
    "theory.md": (StandIn("--n 20", "--n 4 --trials 2", QUICK),),
    "tune.md": (
        SD2,
        CUDA,
        HALF,
        STEPS,
        StandIn(
            "save=0.2, prompts=prompts)",
            "save=0.001, prompts=prompts, effort=__import__('bigain.tuning.tune', fromlist=['']).Effort(images=2, "
            "held_out=4, trials=2, generated=2, held_out_generated=2, num_inference_steps=2, bands=1, "
            "operators=('gated_merge(ratio=0.5)',), corrections=(False,)))",
            QUICK,
        ),
    ),
    "tomesd.md": (SD2, CUDA, HALF, STEPS),
}

# lines of shell blocks that are not run here, and why
NOT_RUN = {
    "make setup": "makes the environment that the tests run in",
    ". .venv/bin/activate": "is for an interactive shell",
    "make demo": "has tests of its own",
    "python benchmarks/train_gates.py fashion-dit --out gates.json": "trains for minutes; its scores stand in",
    "make test": "is what is running",
    "bigain tune --model fashion-dit --save 30% --out setting.json": "takes minutes; has tests of its own",
    "bigain generate --model fashion-dit --operator setting.json": "needs the setting",
    "bigain classify photos/ --model fashion-dit --operator setting.json": "needs the setting",
    'pip install ".[plots]"': "installs what the tests run on",
    'pip install ".[studio]"': "installs what the tests run on",
    "bigain studio": "serves until it is stopped; tests/studio looks at it in a browser",
    "bigain studio --model my/sd2 --port 8000": "serves until it is stopped",
    'pip install ".[cluster]"': "installs what the tests run on",
    "ray start --head --port=6379": "leaves a cluster behind; tests/cluster has its own",
    "ray start --address=10.0.0.1:6379": "is for another machine",
    "bigain run my-sweep.toml --cluster auto": "needs the cluster of the lines before; tests/cluster runs it",
}


class Folders:
    """Folders of what stands in, each made when it is first asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.made: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        if name not in self.made:
            own: dict[str, Callable[[Path], Path]] = {"sd": save_sd, "controlnet": save_controlnet, "lora": save_lora}
            folder = self.root / name
            folder.mkdir()
            self.made[name] = str(own[name](folder) if name in own else save(name, folder))
        return self.made[name]


# one block down and one up, so that tracing it takes seconds
SHALLOW = {
    "block_out_channels": (32,),
    "layers_per_block": 1,
    "down_block_types": ("CrossAttnDownBlock2D",),
    "attention_head_dim": 2,
}
SHALLOW_UNET = SHALLOW | {"up_block_types": ("CrossAttnUpBlock2D",)}


def save_sd(folder: Path) -> Path:
    return save("sd", folder, unet=BACKBONES["sd"].build(**SHALLOW_UNET))


def save_controlnet(folder: Path) -> Path:
    BACKBONES["controlnet"].build(**SHALLOW).save_pretrained(folder)
    return folder


def save_lora(folder: Path) -> Path:
    unet = BACKBONES["sd"].build(**SHALLOW_UNET)
    torch.manual_seed(0)
    unet.add_adapter(LoraConfig(r=2, target_modules=["to_q", "to_v"], init_lora_weights=False))
    StableDiffusionPipeline.save_lora_weights(folder, get_peft_model_state_dict(unet))
    return folder


def picture(name: str) -> Callable[[], None]:
    """A colour picture that the page takes for granted."""
    return lambda: Image.new("RGB", (48, 32), "orange").save(name)


def images_of_the_repository() -> None:
    """Those that are named by their paths in a clone."""
    Path("docs/images").mkdir(parents=True)
    for name in ("docs/images/boot.png", "docs/images/bag.png"):
        shutil.copy(ROOT / name, name)


def photos_of_clothes() -> None:
    """photos/ with two of the bundled images, in folders named after their classes."""
    data = load_data("fashion-sample").subset(2)
    for example in data.examples:
        folder = Path("photos") / data.classes[example.labels[0]].replace("/", "_")
        folder.mkdir(parents=True)
        Image.fromarray(example.image).save(folder / "1.png")


def photos_of_pets() -> None:
    for label, colour in (("cat", "orange"), ("dog", "brown")):
        folder = Path("photos") / label
        folder.mkdir(parents=True)
        Image.new("RGB", (32, 32), colour).save(folder / "1.jpg")


def gates() -> None:
    """Scores of gates that were not trained."""
    scores_of(load("fashion-dit").network, (900.0, 600.0, 300.0, 100.0)).save("gates.json")


SMALLER = {
    r"n = \d+": "n = 1",
    r"count = \d+": "count = 4",
    r"num_inference_steps = \d+": "num_inference_steps = 1",
    r"(ratio|factor) = \[(.*?),.*\]": r"\1 = [\2]",
    r'policy = ".*"': 'policy = "exhaustive(1)"',
    r'data = ".*"': 'data = "fashion-sample"',
    r'without = ".*"\n': "",
}


def experiments() -> None:
    """The experiments of the repository as files, on the bundled images and with as little of each as will do."""
    place = Path("benchmarks/experiments/bundled")
    place.mkdir(parents=True)
    for path in (ROOT / place).glob("*.toml"):
        text = path.read_text()
        for old, new in SMALLER.items():
            text = re.sub(f"^{old}", new, text, flags=re.MULTILINE)
        (place / path.name).write_text(text)


def examples() -> None:
    shutil.copytree(ROOT / "examples", "examples")


FILES: dict[str, tuple[Callable[[], None], ...]] = {
    "README.md": (images_of_the_repository,),
    "cluster.md": (photos_of_clothes,),
    "commands.md": (images_of_the_repository, photos_of_clothes, experiments, examples),
    "classify.md": (picture("cat.png"),),
    "compress.md": (picture("edges.png"),),
    "experiments.md": (photos_of_pets, experiments),
    "pruning.md": (gates,),
}
