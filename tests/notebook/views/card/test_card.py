from __future__ import annotations

import time
from dataclasses import replace

from tritonlab.core.short_number import duration_text
from tritonlab.ipc.processes.stub_log import LogRecord
from tritonlab.notebook.views.card.card import card_body, card_text, still_html
from tritonlab.notebook.views.card.model_facts import ModelFacts, TensorFacts
from tritonlab.server.api.model_signature import shape_text

FACTS = ModelFacts(
    name="add_sub",
    version=1,
    state="READY",
    seconds=0.0412,
    instances="2 instances on CPU",
    batching="dynamic batching up to 8",
    inputs=(TensorFacts("A", "FP32", "[batch ≤ 8, 4]"), TensorFacts("LONG", "BYTES", "[batch ≤ 8, any]", True)),
    outputs=(TensorFacts("OUT", "FP32", "[batch, 4]"),),
)
LINE = LogRecord(0, "add_sub", 1, "add_sub_0", "stderr", "INFO", "<b>careful</b>")


def test_the_text_says_what_to_send() -> None:
    assert card_text(FACTS).splitlines() == [
        "add_sub  READY  version 1 · ready in 41.2 ms · 2 instances on CPU · dynamic batching up to 8",
        "  send  A     FP32   [batch ≤ 8, 4]",
        "  send  LONG  BYTES  [batch ≤ 8, any]  optional",
        "  get   OUT   FP32   [batch, 4]",
    ]


def test_warnings_output_and_the_kept_version_are_on_it() -> None:
    facts = replace(FACTS, warnings=("be warned",), log=(LINE,), kept="The last cell did not load.")
    text = card_text(facts)
    assert "  warning: be warned" in text
    assert "  | <b>careful</b>" in text
    assert "  The last cell did not load." in text


def test_html_escapes_what_the_author_wrote() -> None:
    html = card_body(replace(FACTS, name="<script>", log=(LINE,), warnings=("1 < 2",)))
    assert "<script>" not in html and "&lt;script&gt;" in html
    assert "&lt;b&gt;careful&lt;/b&gt;" in html
    assert "1 &lt; 2" in html
    assert "batch ≤ 8" in html


def test_a_card_without_a_kernel_says_when_it_was_so() -> None:
    facts = replace(FACTS, draining=("an old one hangs",))
    html = still_html(facts, time.mktime((2026, 11, 22, 14, 2, 0, 0, 0, -1)))
    assert "<span class='tl-state tl-good'>was READY at 14:02, 22 Nov 2026</span>" in html
    assert "an old one hangs" in card_body(facts) and "an old one hangs" not in html


def test_a_load_that_goes_on_or_failed_says_so() -> None:
    loading = replace(FACTS, state="LOADING", loading=3.25, log=(LINE,) * 9)
    assert "<span class='tl-clock' data-age='3.25'>3.2 s</span>" in card_body(loading)
    assert "<details class='tl-log tl-printed' open>" in card_body(loading)
    failed = replace(FACTS, state="FAILED", reason="no <weights>", seconds=None)
    assert "tl-bad-note tl-text'>no &lt;weights&gt;</div>" in card_body(failed)
    assert "  no <weights>" in card_text(failed)


def test_why_a_model_imports_again() -> None:
    assert "imported again" not in card_text(FACTS) + card_body(FACTS)
    reimported = replace(FACTS, imports_again="'torch', because model.py, line 3 <…>")
    assert "  imported again: 'torch', because model.py, line 3 <…>" in card_text(reimported)
    assert "imported again: &#x27;torch&#x27;, because model.py, line 3 &lt;…&gt;" in card_body(reimported)
    assert "  imports again: 'torch'" in card_text(replace(reimported, state="LOADING", loading=2.0))


def test_the_text_has_forty_lines_at_most() -> None:
    assert len(card_text(replace(FACTS, log=(LINE,) * 300)).splitlines()) <= 40


def test_many_lines_are_folded() -> None:
    html = card_body(replace(FACTS, log=(LINE,) * 300))
    assert "300 lines printed while loading" in html and "100 lines before: " in html
    assert "<details class='tl-log tl-printed'>" in html
    assert "<details class='tl-log tl-printed' open>" in card_body(replace(FACTS, log=(LINE,)))


def test_shapes_and_durations_are_for_people() -> None:
    assert shape_text([3, -1], 8) == "[batch ≤ 8, 3, any]"
    assert shape_text([3, -1], 8, limit=False) == "[batch, 3, any]"
    assert shape_text([], 0) == "[]"
    assert [duration_text(s) for s in (2.0, 1.234, 0.5, 0.0123, 0.000004)] == [
        "2 s",
        "1.23 s",
        "500 ms",
        "12.3 ms",
        "4 µs",
    ]
