"""The text of a cell of ours: the line of its magic, which may be broken over several lines, and its body.

IPython gives a cell magic only the first line of its cell. A line that ends with a backslash continues on the next one,
as in a shell and in IPython's own line magics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...core.quoting import magic_line

#: The longest line that is not broken: a JupyterLab of 1,280 pixels shows so many columns next to its side panel.
WIDTH = 80
_INDENT = "    "


def split_cell(text: str, expand: Callable[[str], str] = str) -> tuple[str, str | None]:
    """Return the line of the magic that begins a cell, in one line, and the body of the cell; None for a body that has
    not begun. `expand`: applied to each line after the first, which IPython has expanded."""
    line, newline, rest = text.partition("\n")
    while newline and (head := line.rstrip()).endswith("\\"):
        more, newline, rest = rest.partition("\n")
        line = f"{head[:-1].rstrip()} {expand(more).lstrip()}"
    return line, rest if newline else None


def cell_head(*words: str) -> str:
    """Return the line of a cell's magic with these words, broken before options where it would be too long."""
    whole = magic_line(*words)
    if len(whole) <= WIDTH:
        return whole
    lines: list[list[str]] = [[]]
    for part in _options(words):
        room = WIDTH - len(" \\") - len(_INDENT) * (len(lines) > 1)
        if lines[-1] and len(magic_line(*lines[-1], *part)) > room:
            lines.append([])
        lines[-1] += part
    # line by line, as IPython expands them: quotes elsewhere in the line count
    return f" \\\n{_INDENT}".join(magic_line(*line) for line in lines)


def _options(words: tuple[str, ...]) -> Iterator[list[str]]:
    """Yield the words before the first option, and each option with its values."""
    part: list[str] = []
    for word in words:
        if word.startswith("--") and part:
            yield part
            part = []
        part.append(word)
    yield part
