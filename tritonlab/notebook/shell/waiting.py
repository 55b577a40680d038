"""Reports of requests that wait for long, shown where the author waits, too: below the running cell."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterable

from ...core.observe.instrument import Instrument
from ..authoring.source_map import Locate
from .running_cell import RunningCell

#: Returns origins of a line of a file, as `SourceMap.earlier` does.
Earlier = Callable[[str, int], Iterable[tuple[str, int]]]

_PLACE = re.compile(r'File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?P<rest>, in [^\n]*\n {4}(?P<text>[^\n]*))?')
#: The place of a warning as Python prints it, before its category.
_WARNED = re.compile(r"^(?P<file>/[^\n:]+):(?P<line>\d+)(?=: \w*Warning: )", re.MULTILINE)
#: A frame in a text of Triton's, below its `At:` (rule 2.5.2).
_AT = re.compile(r"^(?P<indent> {2})(?P<file>[^\n]+)\((?P<line>\d+)\)(?=: )", re.MULTILINE)


class CellPlaces:
    """Lines of model files in a text, replaced by lines of cells. `locate` maps lines, `label` names a cell (`Cell
    In[3]`). `earlier`: where a line came from in files that were replaced, and which may still be executed."""

    def __init__(self, locate: Locate, label: Callable[[str], str], earlier: Earlier = lambda file, line: ()) -> None:
        self._locate = locate
        self._label = label
        self._earlier = earlier

    def reading(self, locate: Locate) -> CellPlaces:
        """Return the same for other lines."""
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


class WaitingNotice(Instrument):
    """Each report, printed below the running cell."""

    def __init__(self, places: CellPlaces, cell: RunningCell) -> None:
        self._places = places
        self._cell = cell

    def requests_wait(self, model: str, text: str, now: int) -> None:
        self._cell.write(self._places(text), error=True)
