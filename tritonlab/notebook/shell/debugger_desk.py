"""The place under the running cell where an author types to the debugger of a model, in the cell's own line numbers."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from typing import Any

from ...instances.debugging.debug_session import DebugSession
from ...ipc.link.stub_link import Prompt
from ..authoring.source_map import Locate
from .prompt_watch import PromptWatch
from .running_cell import RunningCell, follow_cells

#: How pdb writes a place: `/dir/model.py(7)execute()`, and `/dir/model.py:7` of a breakpoint.
_PLACE = re.compile(r"(?P<file>/[^\n():]+)(?P<open>[(:])(?P<line>\d+)(?P<close>\)?)")
#: The number before a line that pdb lists.
_LISTED = re.compile(r"^ *(?P<line>\d+)(?=[ B]*(?:->|>>)?\t)", re.MULTILINE)
#: Commands that take line numbers of the file that is shown.
_NUMBERED = re.compile(r"^\s*(?:b|break|tbreak|unt|until|j|jump|l|list)\s+(?P<lines>\d+(?:\s*,\s*\d+)?)")


class CellLines:
    """The line numbers of pdb in model files, turned into those of cells, and back. `locate` maps lines, `label` names
    a cell."""

    def __init__(self, locate: Locate, label: Callable[[str], str]) -> None:
        self._locate = locate
        self._label = label

    def with_cells(self, text: str, file: str) -> str:
        """Return what the debugger printed, which may list lines of `file`."""
        text = _PLACE.sub(self._place, text)
        return _LISTED.sub(lambda found: str(self._locate(file, int(found["line"]))[1]).rjust(3), text)

    def _place(self, found: re.Match[str]) -> str:
        origin, line = self._locate(found["file"], int(found["line"]))
        if origin == found["file"]:
            return found[0]
        return f"{self._label(origin)}{found['open']}{line}{found['close']}"

    def typed(self, line: str, file: str, number: int) -> str:
        """Return a line that was typed where line `number` of `file` is shown."""
        offset = self._locate(file, number)[1] - number
        found = _NUMBERED.match(line)
        if found is None or not offset:
            return line
        numbers = re.sub(r"\d+", lambda each: str(max(int(each[0]) - offset, 1)), found["lines"])
        return line[: found.start("lines")] + numbers + line[found.end("lines") :]


class NotebookDesk:
    """The reader of lines with IPython's `input` while a cell runs, if the front end has input (nbclient and papermill
    cannot)."""

    def __init__(
        self, shell: Any, lines: CellLines, places: Callable[[str], str], watch: PromptWatch, cell: RunningCell
    ) -> None:
        """`places` cites cells in a text."""
        self.watch = watch
        self._cell = cell
        self._shell = shell
        self._lines = lines
        self._places = places
        self.began()

    def listen(self) -> None:
        """Follow the shell's cells from now on, in place of any other desk."""
        follow_cells(self._shell, pre_run_cell=self.began, post_run_cell=self.ended)

    def began(self, info: object = None) -> None:
        """Look, as a cell begins, whether its front end has input."""
        self._runs = True
        if hasattr(self._shell, "get_parent"):
            self._asks = bool((self._shell.get_parent() or {}).get("content", {}).get("allow_stdin"))
        else:
            self._asks = sys.stdin is not None and sys.stdin.isatty()

    def ended(self, result: object) -> None:
        self._runs = False

    def can_read(self) -> bool:
        return self._asks

    def reads_here(self) -> bool:
        return self._runs and threading.current_thread() is threading.main_thread()

    def read(self, session: DebugSession, prompt: Prompt) -> str | None:
        print(self._lines.with_cells(prompt.text, prompt.file), end="", flush=True)
        try:
            with self.watch:
                line = input(prompt.prompt)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(self.watch.gone or "interrupted") from None
        except EOFError:
            return "EOF"
        except NotImplementedError:  # IPython's StdinNotImplementedError
            return None
        return self._lines.typed(line, prompt.file, prompt.line)

    def say(self, session: DebugSession, text: str) -> None:
        self._cell.write(self._places(text), error=True)
