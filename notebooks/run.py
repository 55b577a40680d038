"""A run of a notebook without a browser, which prints what each cell did.

`python notebooks/run.py notebooks/00_quickstart.ipynb`

With `--write` it also keeps the outputs in the file that read well on a page and are the same each time: text,
pictures, and the static form of cards and views, without the times that it names. Buttons stay out, which need a
kernel; so does what cells print that are tagged `varies`, which the documentation shows all the same.

Ends with status 1 at the first cell that fails.
"""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parents[1]
#: What a card says that is another in each run.
_DATED = (
    re.compile(r"(?:(?<=: )|(?<=· )|(?<=  )|(?<=>))ready in [\d.,]+ \S+ · "),
    re.compile(r"(?: ·|(?<=loaded)) at \d\d:\d\d:\d\d\b"),
    re.compile(r" tl-static-\w+(?=')"),
    re.compile(r"(?<=READY) at \d\d:\d\d, \d\d \w+ \d{4}"),
)
_STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class PrintingClient(NotebookClient):
    """A client that prints each cell and its output as soon as it is there."""

    async def async_execute_cell(self, cell: Any, cell_index: int, *arguments: Any, **settings: Any) -> Any:
        if cell.cell_type == "markdown":
            print("\n".join(line for line in cell.source.splitlines() if line.startswith("#")), flush=True)
            return await super().async_execute_cell(cell, cell_index, *arguments, **settings)
        lines = cell.source.splitlines()
        print("\n>>> " + "\n... ".join(lines[:6]) + (f"\n... ({len(lines) - 6} more lines)" if len(lines) > 6 else ""))
        try:
            return await super().async_execute_cell(cell, cell_index, *arguments, **settings)
        finally:
            for output in cell.get("outputs", ()):
                print(_COLOUR.sub("", text_of(output)), flush=True)


def text_of(output: Any) -> str:
    """Return an output as a terminal shows it."""
    if output.output_type == "stream":
        return str(output.text).rstrip("\n")
    if output.output_type == "error":
        return "\n".join(output.traceback)
    data = output.get("data", {})
    if "application/vnd.jupyter.widget-view+json" in data:
        return "[buttons]"
    return "[a picture]" if "image/png" in data else str(data.get("text/plain", ""))


def kept(output: Any) -> Any:
    """Return the output as it is committed, or None."""
    if output.output_type == "stream":
        return output if output.name == "stdout" else None
    data = output.get("data", {})
    if "class='tl-static" in data.get("text/html", ""):
        static = {"text/plain": undated(data["text/plain"])}
        if "tl-card" in data["text/html"]:  # a figure would lose its SVG, see below
            static["text/html"] = undated(data["text/html"])
        return nbformat.v4.new_output("display_data", static)
    if "image/png" in data:
        return nbformat.v4.new_output("display_data", {"image/png": data["image/png"]})
    if output.output_type != "execute_result":
        return None
    text = {"text/plain": data["text/plain"]}
    return nbformat.v4.new_output("execute_result", text, execution_count=output.execution_count)


def undated(text: str) -> str:
    """Return the text of a card without what is another in each run, and without the style sheet: JupyterLab, before it
    trusts a notebook, and GitHub take it away, and SVG too."""
    for words in (*_DATED, _STYLE):
        text = words.sub("", text)
    return text


def write(notebook: Any, path: str) -> None:
    """Write the executed notebook with the outputs that are committed."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            hidden = "varies" in cell.metadata.get("tags", ())
            cell.outputs = [] if hidden else [found for found in map(kept, cell.outputs) if found is not None]
    notebook.metadata.pop("widgets", None)
    notebook.metadata.language_info = {"name": "python"}
    nbformat.write(notebook, path)


def main(path: str, keep: bool = False) -> int:
    # the kernel finds this checkout also where it is not installed
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    notebook = nbformat.read(path, as_version=4)
    start = time.monotonic()
    try:
        PrintingClient(
            notebook,
            timeout=300,
            resources={"metadata": {"path": str(Path(path).parent)}},
            extra_arguments=["--log-level=ERROR"],  # ipykernel 7.4 warns at each start that it listens on loopback
        ).execute()
    except CellExecutionError:
        return 1
    print(f"\n{Path(path).name} ran in {time.monotonic() - start:.0f} s")
    if keep:
        write(notebook, path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[-1], keep="--write" in sys.argv[1:-1]))
