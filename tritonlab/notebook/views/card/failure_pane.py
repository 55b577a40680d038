"""The failure pane below the cell whose request failed: the place in the author's code, with its variables and the
request, and two buttons that send the request again and write a test for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from html import escape
from typing import Any

import numpy as np

from ....core.inference.tensor import Tensor
from ....core.observe.failure_capsule import KeptRequest
from ....exchanges.snippets import failure_test
from ....figures.stored_picture import data_address
from ....server.api.failures import KeptFailure
from ....stub._pb_stub.wire.message_bodies import FrameState
from ...authoring.notebook_ports import Ports, open_address
from ..widget import LiveView

#: Requests, and frames besides the innermost one, in the HTML.
_REQUESTS, _FRAMES = 8, 8


class FailurePane(LiveView):
    """A failure. `cite` names the cell in a text that names a line of a model's file; `ports` are the notebook's own,
    to which the test is sent if they are open."""

    MODULE = "failure.js"

    def __init__(self, failure: KeptFailure, cite: Callable[[str], str] = str, ports: Ports = lambda: None) -> None:
        self.failure = failure
        self._ports = ports
        # cited now: once the cell is edited and run again its lines change
        self._places = [_place(frame, cite) for frame in failure.capsule.frames]
        self._replayed = ""
        self._pressing = threading.Lock()  # one press at a time
        super().__init__(html=self._body(), result="", good=False, busy="", snippet="", files=[])

    def text(self) -> str:
        return "\n".join([repr(self.failure), *([self._replayed] if self._replayed else [])])

    def to_dict(self) -> dict[str, Any]:
        return {**self.failure.to_dict(), "places": self._places, "replayed": self._replayed or None}

    def html(self) -> str:
        note = f"<div class='tl-note'>{escape(self._replayed)}</div>" if self._replayed else ""
        return f"<div class='tl-card tl-failure'>{self._body()}{note}</div>"

    # -- buttons

    def on_message(self, content: Mapping[str, Any]) -> None:
        """Handle a press on a thread of its own, because the model may take long."""
        threading.Thread(target=self.press, args=(content.get("do"),), name="failure button", daemon=True).start()

    def press(self, do: str) -> None:
        """Run the action of the button: `replay` or `pytest`."""
        action = {"replay": self._replay, "pytest": self._write}.get(do)
        if action is None or not self._pressing.acquire(blocking=False):
            return
        try:
            self.update(busy=do, result="")
            self.update(busy="", **action())
        finally:
            self._pressing.release()

    def _replay(self) -> dict[str, Any]:
        started = time.perf_counter()
        good = False
        try:
            answer = self.failure.replay()
        except Exception as error:
            found = getattr(error, "capsule", None)
            same = found is not None and found.headline == self.failure.capsule.headline
            kind = "the same" if same else "in another way"
            text = f"It fails {kind}: {found.headline if found is not None else error}"
        else:
            good = True
            text = f"Answered in {(time.perf_counter() - started) * 1e3:.1f} ms. {_answered(answer)}"
        self._replayed = f"Replayed at {time.strftime('%H:%M:%S')}. {text}"
        self.freeze()
        return {"result": text, "good": good}

    def _write(self) -> dict[str, Any]:
        try:
            failure = self.failure
            snippet = failure_test(
                failure.requests(), failure.model.config(), failure.capsule.headline, open_address(self._ports)
            )
        except Exception as error:
            return {"result": str(error), "good": False}
        files = [(snippet.name, str(snippet).encode()), *snippet.files.items()]
        links = [{"name": name, "href": data_address("application/octet-stream", data)} for name, data in files]
        return {"snippet": str(snippet), "files": links}

    # -- HTML

    def _body(self) -> str:
        capsule = self.failure.capsule
        at = time.strftime("%H:%M:%S", time.localtime(capsule.time_ns / 1e9))
        where = f"execution {capsule.batch_id} of {capsule.instance}" if capsule.batch_id else capsule.instance
        parts = [
            "<div class='tl-head'><span class='tl-dot tl-bad'></span>"
            # the spaces separate words without styles, too
            f"<span class='tl-name'>{escape(capsule.model)}</span> "
            f"<span class='tl-state tl-bad'>FAILED IN {capsule.phase.upper()}</span> "
            f"<span class='tl-dim'>{escape(where)}, {at}</span></div>"
            f"<div class='tl-note tl-bad-note tl-text'>{escape(capsule.headline)}</div>"
        ]
        frames = list(zip(capsule.frames, self._places, strict=True))
        chosen = next((i for i, frame in enumerate(capsule.frames) if frame is capsule.place), -1)
        if frames:
            parts.append(_frame_html(*frames[chosen], opened=True))
            others = [pair for i, pair in enumerate(frames) if i != chosen % len(frames)][-_FRAMES:]
            parts += [_frame_html(*pair, opened=False) for pair in reversed(others)]
        if capsule.requests:
            parts.append(_requests_html(capsule.requests, capsule.left_out))
        return "".join(parts)


def _place(frame: FrameState, cite: Callable[[str], str]) -> str:
    """Return the place in the form of a traceback: `Cell In[3], line 14, in execute`."""
    # a file that was edited meanwhile may not have the line
    source = "".join(frame.source[frame.line - frame.start :][:1]).strip()
    return cite(f'File "{frame.file}", line {frame.line}, in {frame.function}\n    {source}').partition("\n")[0]


def _frame_html(frame: FrameState, place: str, opened: bool) -> str:
    lines = []
    line_of_cell = place.partition(", line ")[2].partition(",")[0]
    shift = frame.line - int(line_of_cell) if line_of_cell.isdigit() else 0
    for number, text in enumerate(frame.source, frame.start):
        here = number == frame.line
        line = f"{'→' if here else ' '} {number - shift:>3}  {escape(text)}"
        lines.append(f"<b class='tl-bad'>{line}</b>" if here else line)
    rows = "".join(
        f"<tr><td class='tl-tensor'>{escape(name)}</td><td class='tl-value-cell tl-type'>{escape(text)}</td></tr>"
        for name, text in frame.variables
    )
    variables = f"<table class='tl-tensors tl-variables'><tbody>{rows}</tbody></table>" if rows else ""
    source = "<pre class='tl-lines'>{}</pre>".format("\n".join(lines)) if lines else ""
    return (
        f"<details class='tl-log tl-frame'{' open' * opened}><summary>{escape(place)}</summary>"
        f"{source}{variables}</details>"
    )


def _requests_html(requests: tuple[KeptRequest, ...], left_out: int) -> str:
    several = len(requests) > 1
    rows = "".join(
        row
        for number, request in enumerate(requests[:_REQUESTS], 1)
        for row in _rows(request, number if several else 0)
    )
    more = len(requests) + left_out - min(len(requests), _REQUESTS)
    count = len(requests) + left_out
    title = "What was sent" if count == 1 else f"What was sent: {count} requests in one batch"
    return (
        f"<details class='tl-log'{' open' * (count == 1)}><summary>{title}</summary><table class='tl-tensors'><tbody>"
        f"{rows}</tbody></table>{f'<div class=tl-dim>and {more} more</div>' if more else ''}</details>"
    )


def _rows(request: KeptRequest, number: int) -> Iterator[str]:
    """Yield the rows of a request; `number` is its place in a batch of several, else 0."""
    name = f"{number}. " * (number > 0) + (request.request_id or f"request {request.serial}")
    for index, (key, record) in enumerate(request.inputs.items()):
        first = name if index == 0 else ""
        values = record.text.partition("] ")[2]
        cut = " <span class='tl-warn'>cut: too large to be kept</span>" if record.tensor is None else ""
        yield (
            f"<tr{' class=tl-first' * (not index)}><td class='tl-dim'>{escape(first)}</td>"
            f"<td class='tl-tensor'>{escape(key)}</td>"
            f"<td class='tl-type'>{record.datatype.name}</td><td class='tl-shape'>{list(record.shape)}</td>"
            f"<td class='tl-type tl-value-cell'>{escape(values)}{cut}</td></tr>"
        )


def _answered(answer: Any) -> str:
    if isinstance(answer, list):
        return f"{len(answer)} responses; the first: {_answered(answer[0])}" if answer else "No responses."
    return ", ".join(f"{name} {_text(array)}" for name, array in answer.items())


def _text(array: Any) -> str:
    return repr(Tensor.from_numpy(np.asarray(array))).removeprefix("<Tensor ").removesuffix(">")
