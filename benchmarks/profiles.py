"""Timesteps and weights of the bundled models, fitted on training images that they were not trained on.

`python benchmarks/profiles.py fashion-unet` writes `profile.json` beside the weights of the model. The last 512
training images of each dataset are held out from training; the last 400 of them are used here.
"""

import argparse

from rich.console import Console
from rich.progress import Progress

import bigain
from bigain.data import load_data
from bigain.denoisers.labelled import PROFILE
from bigain.zoo.catalog import folder_of

DATA = {
    "fashion-unet": "fashion-mnist",
    "fashion-dit": "fashion-mnist",
    "fashion-mmdit": "fashion-mnist",
    "cifar-unet": "cifar-10",
}
COUNT, SEED = 400, 7


def main(name: str) -> None:
    data = load_data(f"{DATA[name]}(split='train')")
    examples = [data.examples[i] for i in range(len(data) - COUNT, len(data))]
    classifier = bigain.DiffusionClassifier(bigain.load(name), data.classes, seed=SEED)
    with Progress(console=Console(stderr=True)) as bars:
        task = bars.add_task(name, total=COUNT)
        labels = [data.classes[example.labels[0]] for example in examples]
        profile = classifier.fit([e.image for e in examples], labels, progress=lambda _: bars.advance(task))
    profile.save(folder_of(name) / PROFILE)
    Console().print(f"{name}: {profile}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="*", default=list(DATA))
    for name in parser.parse_args().model:
        main(name)
