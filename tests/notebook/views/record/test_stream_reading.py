"""The texts of streams as a client reads them, from chunks whose times are known."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.record.events import RecorderHooks, make_request
from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.tensor import Tensor
from tritonlab.notebook.views.record.stream_reading import StreamReading, panes_html, token_times
from tritonlab.notebook.views.record.streams import Streams
from tritonlab.notebook.views.ticker import TICKER
from tritonlab.record.stream_text import RESPONSES, STREAMS, StreamText
from tritonlab.testing import MS


def text_tensor(*elements: str | bytes) -> Tensor:
    return Tensor.from_any([each.encode() if isinstance(each, str) else each for each in elements], DataType.BYTES)


def read(*chunks: str | bytes, gap: int = 10, ended: bool = True) -> StreamReading:
    """Return the reading of chunks that came every `gap` milliseconds, the first one 20 ms after the request."""
    text = StreamText(1, 0, "text_output")
    for number, chunk in enumerate(chunks):
        text.take({"text_output": text_tensor(chunk)}, (20 + number * gap) * MS)
    text.ended = (20 + len(chunks) * gap) * MS if ended else 0
    reading = StreamReading(text, "one")
    assert reading.read() and not reading.read()
    return reading


def verdict(*chunks: str | bytes, ended: bool = True) -> str:
    """Return the words of the verdicts up to their colon."""
    return "; ".join(each.partition(":")[0] for each in read(*chunks, ended=ended).verdicts())


def test_times_of_tokens_are_those_of_a_load_test() -> None:
    reading = read("The ", "stub ", "calls ", "execute.", gap=40)
    facts = reading.to_dict()
    assert (facts["time_to_first_token_us"], facts["inter_token_latency_us"], facts["output_tokens"]) == (20e3, 40e3, 4)
    assert facts["output_token_throughput_per_user"] == 25
    assert reading.times() == "first token 20 ms · 40 ms/token · 25 tokens/s · 4 tokens"
    assert token_times([reading, read("a", gap=40)]) == (
        "time to first token p50 20 ms, p95 20 ms; inter-token latency p50 40 ms, p95 40 ms; 35.7 tokens/s"
    )
    assert (token_times([]), token_times([read("")])) == ("", "")


def test_pieces_have_the_gap_before_them() -> None:
    text = StreamText(1, 0, "T")
    for at, word in ((5, "a"), (15, "b"), (46, "c"), (146, "d"), (500, "e")):
        text.take({"T": text_tensor(word)}, at * MS)
    reading = StreamReading(text, "one")
    reading.read()
    assert [(piece.text, piece.gap) for piece in reading.pieces] == [("a", 0), ("b", 0), ("c", 2), ("d", 2), ("e", 4)]


def test_an_empty_first_response_is_no_token() -> None:
    reading = read("", "a", "b")
    assert reading.verdicts() == [
        "The first response has no text; measured to it, the time to first token is 10 ms too short."
    ]
    assert (reading.tokens, reading.time_to_first_token) == (2, 30 * MS)
    assert verdict("", ended=False) == verdict("a", "", "b") == ""


@pytest.mark.parametrize(
    ("chunks", "found"),
    [
        (("The ", "stub ", "calls.", "The stub calls."), "The last response has the whole text again, 15 characters"),
        (("a long text", "Question? a long text"), "The last response has the whole text again, 11 characters"),
        (("a", "ab", "abc"), "Each response has the whole text so far"),
        (("ha", "ha"), ""),
        (("the cat and ", "the dog"), ""),
        (("a", " ", "a"), ""),
    ],
)
def test_text_that_comes_again(chunks: Any, found: str) -> None:
    assert verdict(*chunks) == found
    assert verdict(*chunks, ended=False) == ""


PART, FACE = "p\u00e4rt".encode(), "\U0001f600".encode()


@pytest.mark.parametrize(
    ("chunks", "found"),
    [
        ((PART[:2], PART[2:]), "1 response ends in the middle of a character's UTF-8 bytes"),
        ((FACE[:2], FACE[2:3], FACE[3:]), "2 responses end in the middle"),
        (("p\ufffd", "\ufffdrt"), "2 responses have \ufffd in place of a part of a character"),
        (("e", "\u0301t\u00e9"), "1 response begins within a character as a reader sees it"),
        (("\U0001f1eb", "\U0001f1f7 "), "1 response begins within a character as a reader sees it"),
        (("\U0001f468\u200d", "\U0001f469"), "1 response begins within a character as a reader sees it"),
        (("\u2764", "\ufe0f"), "1 response begins within a character as a reader sees it"),
        (("\U0001f1eb\U0001f1f7", "\U0001f1e9\U0001f1ea"), ""),
        (("p\u00e4", "rt"), ""),
    ],
)
def test_characters_split_between_responses(chunks: Any, found: str) -> None:
    assert found in verdict(*chunks) and bool(found) == bool(verdict(*chunks))


def test_split_bytes_are_one_text() -> None:
    reading = read("p\u00e4".encode()[:2], "\u00e4rt".encode()[1:])
    assert [piece.text for piece in reading.pieces] == ["p", "\u00e4rt"]
    assert reading.to_dict()["text"] == "p\u00e4rt"


def test_the_static_form_keeps_text_and_gaps() -> None:
    text = StreamText(1, 0, "T")
    for at, word in ((5, "<b>\n"), (6, "c"), (400, "d")):
        text.take({"T": text_tensor(word)}, at * MS)
    reading = StreamReading(text, "<one>")
    reading.read()
    page = panes_html([reading])
    assert "<span class='tl-gap-0'>&lt;b&gt;<br>c</span><span class='tl-gap-4'>d</span>" in page
    assert "<b>&lt;one&gt;</b>" in page and panes_html([]) == ""


@pytest.fixture
def hooks() -> RecorderHooks:
    return RecorderHooks()


def respond(hooks: RecorderHooks, serial: int, at: int, text: str, request: Any = None) -> Any:
    request = request or make_request(serial, at=at - 5, request_id=f"r{serial}")
    hooks.respond(request, at=at, outputs={"reason": text_tensor(""), "text_output": text_tensor(text)}, final=False)
    return request


def test_a_view_sends_only_the_news(hooks: RecorderHooks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TICKER, "_running", True)  # ticks are the test's
    view = Streams(hooks.recording, "add", open_requests=lambda: [(one, "add_0_0", True)])
    one = respond(hooks, 1, 10, "The ")
    message = view.texts()
    assert message is not None and message["order"] == [1]
    (pane,) = message["streams"]
    assert (pane["name"], pane["at"], pane["pieces"], pane["open"]) == ("r1", 0, [["The ", 0, 5 * MS]], True)
    assert view.texts() is None
    respond(hooks, 1, 50, "stub", one)
    hooks.respond(one, at=60, empty=True)
    message = view.texts()
    assert message is not None
    (pane,) = message["streams"]
    assert (pane["at"], pane["pieces"], pane["open"]) == (1, [["stub", 2, 40 * MS]], False)
    assert view.texts() is None
    view.on_message({"do": "open", "known": {}})
    again = view.texts()
    assert again is not None and len(again["streams"][0]["pieces"]) == 2  # another browser has none of it
    view.close()
    assert "  tokens          time to first token p50 5 ms" in repr(view)
    assert view.to_dict()["texts"][0]["text"] == "The stub" and "<b>r1</b>" in view.html()


def test_a_browser_that_opens_the_view_while_texts_are_sent_gets_them_all(
    hooks: RecorderHooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TICKER, "_running", True)  # ticks are the test's
    view = Streams(hooks.recording, "add")
    sent: list[Any] = []
    monkeypatch.setattr(view, "send", lambda content, buffers=(): sent.append(content))
    open_view = {"do": "open", "known": {}}
    one = respond(hooks, 1, 10, "The ")
    view.on_message(open_view)
    view.tick()
    respond(hooks, 1, 50, "stub", one)
    opens, read = threading.Thread(target=view.on_message, args=(open_view,)), StreamReading.read

    def read_slowly(reading: StreamReading) -> bool:
        opens.start()
        opens.join(0.1)
        return read(reading)

    with monkeypatch.context() as patch:
        patch.setattr(StreamReading, "read", read_slowly)
        view.tick()
    opens.join()
    view.tick()
    (pane,) = sent[-1]["streams"]
    assert (pane["at"], [text for text, *_ in pane["pieces"]]) == (0, ["The ", "stub"])
    view.close()


def test_the_last_streams_are_kept_and_no_more_at_once_than_have_room(hooks: RecorderHooks) -> None:
    view = Streams(hooks.recording, "add")
    requests = [respond(hooks, serial, 10, "a") for serial in range(1, STREAMS + 4)]
    assert [reading.text.serial for reading in view.readings()] == list(range(1, STREAMS + 1))
    for request in requests:
        hooks.respond(request, at=20, empty=True)
    respond(hooks, 100, 30, "b")
    assert [reading.text.serial for reading in view.readings()][-1] == 100
    assert len(view.readings()) == STREAMS


def test_a_long_text_is_cut(hooks: RecorderHooks) -> None:
    request = respond(hooks, 1, 10, "a")
    for _ in range(RESPONSES + 5):
        respond(hooks, 1, 11, "b", request)
    (reading,) = Streams(hooks.recording, "add").readings()
    assert (len(reading.pieces), reading.text.is_cut) == (RESPONSES, True)


def test_streams_of_numbers_have_no_text(hooks: RecorderHooks) -> None:
    request = make_request(1)
    hooks.respond(request, at=10, outputs=request.inputs, final=False)
    view = Streams(hooks.recording, "add")
    assert view.readings() == [] and view.texts() is None and "tl-panes" not in view.html()
    assert "nan" not in repr(view)
