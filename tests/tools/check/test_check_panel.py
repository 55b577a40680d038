"""The form of a check below a card, its buttons clicked without a frontend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.serving import eventually
from tritonlab.core.status import InvalidArgumentError
from tritonlab.tools.check.check_panel import CheckPanel


class Result:
    """What a check returns."""

    def text(self) -> str:
        return "nothing found"

    def html(self) -> str:
        return "<b>nothing found</b>"


class Checked:
    """A model whose check goes on until it is stopped."""

    name = "m"

    def __init__(self) -> None:
        self.options: list[tuple[float, bool]] = []
        self.refusal: Exception | None = None

    def check(self, seconds: float, *, side_effects: bool, progress: Callable[[Any], bool]) -> Result:
        self.options.append((seconds, side_effects))
        if self.refusal is not None:
            raise self.refusal
        while progress("company: <batches>"):
            pass
        return Result()


def html_of(panel: CheckPanel) -> str:
    return "".join(output["data"]["text/html"] for output in panel.output.outputs)


def test_a_check_runs_until_it_is_stopped_and_shows_its_result() -> None:
    model, frozen = Checked(), []
    panel = CheckPanel(model, lambda: frozen.append(True))
    panel.seconds.value = 7
    panel.check_button.click()
    eventually(lambda: "company: &lt;batches&gt;" in panel.progress.value)
    assert panel.running and panel.check_button.disabled and panel.stop_button.layout.display == ""
    panel.check_button.click()  # one at a time
    panel.stop_button.click()
    panel.wait(10)
    assert model.options == [(7.0, False)]
    assert "<b>nothing found</b>" in html_of(panel) and frozen == [True]
    assert not panel.check_button.disabled and panel.progress.value == ""
    assert panel.result is not None and panel.result.text() == "nothing found"


def test_a_model_that_talks_to_others_is_checked_only_if_that_is_confirmed() -> None:
    model = Checked()
    model.refusal = InvalidArgumentError("'m' talks to others")
    panel = CheckPanel(model)
    assert panel.side_effects.layout.display == "none"
    panel.start()
    panel.wait(10)
    assert "&#x27;m&#x27; talks to others" in html_of(panel)
    assert panel.side_effects.layout.display == ""
    panel.side_effects.value = True
    panel.start()
    panel.wait(10)
    assert model.options[-1] == (30.0, True)
