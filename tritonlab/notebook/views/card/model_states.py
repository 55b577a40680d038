"""`ModelStates`, the only store of changes of a workspace's models; every view of a model follows it.

No view is computed on the server's threads, which may hold locks that a view needs: a hook only records a possible
change, and the store's thread calls the followers. It runs while models change: a model that loads, drains or starts
again is checked until it has settled.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ....core.observe.instrument import Instrument

if TYPE_CHECKING:
    from ....ipc.processes.stub_log import LogRecord
    from ....server.api.model import Host
    from ..playground.playground import Playground
    from ..widget import LiveView

_log = logging.getLogger(__name__)

#: Seconds between two checks of a changing model, and seconds in which changes count as one.
_PACE = 0.2
_TOGETHER = 0.03

#: Nanoseconds between two readings of the bytes that requests have copied: each request would be too often.
_COPIES_EVERY = 2_000_000_000

#: The most live playgrounds of one model.
_FORMS = 8

#: Checks its model; returns whether it is changing. Called on the store's thread.
Look = Callable[[], bool]


class ModelStates(Instrument):
    """The followers of models, called at every change. Guarantees: a follower is called soon after every change, by one
    thread; changes that come together are one.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()  # guards everything below
        self._followers: dict[Look, str] = {}
        self._due: set[Look] = set()
        self._forms: dict[str, list[Playground]] = {}
        self._thread: threading.Thread | None = None
        #: when a copy was last shown, by model; a skipped copy is shown with the next one
        self._copied: dict[str, int] = {}
        # the parts of a model's card that are kept when its cell runs again: the form with its input, and the open
        # panel
        self.forming = threading.RLock()  # guards the next two
        self.playgrounds: dict[str, Playground] = {}
        self.cards: dict[str, list[LiveView]] = {}
        self.opened: dict[str, str] = {}

    @staticmethod
    def for_server(server: Host) -> ModelStates:
        """Return the server's own store, made at the first use."""
        return server.instruments.only(ModelStates, ModelStates)

    def follow(self, look: Look, model: str = "") -> None:
        """Call `look` whenever the model, or any model, may have changed."""
        with self._changed:
            self._followers[look] = model
        self.poke(model)

    def follow_form(self, form: Playground, model: str) -> None:
        """Renew a form as `follow` does. Close the oldest form of the model if there are too many, because nothing
        reports that a form is no longer visible. The form of the model's cards stays.
        """
        self.follow(form.renew, model)
        form.closed = lambda: self._leave_form(form, model)
        with self._changed:
            forms = self._forms[model] = [*self._forms.get(model, ()), form]
            old, self._forms[model] = forms[:-_FORMS], forms[-_FORMS:]
        for each in old:
            if each is not self.playgrounds.get(model):
                each.close()

    def _leave_form(self, form: Playground, model: str) -> None:
        self.leave(form.renew)
        with self._changed:
            self._forms[model] = [each for each in self._forms.get(model, ()) if each is not form]

    def leave(self, look: Look) -> None:
        with self._changed:
            self._followers.pop(look, None)
            self._due.discard(look)

    def freeze_cards(self, model: str) -> None:
        """Renew the static forms of the model's cards after a change of their open panels."""
        with self.forming:
            cards = list(self.cards.get(model, ()))
        for card in cards:
            card.freeze()

    def poke(self, model: str) -> None:
        """Record that the model may have changed. Does not block."""
        with self._changed:
            for look, name in self._followers.items():
                if name in ("", model):
                    self._due.add(look)
            if self._due and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="model states", daemon=True)
                self._thread.start()
            self._changed.notify()

    # -- hooks

    def model_state(self, model: str, version: int, state: str, reason: str, now: int) -> None:
        self.poke(model)

    def requests_wait(self, model: str, text: str, now: int) -> None:
        self.poke(model)

    def log(self, record: LogRecord) -> None:
        if record.stream == "server":  # a death, a restart, a warning of outputs
            self.poke(record.model)

    def bytes_copied(
        self, model: str, serial: int, device: int, to_device: int, to_host: int, simulated: bool, now: int
    ) -> None:
        if now - self._copied.get(model, -_COPIES_EVERY) >= _COPIES_EVERY:
            self._copied[model] = now
            self.poke(model)

    # -- the thread

    def _run(self) -> None:
        moving: set[Look] = set()
        while True:
            with self._changed:
                if not self._due:
                    self._changed.wait(_PACE)
                due = (self._due | moving) & self._followers.keys()
                self._due = set()
                if not due:
                    self._thread = None
                    return
            moving = {look for look in due if self._look(look)}
            time.sleep(_TOGETHER)

    def _look(self, look: Look) -> bool:
        try:
            return look()
        except Exception:
            _log.exception("%r raised and follows no more", look)
            self.leave(look)
            return False
