"""The pairs of model and operator that the contracts run for leave nothing out."""

import torch

from bigain.operators import OPERATORS, Call, parse
from bigain.tokens.grid import Grid
from bigain.tokens.plans import Assignment
from helpers.models import BACKBONES, EXAMPLES
from helpers.pairs import KINDS, ONE_OF_EACH_CLASS, PAIRS

UNETS = ("sd", "sdxl", "controlnet")


def kind(operator):
    """The plan that an operator makes: its class, and whether tokens are pruned."""
    plan = parse(EXAMPLES[operator]).plan(torch.ones(1, 64, 4), Call(Grid(8, 8)))
    return type(plan).__name__, isinstance(plan, Assignment) and plan.keep is not None


def operators_of(names):
    return {operator for name in names for operator in PAIRS[name]}


def test_every_operator_model_and_kind_of_plan():
    assert set(PAIRS) == set(BACKBONES)
    assert operators_of(PAIRS) == operators_of(ONE_OF_EACH_CLASS) == set(OPERATORS)
    every = {kind(operator) for operator in OPERATORS}
    assert {kind(operator) for operator in KINDS} == every
    for names in (UNETS, set(PAIRS) - set(UNETS), ("sd",), ("dit",)):
        assert {kind(operator) for operator in operators_of(names)} == every
