"""Tables of results as HTML and as text: words on the left, numbers on the right; a long head takes two lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from html import escape

#: Inline, because a page may have no style sheet; it also takes precedence over the page's.
_NUMBER = "text-align:right;font-variant-numeric:tabular-nums"
_HEAD = "white-space:normal;vertical-align:bottom"
_CODE = re.compile(r"`(?=\S)([^`\n]+)(?<=\S)`")


def prose(text: str) -> str:
    """Return the HTML of sentences, with the words between backticks as code."""
    return _CODE.sub(r"<code>\1</code>", escape(text))


def cell(
    text: str, *, kind: str = "td", number: bool = False, look: str = "", write: Callable[[str], str] = escape
) -> str:
    """Return a cell. `kind`: `td` or `th`; `look`: more style; `write`: the function that makes HTML of the text."""
    styles = [style for style in (_HEAD if kind == "th" else "", _NUMBER if number else "", look) if style]
    style = f" style='{';'.join(styles)}'" if styles else ""
    return f"<{kind}{style}>{write(text)}</{kind}>"


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Collection[int],
    look: str = "",
    write: Callable[[str], str] = escape,
) -> str:
    """Return a table that scrolls if it is wider than the page, and that JupyterLab lets sort, filter and save
    (`extension/src/dataTables.ts`). `numbers`: the columns with numbers; `look`, `write`: of each cell.
    """
    head = "".join(cell(name, kind="th", number=n in numbers, look=look) for n, name in enumerate(heads))
    lines = [
        "".join(cell(text, number=n in numbers, look=look, write=write) for n, text in enumerate(row)) for row in rows
    ]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    made = f"<table class='tl-tensors tl-data'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div style='overflow-x:auto'>{made}</div>"


def text_table(rows: Sequence[Sequence[str]], numbers: Collection[int] = ()) -> list[str]:
    """Return a line for each row, heads included, without blanks at its end. `numbers`: the columns with numbers."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.rjust(width) if n in numbers else text.ljust(width)
            for n, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
