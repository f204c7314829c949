"""Keys and values chosen by frequency alone: the paper's table on why a balanced spectrum matters."""

import numbers
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from bigain.operators.base import OPERATORS, Call, check_choice, check_scorer, plain_fields
from bigain.tokens.plans import Identity, Selected
from bigain.tokens.scores import SCORERS


@OPERATORS.register("kv_select")
@dataclass(frozen=True)
class KVSelect:
    """Keys and values from the fraction `keep` of tokens with the lowest ("smooth") or highest ("detail") score."""

    data_dependent: ClassVar[bool] = True
    stochastic: ClassVar[bool] = False
    reduces_queries: ClassVar[bool] = False

    keep: float
    prefer: Literal["smooth", "detail"] = "smooth"
    scorer: str = "laplacian_l1"

    def __post_init__(self) -> None:
        plain_fields(self)
        number = isinstance(self.keep, numbers.Real) and not isinstance(self.keep, bool)
        if not number or not 0 < self.keep <= 1:
            raise ValueError(f"keep must be in (0, 1], got {self.keep!r}")
        check_choice("preference", self.prefer, ("smooth", "detail"))
        check_scorer(self.scorer)

    def plan(self, x: Tensor, call: Call) -> Selected | Identity:
        kept = max(1, int(call.grid.tokens * self.keep))
        if kept == call.grid.tokens:
            return Identity()
        score = SCORERS[self.scorer](x, call.grid)
        order = score.argsort(dim=1, descending=self.prefer == "detail", stable=True)[:, :kept]
        # in the order of the sequence, so that keys keep their places
        return Selected(order.sort(dim=1).values)
