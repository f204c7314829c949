"""Shared by all tests; it also puts this folder on the path, for `references`, `models` and `toys`."""

import torch

# the models are tiny: threads would only wait for each other, most of all under several workers
torch.set_num_threads(1)
