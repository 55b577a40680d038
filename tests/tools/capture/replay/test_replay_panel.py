"""The form of a replay: what is missing, its verdict, and the buttons of the changes."""

from __future__ import annotations

from typing import Any

import pytest

from tritonlab.tools.capture.replay import replay_panel
from tritonlab.tools.capture.replay.replay_panel import ReplayPanel


class FakeModel:
    name = "m"


class FakeVerdict:
    """A verdict with one group."""

    def text(self) -> str:
        return "1 of 2 answers changed"

    def html(self) -> str:
        return "<b>1 of 2</b>"

    def panel(self) -> Any:
        import ipywidgets

        return ipywidgets.VBox([ipywidgets.HTML(""), ipywidgets.HTML("the group")])


def test_a_replay_and_its_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def replay(model: Any, capture: Any, *, progress: Any, **options: Any) -> FakeVerdict:
        calls.append((str(capture), options, progress("replay: 100 answers")))
        return FakeVerdict()

    monkeypatch.setattr(replay_panel, "replay", replay)
    changed: list[Any] = []
    panel = ReplayPanel(FakeModel(), lambda: changed.append(panel.content))  # type: ignore[arg-type]

    def output() -> str:
        panel.wait(30)
        return str(panel.output.outputs[0]["data"]["text/plain"])

    panel.replay_button.click()
    assert output().startswith("name the file of a capture") and not panel.groups.children
    panel.file.value, panel.pace.value, panel.noise.value = " day.arrow ", None, True
    panel.replay_button.click()
    assert output() == "1 of 2 answers changed" and panel.groups.children[0].value == "the group"
    assert calls == [("day.arrow", {"against": panel._model, "speed": None}, True)] and changed == [panel.result]
    assert panel.stop_button.layout.display == "none" and not panel.replay_button.disabled
    panel.close()
