from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tritonlab.core.status import UnavailableError
from tritonlab.notebook.views.card.card_panel import TaskPanel


class Panel(TaskPanel):
    def __init__(self) -> None:
        super().__init__("panel", lambda: None)
        self.running_states: list[bool] = []

    def _form(self, widgets: Any) -> list[Any]:
        return []

    def _on_running(self, is_running: bool) -> None:
        self.running_states.append(is_running)

    @property
    def text(self) -> str:
        found: str = self.output.outputs[0]["data"]["text/plain"]
        return found


def raising(error: Exception) -> Callable[[], Any]:
    def task() -> Any:
        raise error

    return task


def test_a_task_that_fails_shows_why() -> None:
    panel = Panel()
    panel._run(raising(UnavailableError("no instance <runs>")))
    assert panel.text == "no instance <runs>"
    assert "no instance &lt;runs&gt;" in panel.output.outputs[0]["data"]["text/html"]
    with pytest.raises(KeyError):  # for the log
        panel._run(raising(KeyError("x")))
    assert panel.text == "KeyError: 'x'" and panel.running_states == [False, False]
