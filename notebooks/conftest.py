"""For `pytest --nbmake notebooks`: what a notebook needs that tritonlab does not, and what its outputs must not be."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest
from nbmake import pytest_items
from nbmake.nb_result import NotebookError, NotebookResult
from nbmake.nb_run import NotebookRun

NEEDS = {"12_jax.ipynb": "jax", "95_openai.ipynb": "openai"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        package = NEEDS.get(item.path.name)
        if package is not None and find_spec(package) is None:
            item.add_marker(pytest.mark.skip(reason=f"{package} is not installed, its first cell says how"))


#: What stands for an object whose facts a program cannot read.
PLACEHOLDERS = ("VBox(", "HBox(", " object at 0x", "<IPython.core.display.")
MOST_LINES = 40


def unreadable(output: Any) -> str:
    """Return what a program that gets the text of outputs could not read; "" if that is nothing."""
    data = output.get("data", {})
    text = data.get("text/plain", "" if "image/png" in data else None) if data else ""
    if text is None:
        return "it has no text"
    found = [word for word in PLACEHOLDERS if word in text]
    if found:
        return f"its text is a placeholder: {text[:200]}"
    # matplotlib's own figures come so, and have no other text
    if "image/png" in data and text and not text.startswith("<Figure size"):
        return "a picture hides its text"
    lines = text.count("\n") + 1
    return f"its text has {lines} lines" if lines > MOST_LINES else ""


class ReadableRun(NotebookRun):
    """A run of a notebook, which fails for an output that a program cannot read."""

    def execute(self) -> NotebookResult:
        result = super().execute()
        if result.error is not None:
            return result
        for number, cell in enumerate(result.nb.cells):
            for output in cell.get("outputs", ()):
                if why := unreadable(output):
                    return NotebookResult(result.nb, NotebookError(why, f"{cell.source}\n\n{why}", number))
        return result


pytest_items.NotebookRun = ReadableRun
