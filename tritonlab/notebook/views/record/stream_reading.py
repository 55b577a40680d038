"""The texts of streams, read as a client reads them: pieces with the gaps before them, token times, and verdicts."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import Any, NamedTuple

from wcwidth import iter_graphemes

from ....core.percentiles import percentiles
from ....core.short_number import ns_text, short_number
from ....record.stream_text import StreamText
from ....stub._pb_stub.wire.serialization import decode_bytes_tensor

#: The most milliseconds of a gap for each of its colours but the last: `tl-gap-0` to `tl-gap-4` in `theme.css`.
GAPS = (10, 30, 100, 300)
GAP_LEGEND = (*(f"up to {gap} ms" for gap in GAPS), "longer")
#: A text that comes again at the end is at least so long, unless three responses or more had a text.
_AGAIN = 8
#: The letters before a response that can be in one character with its first ones. The longest emoji have 10.
_TAIL = 32
#: The letters and streams of the static form.
_STORED_LETTERS, _STORED_STREAMS = 800, 6
_UNKNOWN = "\N{REPLACEMENT CHARACTER}"


class TextPiece(NamedTuple):
    """The text that a client has after a response and did not have before. `gap`: its place in GAP_LEGEND; `wait`:
    nanoseconds since the response before it, or since the request.
    """

    text: str
    gap: int
    wait: int


class StreamReading:
    """The reading of one stream, from its first response on.

    A token is a text of a response that is not empty, as in `load_test(output_tokens=NAME)`; the times of tokens are
    AIPerf's.
    """

    def __init__(self, text: StreamText, name: str) -> None:
        self.text = text
        self.name = name
        self.pieces: list[TextPiece] = []
        self.tokens = 0
        self.first = self.last = 0
        self.is_read = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._whole = ""
        #: the text before the last response with one, and how many responses had one
        self._before, self._texts = "", 0
        self._is_growing = True
        self._latest = ""
        #: responses that ended within a character's bytes, had a sign for a part of one, began within a grapheme
        self._in_bytes = self._unknown = self._in_grapheme = 0

    def read(self) -> bool:
        """Read the responses that have come since; return whether there is anything new."""
        ended, chunks = self.text.ended, self.text.chunks
        begin = len(self.pieces)
        if self.is_read or (not ended and begin == len(chunks)):
            return False
        for time, data in chunks[begin:]:
            self._take(time, [bytes(each) for each in decode_bytes_tensor(data)])
        if ended and len(self.pieces) == len(chunks):
            self.is_read = True
            if rest := self._decoder.decode(b"", True):
                self._whole += rest
        return True

    def _take(self, time: int, elements: Sequence[bytes]) -> None:
        data = b"".join(elements)
        text = self._decoder.decode(data)
        chunks, place = self.text.chunks, len(self.pieces)
        wait = time - (chunks[place - 1][0] if place else self.text.arrived)
        self.pieces.append(TextPiece(text, sum(wait > gap * 1_000_000 for gap in GAPS), wait))
        if not data:
            return
        tokens = sum(map(bool, elements))
        self.first, self.last, self.tokens = self.first or time, time, self.tokens + tokens
        self._in_bytes += bool(self._decoder.getstate()[0])
        if text:
            self._unknown += _UNKNOWN in text
            self._in_grapheme += _is_within_grapheme(self._whole[-_TAIL:], text[:_TAIL])
            self._is_growing &= text.startswith(self._latest) and len(text) > len(self._latest)
            self._latest, self._before = text, self._whole
            self._texts += 1
            self._whole += text

    # -- facts

    @property
    def time_to_first_token(self) -> int | None:
        """Nanoseconds from the request to its first token."""
        return self.first - self.text.arrived if self.tokens else None

    @property
    def inter_token_latency(self) -> float | None:
        """Nanoseconds from the first token to the last one, divided by the tokens after the first one."""
        return (self.last - self.first) / (self.tokens - 1) if self.tokens > 1 else None

    @property
    def rate(self) -> float | None:
        """Tokens per second after the first one."""
        latency = self.inter_token_latency
        return 1e9 / latency if latency else None

    def times(self) -> str:
        """Return the times of its tokens in words."""
        if self.time_to_first_token is None:
            return "no token yet" if not self.text.ended else "no token"
        words = [f"first token {ns_text(self.time_to_first_token)}"]
        if self.inter_token_latency is not None:
            words.append(f"{ns_text(self.inter_token_latency)}/token")
        if self.rate is not None:
            words.append(f"{short_number(self.rate)} tokens/s")
        return " · ".join([*words, f"{self.tokens} token{'s' * (self.tokens != 1)}"])

    def verdicts(self) -> list[str]:
        """Return a sentence about each fault that a reader of the stream would notice."""
        found = []
        if len(self.pieces) > 1 and self.first > self.text.chunks[0][0]:
            early = ns_text(self.first - self.text.chunks[0][0])
            found.append(
                f"The first response has no text; measured to it, the time to first token is {early} too short."
            )
        if again := self._sent_again():
            found.append(again)
        if self._in_bytes:
            found.append(
                f"{_responses(self._in_bytes)} in the middle of a character's UTF-8 bytes: a client that decodes each "
                "response by itself shows � or fails."
            )
        if self._unknown:
            count = f"{self._unknown} responses have" if self._unknown > 1 else "1 response has"
            found.append(
                f"{count} � in place of a part of a character: decode all tokens so far and send the letters that are "
                "new and complete."
            )
        if self._in_grapheme:
            found.append(
                f"{_responses(self._in_grapheme, 'begins', 'begin')} within a character as a reader sees it, such as "
                "an accent after its letter, or the second half of a flag."
            )
        return found

    def _sent_again(self) -> str:
        if not self.text.ended or self.text.is_cut:
            return ""
        if self._is_growing and self._texts > 2:
            return "Each response has the whole text so far: a client that joins the responses shows it many times."
        before = self._before.strip()
        is_long = len(before) >= _AGAIN or (self._texts > 2 and len(before) > 1)
        if is_long and before in self._latest:
            return (
                f"The last response has the whole text again, {len(before)} characters: a client that joins the "
                "responses shows it twice."
            )
        return ""

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as JSON values; `_us` are microseconds."""
        latency = self.inter_token_latency
        return {
            "serial": self.text.serial,
            "name": self.name,
            "output": self.text.output,
            "text": self._whole,
            "is_cut": self.text.is_cut,
            "ended": bool(self.text.ended),
            "output_tokens": self.tokens,
            "time_to_first_token_us": None if self.time_to_first_token is None else self.time_to_first_token / 1e3,
            "inter_token_latency_us": None if latency is None else latency / 1e3,
            "output_token_throughput_per_user": self.rate,
            "verdicts": self.verdicts(),
        }

    def html(self) -> str:
        """Return its pane in the static form."""
        spans, room = [], _STORED_LETTERS
        for gap, pieces in groupby(self.pieces, lambda piece: piece.gap):
            text = "".join(piece.text for piece in pieces)[:room]
            room -= len(text)
            lines = escape(text).replace("\n", "<br>")  # a sanitizer drops the style that would keep the line breaks
            spans.append(f"<span class='tl-gap-{gap}'>{lines}</span>" if text else "")
        more = " …" if not room or self.text.is_cut else ""
        notes = "".join(f"<div class='tl-warn'>{escape(verdict)}</div>" for verdict in self.verdicts())
        return (
            f"<div class='tl-pane'><div><b>{escape(self.name)}</b> <span class='tl-dim'>{escape(self.times())}</span>"
            f"</div><div class='tl-pane-text'>{''.join(spans)}{more}</div>{notes}</div>"
        )


