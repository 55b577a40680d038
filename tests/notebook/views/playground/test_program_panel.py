from __future__ import annotations

import pytest

from tritonlab.exchanges.snippets import KINDS, Snippet
from tritonlab.notebook.views.playground.program_panel import ProgramPanel


@pytest.fixture
def panel() -> ProgramPanel:
    def make(kind: str) -> Snippet:
        if kind == "pytest":
            return Snippet("test_m.py", "one\ntwo\n", {"test_m.npz": b"abc"})
        raise ValueError(f"no <{kind}> here")

    return ProgramPanel(make)


def test_nothing_is_displayed_at_first(panel: ProgramPanel) -> None:
    assert panel.choice.options == ("Copy as …", *KINDS)
    assert panel.box.layout.display == "none"


def test_the_chosen_program_is_displayed_with_what_lies_beside_it(panel: ProgramPanel) -> None:
    panel.choice.value = "pytest"
    assert panel.box.layout.display == "" and panel.text.value == "one\ntwo\n"
    assert "download='test_m.py'" in panel.note.value
    assert "download='test_m.npz' href='data:application/octet-stream;base64,YWJj'" in panel.note.value
    panel.choice.value = "Copy as …"
    assert panel.box.layout.display == "none"


def test_what_cannot_be_written_is_reported(panel: ProgramPanel) -> None:
    panel.choice.value = "pytest"
    panel.choice.value = "curl"
    assert "no &lt;curl&gt; here" in panel.note.value
    assert panel.text.value == "" and panel.copy_button.layout.display == "none"
