"""Runs a notebook without a browser and prints what each cell did.

`python notebooks/run.py notebooks/00_quickstart.ipynb`

Ends with status 1 at the first cell that fails.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parents[1]
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class PrintingClient(NotebookClient):
    """Prints each cell and its output as soon as it is there."""

    async def async_execute_cell(self, cell: Any, cell_index: int, *arguments: Any, **settings: Any) -> Any:
        if cell.cell_type == "markdown":
            print("\n".join(line for line in cell.source.splitlines() if line.startswith("#")), flush=True)
            return await super().async_execute_cell(cell, cell_index, *arguments, **settings)
        shown = cell.source.splitlines()
        print("\n>>> " + "\n... ".join(shown[:6]) + (f"\n... ({len(shown) - 6} more lines)" if len(shown) > 6 else ""))
        try:
            return await super().async_execute_cell(cell, cell_index, *arguments, **settings)
        finally:
            for output in cell.get("outputs", ()):
                print(_COLOUR.sub("", text_of(output)), flush=True)


def text_of(output: Any) -> str:
    """One output as a terminal shows it."""
    if output.output_type == "stream":
        return str(output.text).rstrip("\n")
    if output.output_type == "error":
        return "\n".join(output.traceback)
    data = output.get("data", {})
    if "application/vnd.jupyter.widget-view+json" in data:
        return "[buttons]"
    return "[a picture]" if "image/png" in data else str(data.get("text/plain", ""))


def main(path: str) -> int:
    # the kernel finds this checkout also where it is not installed
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    notebook = nbformat.read(path, as_version=4)
    try:
        PrintingClient(notebook, timeout=300, resources={"metadata": {"path": str(Path(path).parent)}}).execute()
    except CellExecutionError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
