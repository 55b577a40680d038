"""`print_table` draws a table as Triton draws it in its log."""

from __future__ import annotations

from collections.abc import Sequence


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The table, lines joined by newlines; a cell of several lines makes its row as high.

    >>> print(print_table(["Model", "Version"], [["add_sub", "1"]]))
    +---------+---------+
    | Model   | Version |
    +---------+---------+
    | add_sub | 1       |
    +---------+---------+
    """
    cells = [[cell.split("\n") for cell in row] for row in (head, *rows)]
    widths = [max(len(line) for row in cells for line in row[column]) for column in range(len(head))]
    rule = f"+{'+'.join('-' * (width + 2) for width in widths)}+"
    lines = [rule]
    for number, row in enumerate(cells):
        for height in range(max(len(cell) for cell in row)):
            texts = (cell[height] if height < len(cell) else "" for cell in row)
            lines.append(f"| {' | '.join(text.ljust(width) for text, width in zip(texts, widths, strict=True))} |")
        if number == 0 or number == len(rows):
            lines.append(rule)
    return "\n".join(lines if rows else [*lines, rule])
