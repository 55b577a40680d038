"""Transcripts of notebooks, in `cases/*.md`: cells, and all that each of them prints.

    ## A cell becomes a model

    ```python
    %%triton_model add --input IN:FP32[-1] --output OUT:FP32[-1]
    <<answers("x + 1")>>
    ```
    ```text
    add  READY  version 1 · ready in <time>
    ```

Each second heading is a test, in a notebook of its own and an empty working directory. A block `python` is a cell. The
block after it is its output: `text` if the cell succeeds, `error` if it fails; a cell without one prints nothing. An
expression of `tests.models` stands in `<<` and `>>`. Cells are numbered from 1; MASKS has what differs between runs.

`pytest --write-cases tests/notebook` writes what the cells print into the files and shows the difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import unified_diff
from pathlib import Path

from tests import models

#: A cell prints this, and whether it succeeds.
Run = Callable[[str], tuple[str, bool]]

#: What differs between runs, and what stands for it.
MASKS = (
    (r"\x1b\[[0-9;]*m", ""),  # colours
    (r"[ \t]+$", ""),  # editors remove them
    (r"\b\d+(\.\d+)? ?(ns|[µμ]s|ms|s)\b", "<time>"),
    (r"\b\d+(\.\d+)? (kB|MB|GB)\b", "<size>"),
    (r"\b\d\d:\d\d:\d\d\b", "<clock>"),
    (r"\b(pid|process|request) \d+", r"\1 <number>"),
    (r"\bof the \d+ failures\b", "of the <number> failures"),  # those of earlier tests are among them
    (r"\b127\.0\.0\.1:\d+", "127.0.0.1:<port>"),
)
_CELL = re.compile(r"^```python\n(.*?)^```\n(?:```(text|error)\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^## (.+)\n", re.MULTILINE)


def read_cases(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each test of a file."""
    _, *parts = _HEADING.split(file.read_text())
    yield from zip(parts[::2], parts[1::2], strict=True)


def run_case(text: str, run: Run, places: Mapping[str, str], first: int) -> str:
    """Run the cells and return the text with what they print. `places`: what stands for which paths. `first`: the
    number that IPython gives to the first cell.
    """

    def printed(cell: re.Match[str]) -> str:
        source = re.sub("<<(.+?)>>", lambda found: str(eval(found[1], vars(models))).strip("\n"), cell[1])
        output, succeeds = run(source)
        output = mask(output, places, first)
        kind = "text" if succeeds else "error"
        return f"```python\n{cell[1]}```\n" + (f"```{kind}\n{output}```\n" if output or not succeeds else "")

    return _CELL.sub(printed, text)


def mask(output: str, places: Mapping[str, str], first: int) -> str:
    """Return what a cell has printed as it stands in the file, with a line end unless it is empty."""
    for path in sorted(places, key=len, reverse=True):
        output = output.replace(path, places[path])
    for pattern, instead in MASKS:
        output = re.sub(pattern, instead, output, flags=re.MULTILINE)
    output = re.sub(r"\b(In|Out)\[(\d+)\]", lambda found: f"{found[1]}[{int(found[2]) - first + 1}]", output)
    return output.strip("\n") + "\n" if output.strip() else ""


def write_case(file: Path, name: str, text: str) -> str:
    """Let this be the text of a test; return the difference."""
    before = file.read_text()
    start = before.index(f"## {name}\n") + len(f"## {name}\n")
    heading = _HEADING.search(before, start)
    after = before[:start] + text + (before[heading.start() :] if heading else "")
    file.write_text(after)
    lines = (before.splitlines(keepends=True), after.splitlines(keepends=True))
    return "".join(unified_diff(*lines, str(file), "what is printed", n=2))
