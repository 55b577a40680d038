from __future__ import annotations

from tests.models import SILENT
from tritonlab.notebook.authoring.workspace import Workspace
from tritonlab.notebook.views.card.card import card_body, card_text
from tritonlab.notebook.views.card.copies_text import copies_text
from tritonlab.notebook.views.card.model_facts import model_facts
from tritonlab.profile.record_facts import DeviceCopies
from tritonlab.profile.recorder import Recorder


def test_the_words_for_copies() -> None:
    assert copies_text(None) == ""
    assert copies_text(DeviceCopies(1, 0, 7, simulated=False)) == "7 bytes from the GPU"
    assert copies_text(DeviceCopies(2, 3_000, 0, simulated=True)) == "3 kB to the simulated GPU for 2 requests"
    assert copies_text(DeviceCopies(1, 3_000, 7, simulated=False)) == "3 kB to the GPU, 7 bytes back"


def test_the_card_tells_what_a_request_copies(workspace: Workspace) -> None:
    model = workspace.load("m", SILENT)
    assert model_facts(workspace, model).copies == ""
    recorder = Recorder.for_instruments(workspace.server.instruments)
    assert model_facts(workspace, model).copies == ""
    recorder.bytes_copied("m", 1, 0, 4_000_000, 2_000, True, 0)
    recorder.bytes_copied("m", 2, 0, 2_000_000, 0, True, 0)
    facts = model_facts(workspace, model)
    assert facts.copies == "copied per request: 3 MB to the simulated GPU, 1 kB back"
    assert f"\n  {facts.copies}" in card_text(facts) and f">{facts.copies}<" in card_body(facts)
    assert facts.to_dict()["copies"] == facts.copies
