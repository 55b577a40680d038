"""The pictures of the page about verdicts: what was done, with how much evidence, what is said, and what is not.

`{verdict-picture} verify` draws one as inline SVG, in the colours and the font of the page, light or dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from docutils import nodes
from docutils.parsers.rst import Directive

from tritonlab.figures.svg_picture import BLUE, FONT, INK, LINE, ORANGE, PURPLE, WIDTH, SvgPicture, text_width

_PAD, _GAP, _BETWEEN = 9, 16, 30


class Verdict(NamedTuple):
    """The texts of a picture. The lines of a box are divided by `|`."""

    title: str
    done: Sequence[str]
    evidence: str
    says: Sequence[str]
    unsaid: str


VERDICTS = {
    "verify": Verdict(
        "What verify does, and what its verdict says",
        done=(
            "in the notebook|its answer to a request is kept",
            "tritonlab, on a copy|the same request",
            "Triton, on another copy|the same, your machine hidden",
        ),
        evidence="each request, from where, its inputs, the notebook's answer, the result; compared byte by byte",
        says=(
            "Proved|equal for all these requests",
            "Not equal|both values, and who agrees",
            "Not proved|nothing sent, not known, varies",
        ),
        unsaid="other inputs · that the model is right · load, larger batches, GPUs, days",
    ),
    "preflight": Verdict(
        "What pre-flight does, and what its verdict says",
        done=(
            "the sources and the config|rules for the target",
            "loaded once more, watched|an audit hook notes what is read",
            "run again, folders hidden|what differs is found by file",
        ),
        evidence="each finding with its line or file, the outcome that was seen, and what to do",
        says=(
            "It fails there|does not load, or differs",
            "Nothing stops it|as far as requests reach",
            "Nothing found, not all seen|no namespace, or no request",
        ),
        unsaid="what no request reached · the answers of a Triton: none was started",
    ),
    "check": Verdict(
        "What check does, and what its verdict says",
        done=(
            "the request alone|in a new process",
            "the request in company|after, beside, among others",
            "the control|the same steps without them",
        ),
        evidence="requests, seconds, seed; each relation, or why it was not tried; findings were seen twice",
        says=(
            "N findings|each can be done again",
            "Nothing found|as far as the time went",
            "Nothing could be checked|is not ok",
        ),
        unsaid="that answers are right: one that is wrong each time is never seen · other values, more hours",
    ),
    "replay": Verdict(
        "What replay does, and what its verdict says",
        done=(
            "the capture|requests with their answers",
            "the model now|the same, in order and at that pace",
            "the old model, twice|how far it differs from itself",
        ),
        evidence="how many were sent and compared, and why others were not; an example of each cause, both values",
        says=(
            "Answered as before|equal, or within the noise",
            "Changed|groups by cause, by requests",
            "Not proved|none sent, none compared, too few",
        ),
        unsaid="other requests · that the recorded answers are right · latencies of another machine",
    ),
    "profile": Verdict(
        "What profile does, and what its numbers say",
        done=(
            "your requests, or its own|while it looks",
            "Python 3.12 and later|events of lines, while cheap",
            "before, and hot loops|looks at all threads",
        ),
        evidence="executions and their time by batch size, how lines were seen, how far a share may be off",
        says=(
            "share, own, with calls|of the author's lines",
            "memory that grows|since the middle of the run",
            "No line was seen|look for longer",
        ),
        unsaid="why a line is slow · what libraries do inside of it · memory of native libraries",
    ),
    "tune": Verdict(
        "What tune does, and what its numbers say",
        done=(
            "measured|how long executions take",
            "predicted|the batcher, in simulated time",
            "measured again|the best and the present, in turn",
        ),
        evidence="windows of each candidate under one load, their spread, and whether the prediction held",
        says=(
            "than the best|a share of what was measured",
            "within noise|no difference is claimed",
            "predictions were wrong|they are not shown",
        ),
        unsaid="other traffic, other inputs, another machine · settings that it does not vary",
    ),
    "numbers": Verdict(
        "Where the numbers of views are from",
        done=(
            "the server's record|one time for each step",
            "one rule of percentiles|a time that a request took",
            "one rule of phases|queue, compute, and the rest",
        ),
        evidence="how many requests, the unit in the name or the head, the time at which it was measured",
        says=(
            "playground, timeline,|load test, tune: the same",
            "the rows add up|to the total",
            "not a number|if none was measured",
        ),
        unsaid="a trend: a view is of one record, on one machine, while it also drew",
    ),
}


def drawn(verdict: Verdict) -> str:
    """Return a picture as inline SVG. Raises ValueError for a text that does not fit into its box."""
    picture = SvgPicture(verdict.title, WIDTH, margin=1)
    _row(picture, "what is done", verdict.done, BLUE)
    _arrows(picture, len(verdict.done), 1)
    _row(picture, "with how much evidence", [verdict.evidence], ORANGE)
    _arrows(picture, 1, len(verdict.says))
    _row(picture, "what it says", verdict.says, PURPLE)
    picture.height += 8
    _row(picture, "what it does not say", [verdict.unsaid], INK, " stroke-dasharray='4 4' opacity='.75'")
    picture.height += 4
    return picture.svg()


def _row(picture: SvgPicture, name: str, boxes: Sequence[str], tone: str, look: str = "") -> None:
    """Draw boxes of one width next to each other, with the name of their row above them."""
    picture.text(0, picture.height + FONT, name, dim=True)
    top, wide = picture.height + 4, _width(len(boxes))
    lines = [box.split("|") for box in boxes]
    high = 2 * _PAD + LINE * max(map(len, lines)) - (LINE - FONT)
    for number, texts in enumerate(lines):
        left = number * (wide + _GAP)
        frame = f"M{left:.0f} {top:.0f}h{wide:.0f}v{high:.0f}h-{wide:.0f}z"
        picture.path(frame, f"fill='none' stroke='{tone}' stroke-width='1.5'{look}", top + high)
        for place, text in enumerate(texts):
            if text_width(text) > wide - 2 * _PAD:
                raise ValueError(f"{text!r} is {text_width(text):.0f} pixels wide, its box {wide - 2 * _PAD:.0f}")
            picture.text(left + _PAD, top + _PAD + FONT - 1 + LINE * place, text, bold=len(boxes) > 1 and not place)


def _width(count: int) -> float:
    return (WIDTH - 1 - _GAP * (count - 1)) / count


def _arrows(picture: SvgPicture, above: int, below: int) -> None:
    """Draw an arrow from each box of a row to those of the next, one of which is the only one in its row."""
    top = picture.height
    count = max(above, below)
    for number in range(count):
        x = number * (_width(count) + _GAP) + _width(count) / 2
        picture.line(x, top + 3, x, top + _BETWEEN - LINE)
        picture.path(f"M{x - 4:.1f} {top + _BETWEEN - LINE - 4:.1f}l4 6l4 -6", "fill='none' stroke='currentColor'")
    picture.height = top + _BETWEEN - LINE + 2


class VerdictPicture(Directive):
    """A picture of VERDICTS, by its name."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        verdict = VERDICTS[self.arguments[0]]
        return [nodes.raw("", f"<div class='verdict-picture'>{drawn(verdict)}</div>", format="html")]


def setup(app: Any) -> dict[str, Any]:
    app.add_directive("verdict-picture", VerdictPicture)
    return {"parallel_read_safe": True}
