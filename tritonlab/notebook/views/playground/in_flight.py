"""The requests in flight from a form, with its buttons and their progress."""

from __future__ import annotations

import threading
from collections.abc import Callable

import ipywidgets as widgets

from ....exchanges.exchange import Exchange
from ....exchanges.sending import Sending
from .fields import button, label_looks, side_by_side
from .input_values import ValueProblem

MOST_IN_FLIGHT = 4096
_FRAME_SECONDS = 1 / 20
#: Seconds after which the stacks are shown, and seconds after which they are requested again.
STUCK_SECONDS = 5
_AGAIN_SECONDS = 2


class SendButtons:
    """A button for one request, a button for `count` requests, and a button that cancels them. Either the first two are
    enabled, or the last.
    """

    def __init__(self, press: Callable[[int], None], cancel: Callable[[], None]) -> None:
        self.send = button("Send", lambda: press(1), "Ctrl+Enter in any field", button_style="primary")
        self.many = button("Send N", lambda: press(self.count.value), "N requests in flight at once")
        self.count = widgets.BoundedIntText(
            value=32,
            min=1,
            max=MOST_IN_FLIGHT,
            description=f"N, at most {MOST_IN_FLIGHT:,}",
            tooltip="Requests of Send N, all in flight at once",
            **label_looks(),
        )
        self.cancel = button("Cancel", cancel, "Request cancellation; press again to stop waiting", disabled=True)
        self.box = side_by_side(self.send, self.many, self.count, self.cancel)

    def enable(self, ready: bool) -> None:
        """Enable the first two buttons if `ready`, or only Cancel while a request is in flight."""
        self.send.disabled = self.many.disabled = not ready
        self.cancel.disabled = ready


class CurrentSending:
    """The last request of a form. Until it has ended or is abandoned, no other is sent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the next
        self._sending: Sending | None = None

    def begin(self, sending: Sending) -> None:
        """Record the requests that are sent now. Raises ValueProblem while a request is in flight."""
        with self._lock:
            if self._sending is not None and not self._sending.finished:
                raise ValueProblem("a request is still in flight: wait, or cancel it")
            self._sending = sending

    def cancel(self) -> bool:
        """Request cancellation of the requests in flight. A second call forgets them and returns True: a model
        may never respond (rule 3.7.2).
        """
        with self._lock:
            sending = self._sending
            forgotten = sending is not None and sending.cancelled
            if forgotten:
                self._sending = None
        if sending is not None and not forgotten:
            sending.cancel()
        return forgotten

    def now(self) -> Sending | None:
        """Return the last sent requests, ended or not."""
        with self._lock:
            return self._sending

    def finished(self) -> Exchange | None:
        """Return the outcome of the last request, or of the first of many; None before its end."""
        sending = self.now()
        return sending.outcomes()[0] if sending is not None and sending.finished else None


def follow(sending: Sending, show: Callable[[str], None], wanted: Callable[[], bool]) -> None:
    """Call `show` for every change, every second, and at the end, as long as `wanted` returns True. Once the requests
    take long, the text includes the reason.
    """
    second, looked, why = 0, 0.0, ""
    while not sending.wait(_FRAME_SECONDS):
        if not wanted():
            return
        waited = sending.waited
        changed = sending.take_changes()
        if waited >= STUCK_SECONDS and waited >= looked + _AGAIN_SECONDS:
            looked, why = waited, sending.why()
            changed = True
        if changed or int(waited) > second:
            second = int(waited)
            show(why)
    if wanted():
        show("")
