"""Bad words and bad files, command by command: what is said, and the exit code."""

from pathlib import Path

import pytest

from helpers.cases import Case, make_files
from helpers.commands import invoke

QUICK = "--model {model} --policy exhaustive(1)"
CASES = [
    # no command, or none of that name
    Case("clasify x", "Did you mean 'classify'?"),
    Case("classify {images} --modl x", "Possible options: --model"),
    Case("classify", "Missing argument 'IMAGES'"),
    # models
    Case("classify {images} --model fashion-unt", "Did you mean 'fashion-unet'"),
    Case("classify {images} --model fashion-features", "is a feature network, not a diffusion model. Available: "),
    Case("classify {images} --model {empty}", "has neither a bigain model (bigain.json) nor a pipeline"),
    Case("classify {images} --model {broken_model}", "is not a complete bigain model"),
    Case("classify {images} --model {unsupported_model} --classes a,b", "SanaPipeline is not supported. Supported: "),
    Case("classify {images} --model {unsupported_model}", "has no classes of its own; use --classes"),
    Case("classify {images} --model {image}", "or pass a folder or a Hub model ID"),
    Case("generate --model {unsupported_model}", "this model needs text; use --prompt, --prompts-file or --classes"),
    Case("generate --model sd2", "unknown bundled model 'sd2'"),
    Case("flops --model sd3", "Did you mean 'sd2'"),
    Case("bench --model sd3 --rounds 1", "unknown bundled model 'sd3'"),
    Case("show {image} --model {empty}", "has neither"),
    Case("train fashion-dot --smoke", "Did you mean 'fashion-dit'"),
    # images
    Case("classify {root}/nowhere", "no file or folder matches", 3),
    Case("classify {root}/nowhere/*.png", "no file or folder matches", 3),
    Case("classify {empty}", "no images in"),
    Case(f"classify {{pipes}} {QUICK}", "a.png: a named pipe, not a file", 1),
    Case(f"classify {{pipes}}/a.png {QUICK}", "a.png: a named pipe, not a file", 1),
    Case(f"classify {{loop_png}} {QUICK}", "loop.png: cannot be read: Too many levels of symbolic links", 1),
    Case(f"classify {{dead_png}} {QUICK}", "dead.png: a broken link", 1),
    Case(f"classify {{root}}/*.png {QUICK}", "dead.png: a broken link", 1),
    Case(f"classify {{text}} {QUICK}", "as an image: cannot identify image file", 1),
    Case(f"classify {{cut_png}} {QUICK}", "as an image:", 1),
    Case(f"classify {{float_tif}} {QUICK}", "does not define white", 1),
    Case(f"classify {{odd}} {QUICK}", "a\\x1b[31m\\u202eb.png", 1),
    Case(f"classify {{latin_txt}} {QUICK}", "as an image: cannot identify image file", 1),
    Case("show {root}/nowhere.png --model {model}", "nowhere.png"),
    Case("show {text}/a.png --model {model}", "as an image: cannot identify image file"),
    # classes and prompts
    Case("classify {images} --model {model} --classes bag", "classes must have at least two elements, got"),
    Case("classify {images} --model {model} --classes ,", "classes must have at least two elements, got"),
    Case("classify {images} --model {model} --classes {twice_txt}", "classes must be unique, got"),
    Case("classify {images} --model {model} --classes {blank_txt}", "classes must have at least two elements, got"),
    Case("classify {images} --model {model} --classes bag,hat", "unknown class 'hat'"),
    Case("classify {images} --model {model} --classes 1,99", "no class number 99; this model has 0..9"),
    Case("classify {images} --model {model} --classes ²,1", "unknown class '²'"),
    Case("classify {images} --classes {root}/none.txt", "none.txt; expected class names, one per line", 3),
    Case("classify {images} --classes {latin_txt}", "latin.txt, line 1: not UTF-8 (byte 0xe9); save the file as UTF-8"),
    Case("classify {images} --classes {wide_txt}", "wide.txt, line 1: not UTF-8 (UTF-16); save the file as UTF-8"),
    Case("classify {images} --prompts photo", "prompts must be a string with one {{}} for the class"),
    Case("classify {images} --prompts {{}}{{}}", "prompts must be a string with one {{}} for the class"),
    Case("generate --prompts-file {latin_txt}", "latin.txt, line 1: not UTF-8"),
    Case("generate --prompts-file {blank_txt}", "the list of classes or prompts is empty"),
    Case("generate --prompts-file {root}/none.txt", "no file", 3),
    Case("generate --prompt bag --classes coat", "use only one of --prompt, --classes and --prompts-file"),
    Case("generate --model {model} --prompt hat", "unknown class 'hat'"),
    # operators, and where
    Case("classify {images} --operator gated_merg(0.5)", "Did you mean 'gated_merge'"),
    Case("classify {images} --operator gated_merge(1.5)", "in [0, 1), got 1.5"),
    Case("classify {images} --operator gated_merge(50)", "did you mean 0.5?"),
    Case("classify {images} --operator gated_merge(ratio=0.5", "write it as a call with plain values"),
    Case("classify {images} --operator tome(0.5,patern='per_row')", "Did you mean 'pattern'"),
    Case("classify {images} --operator tome(0.5) --where downsample=", "cannot read the sites"),
    Case("classify {images} --operator tome(0.5) --where downsampl=1", "Did you mean 'downsample'"),
    Case(f"classify {{images}} {QUICK} --operator tome(0.5) --where downsample=9", "no site at downsample 9"),
    Case("classify {images} --operator tome(0.5) --reuse step", 'reuse must be None or "stage"'),
    Case("classify {images} --operator tome(0.5) --groups two", "or none, got two"),
    Case("classify {images} --where part='down'", "--where needs --operator"),
    Case("classify {images} --operator none --reuse stage", "--reuse needs --operator"),
    Case("generate --operator todo(0)", "factor must be an int of at least 1, got 0"),
    Case("flops --operator todo(x)", "write it as a call with plain values"),
    Case("flops --reuse stage", "--reuse needs --operator"),
    Case("bench --operator tome(2) --rounds 1", "in [0, 1), got 2"),
    Case("show {image} --operator tme(0.5)", "Did you mean 'tome'"),
    Case("show {image} --model {model} --site nowhere", "no site 'nowhere'"),
    # policies, timesteps, counts, sizes, seeds
    Case("classify {images} --policy rase", "Did you mean 'race'"),
    Case("classify {images} --policy exhaustive(0)", "trials must be an int of at least 1, got 0"),
    Case("classify {images} --policy stages(trials=(5,),keep=(1,2))", "trials and keep must have the same length"),
    Case("classify {images} --timesteps evn", 'timesteps must be "even", "random", "fitted"'),
    Case("classify {images} --timesteps none.json", "no timestep profile none.json; write one with `bigain fit`", 3),
    Case("classify {images} --policy cascade", "--final-operator, none or an operator for the last rounds, goes with"),
    Case("classify {images} --final-operator none", "--final-operator, none or an operator for the last rounds"),
    Case("classify {images} --model {model} --policy curtail", "curtail needs fitted timesteps"),
    Case("fit {images} --out {root}/nowhere/p.json", "for the profile p.json; create it first", 3),
    Case("fit {images} --out {root}/p.json --trials 30", "--trials must be at most --candidates, 20, got 30"),
    Case("fit {images} --out {root}/p.json --model fashion-dot", "Did you mean 'fashion-dit'"),
    Case("classify {images} --model {model} --timesteps 5000", "timesteps must be ints from 0 to 999"),
    Case("classify {images} --model {model} --timesteps fitted", "no timesteps were fitted for this"),
    Case("classify {images} --seed x", "Invalid value for '--seed'"),
    Case("classify {images} --top 0", "greater than or equal to 1"),
    Case("classify {images} --threads 0", "greater than or equal to 1"),
    Case("classify {images} --device cdua", "Did you mean 'cuda'"),
    Case("generate --count 0", "--count must be at least 1, got 0"),
    Case("generate --count -3", "--count must be at least 1, got -3"),
    Case(
        "generate --model {model} --num-inference-steps 0 --out {root}/made",
        "num_inference_steps must be an int of at least 1",
    ),
    Case(
        "generate --model {model} --guidance-scale nan --out {root}/made",
        "guidance_scale must be a number of at least 0",
    ),
    Case("generate --model {model} --num-inference-steps 1 --scheduler eulr --out {root}/made", "Did you mean 'euler'"),
    Case("flops --latent 64", "--latent must be HEIGHTxWIDTH, like 64x64"),
    Case("flops --latent 0x8", "--latent must be HEIGHTxWIDTH, like 64x64"),
    Case("bench --latent ax8", "--latent must be HEIGHTxWIDTH, like 64x64"),
    Case("show {image} --model {model} --t 1000", "from 0 (an image) to 999 (noise), got 1000"),
    Case("show {image} --model {model} --draws 0", "draws must be an int of at least 1"),
    # where results go
    Case("classify {images} --out r.xls", "--out must end in .csv or .jsonl, got r.xls"),
    Case("classify {images} --out r", "--out must end in .csv or .jsonl, got r"),
    Case("classify {images} --resume", "--resume needs --out FILE"),
    Case("classify {images} --out {notes_csv}", "already exists; continue it with --resume"),
    Case(f"classify {{images}} {QUICK} --out {{notes_csv}} --resume", "was not written by `bigain classify --out`"),
    Case("classify {images} --out {folder_csv}", "folder.csv: Is a directory", 3),
    Case(f"classify {{images}} {QUICK} --out {{image}}/r.csv", "File exists", 3),
    Case("generate --model {model} --num-inference-steps 1 --out {image}", "File exists", 3),
    Case("show {image} --model {model} --out {root}/map.gif", "unknown figure format 'gif'"),
    # lists, own files, experiments
    Case("list operator", "Did you mean 'operators'"),
    Case("--load {root}/none.py list data", "no file", 3),
    Case("--load {raises_py} list data", "raises.py, line 1: ZeroDivisionError"),
    Case("run {root}/none.toml", "No such file or directory", 3),
    Case("run {bad_toml}", "bad.toml"),
    Case("report {root}/none", "no record", 3),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return make_files(tmp_path_factory.mktemp("faults"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.words)
def test_fault(case: Case, files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files["root"])
    done = invoke(*(word.format(**files) for word in case.words.split()), env={"COLUMNS": "400"})
    shown = " ".join(done.output.split())
    assert done.exit_code == case.code, shown
    assert case.text.replace("{{}}", "{}") in shown
    assert "Traceback" not in shown
    assert not Path(files["root"], "made").exists() or not any(Path(files["root"], "made").iterdir())
