"""Generation stops where latents or pictures are no numbers, and says which image, when, and what to do."""

import pytest
import torch

import bigain
from helpers.denoisers import CLASSES, tiny


@pytest.fixture
def denoiser():
    return tiny("dit")


def broken_for(denoiser, label, from_call=0):
    """The network answers NaN for one class, from some call on."""
    forward, calls = denoiser.network.forward, []

    def answer(hidden_states, timestep, class_labels, **kwargs):
        calls.append(1)
        found = forward(hidden_states, timestep, class_labels, **kwargs)
        if len(calls) > from_call:
            found.sample[class_labels == CLASSES.index(label)] = torch.nan
        return found

    denoiser.network.forward = answer


@pytest.mark.parametrize(("from_call", "step"), [(0, 1), (2, 3)])
def test_the_image_and_the_step_are_named(denoiser, from_call, step):
    broken_for(denoiser, "c", from_call)
    words = rf"image 12 became NaN or infinite at step {step} of 4, t = \d+; try dtype float32"
    with pytest.raises(FloatingPointError, match=words):
        bigain.generate(denoiser, CLASSES[:5], bigain.Sampling(4), first=10)


def test_images_made_before_are_handed_out(denoiser):
    broken_for(denoiser, "c")
    made = []
    with pytest.raises(FloatingPointError, match="image 2 became"):
        bigain.generate(denoiser, CLASSES[:5], bigain.Sampling(2), batch_size=1, progress=made.append)
    assert len(made) == 2


def test_several_images_are_counted(denoiser):
    denoiser.network.proj_out_2.bias.data[0] = torch.inf
    with pytest.raises(FloatingPointError, match="image 0 and 4 more became NaN or infinite at step 1"):
        bigain.generate(denoiser, CLASSES[:5], bigain.Sampling(2))


def test_a_decoder_that_overflows(denoiser):
    decode = denoiser.decode
    denoiser.decode = lambda latents: decode(latents) / 0
    with pytest.raises(FloatingPointError, match="image 0 and 1 more became NaN or infinite when it was decoded"):
        bigain.generate(denoiser, CLASSES[:2], bigain.Sampling(1))
