"""Generate the same seeds without and with an operator, and say how alike the images are."""
# ruff: noqa: T201

import argparse

import bigain
from bigain import Sampling, generate
from bigain.metrics.similarity import ssim
from bigain.pictures import contact_sheet

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", default="fashion-unet", help="a bundled model, a pipeline's folder or a Hub model ID")
parser.add_argument("--operator", default="gated_merge(ratio=0.5)")
parser.add_argument("--subjects", nargs="+", default=["bag", "dress", "sneaker", "coat"], help="labels or prompts")
parser.add_argument("--num-inference-steps", type=int, default=10)
parser.add_argument("--device", default="cpu")
options = parser.parse_args()

denoiser = bigain.load(options.model, device=options.device)
sampling = Sampling(num_inference_steps=options.num_inference_steps)
plain = generate(denoiser, options.subjects, sampling)
with bigain.compress(denoiser, options.operator, groups="input") as handle:
    compressed = generate(denoiser, options.subjects, sampling)
    print(handle.status())
contact_sheet(plain, columns=len(plain)).save("plain.png")
contact_sheet(compressed, columns=len(plain)).save("compressed.png")
for subject, likeness in zip(options.subjects, ssim(plain, compressed), strict=True):
    print(f"{subject}: SSIM {likeness:.3f} to the uncompressed image")
