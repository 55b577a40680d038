"""The running notebook cell: its name in tracebacks, its text, and the start of a magic's body in it."""

from __future__ import annotations

import linecache
import sys
import threading
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CellBody:
    """The body of a cell magic. Line n of it is line `n + offset` of the source that `linecache` calls `origin`."""

    origin: str
    offset: int
    #: the author's name for the cell: "Cell In[3]"
    label: str

    @property
    def number(self) -> str:
        """Return "In[3]"; "" for a text that is not the body of the running cell."""
        return self.label.removeprefix("Cell ") if self.label.startswith("Cell In[") else ""


def running_body(shell: Any, magic: str, line: str, body: str) -> CellBody:
    """Find the place of `body`, the body of `%%magic line`, in the cell that is running in `shell`.

    Put the raw cell into `linecache`, in the place of IPython's transformed cell (`get_ipython().run_cell_magic(...)`
    in one line), so that tracebacks show the author's lines. A magic called from code has no cell: its text gets a name
    of its own.
    """
    raw = raw_cell(shell)
    origin = _running_file(shell) if _names_cells(shell) else f"Cell In[{shell.execution_count}]"
    if origin is None or not raw.rstrip().endswith(body.rstrip()):
        raw = f"%%{magic} {line}\n{body}"
        origin = f"<%%{magic} {line.split(maxsplit=1)[0] if line.strip() else ''}>"
    # lines above the body count: the magic, others such as %%time, blank lines. IPython's history lacks blank lines
    # below it
    lines = raw.splitlines(keepends=True)
    above = len(raw.rstrip().removesuffix(body.rstrip()).splitlines())
    # with the magics as comments the text is Python, which tracebacks colour and cut at statements
    displayed = [f"#{text}" if text.strip() else text for text in lines[:above]] + lines[above:]
    linecache.cache[origin] = (len(raw), None, displayed, origin)
    return CellBody(origin, above, cell_label(shell, origin))


def cell_label(shell: Any, origin: str) -> str:
    """Return "Cell In[3]" for a cell's file name, and any other name as it is."""
    found = shell.compile.format_code_name(origin) if _names_cells(shell) else None
    return " ".join(found) if found else origin


def running_label(shell: Any) -> str:
    """Return "In[3]" for the cell that runs in the calling thread; "" without one, as on the thread of a button."""
    if not _names_cells(shell):
        return f"In[{shell.execution_count}]" if threading.current_thread() is threading.main_thread() else ""
    origin = _running_file(shell)
    return cell_label(shell, origin).removeprefix("Cell ") if origin is not None else ""


def cell_place(shell: Any, origin: str, line: int) -> str:
    """Return "Cell In[3], line 2", or a line of a file as Python writes it."""
    label = cell_label(shell, origin)
    return f"{label}, line {line}" if label.startswith("Cell In[") else f'File "{origin}", line {line}'


def user_namespace() -> dict[str, Any]:
    """Return the variables of the notebook, or outside IPython of the main module."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell.user_ns if shell is not None else vars(sys.modules["__main__"])


def _names_cells(shell: Any) -> bool:
    """Return whether IPython reports which file names are cells, as it does from 8.12 on; Google Colab has 7.34. An
    older version also puts the transformed cell back into `linecache`, so there the cell gets a name of ours, its
    label."""
    return hasattr(shell.compile, "format_code_name")


def _running_file(shell: Any) -> str | None:
    frame = sys._getframe(1)
    while frame is not None:
        if shell.compile.format_code_name(frame.f_code.co_filename) is not None:
            return frame.f_code.co_filename
        frame = frame.f_back  # type: ignore[assignment]
    return None


def raw_cell(shell: Any) -> str:
    """Return the running cell as the author typed it: ipykernel has it in the request, a terminal in its history."""
    if hasattr(shell, "get_parent"):
        content = (shell.get_parent() or {}).get("content", {})
        if content.get("code"):
            return str(content["code"])
    history = shell.history_manager.input_hist_raw
    return str(history[-1]) if history else ""
