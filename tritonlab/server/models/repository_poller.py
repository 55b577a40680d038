"""The poll mode: regular looks at the repositories, which load, reload and unload changed models (rule 5.11.1).

One bad model must not prevent others from being served (server issue 6534: in Triton it can): each load runs on its own
thread, and a failure affects only its model. Triton tries a failed load again at every poll; here it is tried again
when its files have changed, since nothing else can have fixed it, and is logged once.

A poll may come while files are being written, and half a config can be a valid one: Triton loads it, and the whole one
at the next poll. Here a change counts once a second look, half a second later, finds the same files.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from ...core.clock import Clock
from ...core.status import TritonError
from ...engine.schedulers.scheduler import WakeUp
from ...repository.layout import Fingerprint, fingerprint
from ...repository.model_repository_manager import ModelRepositoryManager

_log = logging.getLogger(__name__)

#: Nanoseconds for which a change must stay the same, and after which a continuous change is accepted.
_SETTLES = 500_000_000
_PATIENCE = 10_000_000_000

#: The files seen of a model, per directory; None if the model does not exist.
ModelFingerprints = dict[str, Fingerprint] | None


class Change(NamedTuple):
    """A change that may still be in progress: the files seen last, since when, and the begin of the change."""

    seen: ModelFingerprints
    since: int
    began: int


class Control(Protocol):
    """The poller's view of `model_control.ModelControl`, or a fake."""

    def load_model(self, name: str) -> object: ...

    def unload_model(self, name: str) -> object: ...


def run_in_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="repository poll", daemon=True).start()


class RepositoryPoller:
    """The poll every `seconds` (0: never), from `start` to `stop`. `run` starts work that must not block the timer."""

    def __init__(
        self,
        repository: ModelRepositoryManager,
        control: Control,
        clock: Clock,
        timer: WakeUp,
        seconds: float,
        run: Callable[[Callable[[], None]], None] = run_in_thread,
    ) -> None:
        self._repository = repository
        self._control = control
        self._clock = clock
        self._timer = timer
        self._pause = int(seconds * 1e9)
        self._run = run
        self._lock = threading.Lock()  # guards all fields below; one poll at a time
        self._changing: dict[str, Change] = {}
        self._looks_again = False  # whether another look at them is on the timer
        #: the files seen of each model when it was last loaded, or tried
        self._seen: dict[str, dict[str, Fingerprint]] = {}
        self._busy: set[str] = set()
        self._missed: set[str] = set()  # the models that have changed again
        self._stopped = False

    def start(self) -> None:
        """Start, with the present files as known; call it before the models of the start are loaded."""
        self._seen = self._look()
        self._arm()

    def stop(self) -> None:
        self._stopped = True

    def poll(self) -> None:
        """Start the loads and unloads for changes since the last poll; look again soon at changes in progress."""
        with self._lock:
            found = self._look()
            differing: dict[str, ModelFingerprints] = {
                name: seen for name, seen in found.items() if seen != self._seen.get(name)
            }
            self._missed.update(self._busy.intersection(differing))
            differing = {name: seen for name, seen in differing.items() if name not in self._busy}
            differing.update((name, None) for name, seen in self._seen.items() if name not in found and _is_gone(seen))
            settled = self._settle(differing)
            changed = [name for name in settled if name in found]
            gone = [name for name in settled if name not in found]
            for name in changed:
                self._seen[name] = found[name]
            for name in gone:
                del self._seen[name]
            self._busy.update(changed)
        for name in gone:
            self._run(lambda name=name: self._unload(name))  # type: ignore[misc]
        for name in changed:
            self._run(lambda name=name: self._load(name))  # type: ignore[misc]

    def _settle(self, differing: dict[str, ModelFingerprints]) -> list[str]:
        """Return the models whose change is over, and arrange another look at the others."""
        now, before = self._clock.now(), self._changing
        self._changing, settled = {}, []
        for name, seen in differing.items():
            change = before.get(name, Change(seen, now, now))
            if change.seen != seen:
                change = Change(seen, now, change.began)
            if now - change.since >= _SETTLES or now - change.began >= _PATIENCE:
                settled.append(name)
            else:
                self._changing[name] = change
        if self._changing and not self._looks_again:
            self._looks_again = True
            self._timer.call_at(now + _SETTLES, lambda: self._run(self._look_again))
        return settled

    def _look_again(self) -> None:
        self._looks_again = False
        self._poll_safely()

    def _look(self) -> dict[str, dict[str, Fingerprint]]:
        directories = self._repository.directories()
        return {name: {str(path): fingerprint(path) for path in places} for name, places in directories.items()}

    def _arm(self) -> None:
        if not self._pause:
            return  # 0 seconds is never, as in Triton (measured)
        self._timer.call_at(self._clock.now() + self._pause, lambda: self._run(self._due))

    def _due(self) -> None:
        if self._stopped:
            return
        self._poll_safely()
        self._arm()

    def _poll_safely(self) -> None:
        if self._stopped:
            return
        try:
            self.poll()
        except Exception:  # a repository that cannot be read now
            _log.exception("the model repositories could not be polled")

    def _load(self, name: str) -> None:
        try:
            self._control.load_model(name)
        except TritonError:  # it is in the log and the index
            if not self._repository.holds(name):  # another repository has a model of that name, too: neither is served
                self._unload(name)
        except Exception:
            _log.exception("model '%s' could not be loaded", name)
        finally:
            with self._lock:
                self._busy.discard(name)
                missed = name in self._missed
                self._missed.discard(name)
            if missed:
                self._poll_safely()

    def _unload(self, name: str) -> None:
        try:
            self._control.unload_model(name)
        except Exception:
            _log.exception("model '%s' could not be unloaded", name)


def _is_gone(seen: Iterable[str]) -> bool:
    """Return whether the model was removed; not so if its whole repository is away, as a network's may be."""
    return all(Path(path).parent.is_dir() for path in seen)
