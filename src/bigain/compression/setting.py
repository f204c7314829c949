"""A compression setting as one object, for `compress`, experiments and records."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from bigain.checks import whole
from bigain.models.site import Site, Where, parse_where
from bigain.models.windows import Window, check_window
from bigain.operators.base import Operator, parse, spec

Groups = int | Literal["cfg", "input", "classes"] | None
Sites = Where | Callable[[Site], bool] | str | None


@dataclass(frozen=True)
class Compression:
    """An operator, its sites, and which plans are shared: the arguments of `compress` as one object.

    Strings are parsed: `Compression("gated_merge(ratio=0.7)", where="part='down'")`.
    """

    operator: Any  # an Operator, or a string that is parsed
    where: Any = None  # a Where, a string that is parsed, or a function of a Site
    reuse: Literal["stage"] | None = None
    groups: Groups = None
    correct: bool = False
    when: Window | None = None  # the first and last timestep in which it acts; None means all

    def __post_init__(self) -> None:
        object.__setattr__(self, "operator", as_operator(self.operator))
        object.__setattr__(self, "where", as_where(self.where))
        check_reuse(self.reuse)
        object.__setattr__(self, "groups", as_groups(self.groups))
        check_correct(self.correct, self.groups)
        object.__setattr__(self, "when", check_window(self.when))

    def __str__(self) -> str:
        shown = [
            ("where", self.where.spec()),
            ("reuse", self.reuse),
            ("groups", self.groups),
            ("correct", self.correct or None),
            ("when", self.when),
        ]
        return " ".join([spec(self.operator), *(f"{name}={value!r}" for name, value in shown if value is not None)])

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `Compression(**values)` is equal."""
        return {
            "operator": spec(self.operator),
            "where": self.where.spec(),
            "reuse": self.reuse,
            "groups": self.groups,
            # records from before these existed do not have them
            **({"correct": True} if self.correct else {}),
            **({"when": list(self.when)} if self.when else {}),
        }

    def identity(self) -> dict[str, Any]:
        """The same with all parameters of the operator, so that a changed default counts as a change."""
        return self.as_dict() | {"operator": repr(self.operator)}


def as_operator(operator: Operator | str) -> Operator:
    if isinstance(operator, str):
        return parse(operator)
    spec(operator)  # raises for anything else
    return operator


def as_where(where: Sites) -> Where:
    if where is None or isinstance(where, Where):
        return where or Where()
    if isinstance(where, str):
        return parse_where(where)
    if callable(where) and not isinstance(where, type):
        return Where(only=where)
    raise TypeError(f"where must be a Where, a function of a Site or a string, got {where!r}")


def check_reuse(reuse: object) -> None:
    if reuse is not None and (not isinstance(reuse, str) or reuse != "stage"):
        raise ValueError(f'reuse must be None or "stage", got {reuse!r}')


def as_groups(groups: Any) -> Groups:
    """Rows per group as an int; words unchanged."""
    if groups is None or (isinstance(groups, str) and groups in ("cfg", "input", "classes")):
        return groups  # type: ignore[return-value]
    rows = whole(groups)
    if rows is None or rows < 1:
        raise ValueError(f'groups must be None, an int of at least 1, "cfg", "input" or "classes", got {groups!r}')
    return rows


def check_correct(correct: object, groups: Groups) -> None:
    if type(correct) is not bool:
        raise TypeError(f"correct must be True or False, got {correct!r}")
    if correct and groups in (None, 1):
        raise ValueError(
            f'correct=True needs groups of two rows or more, got groups={groups!r}; take groups="input" with '
            'DiffusionClassifier, groups="cfg" in a pipeline, or an int of at least 2'
        )
