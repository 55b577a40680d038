"""Tables of results as lines of text: words on the left, numbers on the right."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def text_table(rows: Sequence[Sequence[str]], numbers: Collection[int] = ()) -> list[str]:
    """Return a line for each row, the heads among them, without blanks at its end. `numbers`: the columns that have
    numbers.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.rjust(width) if n in numbers else text.ljust(width)
            for n, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
