"""Defaults that hold for the published models."""

NUM_TRAIN_TIMESTEPS = 1000  # t counts from 0 to 999
TEXT_TOKENS = 77  # length of a prompt
