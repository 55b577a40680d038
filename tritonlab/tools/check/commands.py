"""`%triton check`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...notebook.shell.subcommand import Context
from ...notebook.views.widget import in_kernel

if TYPE_CHECKING:
    from .check_result import CheckResult

#: The characters of the line that shows the progress.
_WIDTH = 110


def check(context: Context, name: str, **options: Any) -> CheckResult:
    """Check a model and return the result. An interrupt ends it with the findings so far."""
    model = context.model(name)
    show = None if context.json else _changing_line()
    try:
        return model.check(progress=show, **options)
    finally:
        if show is not None:
            show("")


def _changing_line() -> Callable[[object], None]:
    """Return a function that shows a text in the place of the last one. In a notebook it updates one display, which
    stores only the last text; lines after a carriage return would all be stored."""
    if not in_kernel():
        return lambda text: print(f"\r{str(text)[:_WIDTH]:<{_WIDTH}}\r", end="", flush=True)
    display: Any = importlib.import_module("IPython.display").display
    handle = display({"text/plain": ""}, raw=True, display_id=True)

    def show(text: object) -> None:
        handle.update({"text/plain": str(text)}, raw=True)

    return show
