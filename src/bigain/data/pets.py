"""Oxford-IIIT Pets from the official images and annotations."""

from pathlib import Path

from bigain.data.dataset import Dataset, Example
from bigain.data.files import Home, check_split, listed
from bigain.data.loaders import DATASETS

BREEDS = (
    "Abyssinian", "american_bulldog", "american_pit_bull_terrier", "basset_hound", "beagle", "Bengal", "Birman",
    "Bombay", "boxer", "British_Shorthair", "chihuahua", "Egyptian_Mau", "english_cocker_spaniel", "english_setter",
    "german_shorthaired", "great_pyrenees", "havanese", "japanese_chin", "keeshond", "leonberger", "Maine_Coon",
    "miniature_pinscher", "newfoundland", "Persian", "pomeranian", "pug", "Ragdoll", "Russian_Blue", "saint_bernard",
    "samoyed", "scottish_terrier", "shiba_inu", "Siamese", "Sphynx", "staffordshire_bull_terrier", "wheaten_terrier",
    "yorkshire_terrier",
)  # fmt: skip
HOME = Home(
    title="Oxford-IIIT Pets",
    variable="BIGAIN_PETS",
    places=("data/oxford-iiit-pet", "data/pets"),
    layout="images/*.jpg and annotations/test.txt and trainval.txt, the official images.tar.gz and annotations.tar.gz "
    "unpacked in one folder",
)


@DATASETS.register("pets")
def load_pets(root: str | None = None, split: str = "test") -> Dataset:
    """Oxford-IIIT Pets, 37 cat and dog breeds, from the official files (split: test or trainval)."""
    check_split(HOME.title, split, ("test", "trainval"))
    images, answers = HOME.find(root, ["images", f"annotations/{split}.txt"])
    labels = read_answers(answers)
    paths = listed(images, [f"{name}.jpg" for name in labels], answers)
    examples = tuple(Example(path.stem, path, (labels[path.stem],)) for path in paths)
    classes = tuple(breed.replace("_", " ") for breed in BREEDS)
    return Dataset("pets", split, classes, examples, prompts="a photo of a {}, a type of pet")


def read_answers(path: Path) -> dict[str, int]:
    """Lines such as `Abyssinian_201 1 1 1`: image, number of the breed from 1, species, number within the species."""
    labels: dict[str, int] = {}
    for place, line in enumerate(path.read_text().splitlines(), start=1):
        words = line.split()
        breed = words[0].rpartition("_")[0] if words else ""
        if len(words) != 4 or breed not in BREEDS or words[1] != str(BREEDS.index(breed) + 1):
            raise ValueError(f"{path}, line {place}: expected a line such as 'Abyssinian_201 1 1 1', got {line!r}")
        labels[words[0]] = BREEDS.index(breed)
    return labels
