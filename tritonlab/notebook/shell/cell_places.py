"""The replacement of lines of model files by lines of cells, in tracebacks, logs and the output of pdb."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterable

from ..authoring.source_map import Locate

#: Names the cell for a line of a text that cites files (`CellPlaces`).
Places = Callable[[str], str]
#: Returns the origins of a line of a file, as `SourceMap.earlier` does.
Earlier = Callable[[str, int], Iterable[tuple[str, int]]]

_PLACE = re.compile(r'File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?P<rest>, in [^\n]*\n {4}(?P<text>[^\n]*))?')
#: The place of a warning as Python prints it, before its category.
_WARNED = re.compile(r"^(?P<file>/[^\n:]+):(?P<line>\d+)(?=: \w*Warning: )", re.MULTILINE)
#: A frame in a text of Triton's, below its `At:` (rule 2.5.2).
_AT = re.compile(r"^(?P<indent> {2})(?P<file>[^\n]+)\((?P<line>\d+)\)(?=: )", re.MULTILINE)

#: The forms of a place in pdb: `/dir/model.py(7)execute()`, and `/dir/model.py:7` of a breakpoint.
_PDB_PLACE = re.compile(r"(?P<file>/[^\n():]+)(?P<open>[(:])(?P<line>\d+)(?P<close>\)?)")
#: The number before a line that pdb lists.
_LISTED = re.compile(r"^ *(?P<line>\d+)(?=[ B]*(?:->|>>)?\t)", re.MULTILINE)
#: Commands that take line numbers of the file that is shown.
_NUMBERED = re.compile(r"^\s*(?:b|break|tbreak|unt|until|j|jump|l|list)\s+(?P<lines>\d+(?:\s*,\s*\d+)?)")


class CellPlaces:
    """Lines of model files in a text, replaced by lines of cells. `locate` maps lines, `label` names a cell (`Cell
    In[3]`). `earlier`: the origins of a line in replaced files, which may still be executed."""

    def __init__(self, locate: Locate, label: Callable[[str], str], earlier: Earlier = lambda file, line: ()) -> None:
        self._locate = locate
        self._label = label
        self._earlier = earlier

    def reading(self, locate: Locate) -> CellPlaces:
        """Return places that take the lines from `locate`."""
        return CellPlaces(locate, self._label, self._earlier)

    def __call__(self, text: str) -> str:
        text = _PLACE.sub(self._place, text)
        text = _WARNED.sub(self._line, text) if "Warning: " in text else text
        return _AT.sub(self._line, text) if "\nAt:\n" in text else text

    def _line(self, found: re.Match[str]) -> str:
        origin, line = self._locate(found["file"], int(found["line"]))
        indent = found.groupdict().get("indent", "")
        return found[0] if origin == found["file"] else f"{indent}{self._label(origin)}, line {line}"

    def _place(self, found: re.Match[str]) -> str:
        file, number, text = found["file"], int(found["line"]), found["text"]
        # a version from before the cell was changed may still execute
        earlier = self._earlier(file, number) if text is not None else ()
        for origin, line in (self._locate(file, number), *earlier):
            if origin != file and (text is None or text.strip() == linecache.getline(origin, line).strip()):
                return f"{self._label(origin)}, line {line}{found['rest'] or ''}"
        return found[0]


class CellLines:
    """Line numbers of pdb: from model files to cells, and back. `locate` maps lines, `label` names a cell."""

    def __init__(self, locate: Locate, label: Callable[[str], str]) -> None:
        self._locate = locate
        self._label = label

    def with_cells(self, text: str, file: str) -> str:
        """Return the debugger's output with the cells' lines; it may list lines of `file`."""
        text = _PDB_PLACE.sub(self._place, text)
        return _LISTED.sub(lambda found: str(self._locate(file, int(found["line"]))[1]).rjust(3), text)

    def _place(self, found: re.Match[str]) -> str:
        origin, line = self._locate(found["file"], int(found["line"]))
        if origin == found["file"]:
            return found[0]
        return f"{self._label(origin)}{found['open']}{line}{found['close']}"

    def typed(self, line: str, file: str, number: int) -> str:
        """Return a line that was typed while line `number` of `file` is shown."""
        offset = self._locate(file, number)[1] - number
        found = _NUMBERED.match(line)
        if found is None or not offset:
            return line
        numbers = re.sub(r"\d+", lambda each: str(max(int(each[0]) - offset, 1)), found["lines"])
        return line[: found.start("lines")] + numbers + line[found.end("lines") :]