def token_times(readings: Sequence[StreamReading]) -> str:
    """Return the times of the tokens of several streams in words; empty without tokens."""
    first = [each.time_to_first_token for each in readings if each.time_to_first_token is not None]
    between = [each.inter_token_latency for each in readings if each.inter_token_latency is not None]
    if not first:
        return ""
    words = [f"time to first token p50 {_of(first, 50)}, p95 {_of(first, 95)}"]
    if between:
        words.append(f"inter-token latency p50 {_of(between, 50)}, p95 {_of(between, 95)}")
    shown = [each for each in readings if each.tokens]
    span = max(each.last for each in shown) - min(each.text.arrived for each in shown)
    if span > 0:
        words.append(f"{short_number(1e9 * sum(each.tokens for each in shown) / span)} tokens/s")
    return "; ".join(words)


def panes_html(readings: Sequence[StreamReading]) -> str:
    """Return the panes of the last streams in the static form, with their legend; empty without texts."""
    if not readings:
        return ""
    keys = " ".join(f"<span class='tl-gap-{n}'>{text}</span>" for n, text in enumerate(GAP_LEGEND))
    panes = "".join(each.html() for each in readings[-_STORED_STREAMS:])
    return f"<div class='tl-dim tl-gaps'>Text by the gap before it: {keys}</div><div class='tl-panes'>{panes}</div>"


def _of(values: Sequence[float], percent: int) -> str:
    return ns_text(percentiles(values, percent)[0])


def _responses(count: int, one: str = "ends", several: str = "end") -> str:
    return f"{count} responses {several}" if count > 1 else f"1 response {one}"


def _is_within_grapheme(before: str, after: str) -> bool:
    """Return whether a character as a reader sees it goes on from one text into the next one (UAX #29)."""
    if (before[-1:] + after[:1]).isascii() and after[:1] != "\n":
        return False  # the usual case, without the walk
    end = 0
    for grapheme in iter_graphemes(before + after):
        end += len(grapheme)
        if end >= len(before):
            break
    return bool(before) and end > len(before)
