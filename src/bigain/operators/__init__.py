"""The compression operators; a new one is a new file and a line here."""

from bigain.operators.base import OPERATORS, Call, Operator, parse, spec
from bigain.operators.block_merge import BlockMerge
from bigain.operators.gated_merge import GatedMerge
from bigain.operators.kv_downsample import AvgPool, KVDownsample, ToDo
from bigain.operators.kv_select import KVSelect
from bigain.operators.sito import SiTo
from bigain.operators.toma import ToMA
from bigain.operators.tome import ToMe

__all__ = [
    "OPERATORS",
    "AvgPool",
    "BlockMerge",
    "Call",
    "GatedMerge",
    "KVDownsample",
    "KVSelect",
    "Operator",
    "SiTo",
    "ToDo",
    "ToMA",
    "ToMe",
    "parse",
    "spec",
]
