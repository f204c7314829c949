"""Escapes for names and texts from outside, one for each place they are written to."""

import html as markup
import re
import unicodedata
from typing import Any

# control characters, surrogates (names that are not UTF-8), line separators, and marks that reorder or hide text
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
JOINERS = "\u200c\u200d"  # spelling in some languages and emoji need these
FORMULAS = "=+-@\t\r\n＝＋－＠'"  # a spreadsheet runs what begins like this; ' because it is our mark
NUMBER = re.compile(r"[-+]?\.?\d[\d.,;%±\[\] +−-]*(e[-+]?\d+)?")
LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "→": r"$\to$",
    **{sign: f"\\{sign}" for sign in "{}$&%#_"},
}


def terminal(text: str, *, lines: bool = False) -> str:
    r"""Escape characters that control a terminal or reorder text, such as \x1b; `lines` keeps newlines and tabs."""
    kept = "\n\t" if lines else ""
    if text.isascii() and text.isprintable():
        return text
    return "".join(sign if sign in kept or not hidden(sign) else escape_code(sign) for sign in text)


def hidden(sign: str) -> bool:
    return unicodedata.category(sign) in HIDDEN and sign not in JOINERS


def escape_code(sign: str) -> str:
    return sign.encode("unicode_escape", "surrogatepass").decode("ascii")


def csv_cell(value: Any) -> Any:
    """Put a ' before text that a spreadsheet would run as a formula; numbers stay numbers."""
    if not isinstance(value, str) or not value.startswith(tuple(FORMULAS)) or NUMBER.fullmatch(value):
        return value
    return f"'{value}"


def from_csv_cell(text: str) -> str:
    """Undo `csv_cell`."""
    return text.removeprefix("'")


def markdown(text: str) -> str:
    """One line without tags, links or cell separators."""
    found = terminal(" ".join(text.splitlines())).replace("\\", "\\\\").replace("|", "\\|").replace("](", "]\\(")
    return re.sub(r"&(?=#?\w+;)", "&amp;", found).replace("<", "&lt;")


def html(text: str) -> str:
    """Escape text for HTML, including attributes."""
    return markup.escape(terminal(text, lines=True))


def latex(text: str) -> str:
    """Escape text for a LaTeX table: no commands, and no option to the line break before it."""
    found = "".join(LATEX.get(sign, sign) for sign in terminal(" ".join(text.splitlines())))
    return f"{{{found[0]}}}{found[1:]}" if found.startswith(("[", "*")) else found
