"""The poll mode: a look at the repositories now and then, which loads, reloads and unloads what has changed (rule
5.11.1).

One bad model must not keep the others from being served (server issue 6534: in Triton one can): each load runs on a
thread of its own, and a failure touches nothing but its model. Triton tries what failed again at every poll; here it is
tried again when its files have changed, since nothing else can have mended it, and is logged once.

A poll may come while files are being written, and half a config can be a valid one: Triton loads it, and the whole one
at the next poll. Here a change counts once a second look, half a second later, finds the same.
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

#: Nanoseconds for which a change must stay as it is, and after which one that never does is taken as it is.
_SETTLES = 500_000_000
_PATIENCE = 10_000_000_000

#: What was seen of a model: the files of each of its directories, None if there is no such model.
ModelFingerprints = dict[str, Fingerprint] | None


class Change(NamedTuple):
    """A change that may still go on: what was seen last, since when, and when the model began to change."""

    seen: ModelFingerprints
    since: int
    began: int


class Control(Protocol):
    """What the poller needs: `model_control.ModelControl`, or a fake."""

    def load_model(self, name: str) -> object: ...

    def unload_model(self, name: str) -> object: ...


def run_in_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="repository poll", daemon=True).start()


class RepositoryPoller:
    """The poll every `seconds` (0: never), from `start` on until `stop`. `run` starts work that must not hold up the
    timer.
    """

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
        self._lock = threading.Lock()  # guards all below; one poll at a time
        self._changing: dict[str, Change] = {}
        self._looks_again = False  # whether another look at them is on the timer
        #: what was seen of each model when it was last loaded, or tried
        self._seen: dict[str, dict[str, Fingerprint]] = {}
        self._busy: set[str] = set()
        self._missed: set[str] = set()  # those of them that have changed again
        self._stopped = False

    def start(self) -> None:
        """Start, and take what is there now as known; it must be called before the models are loaded at the start."""
        self._seen = self._look()
        self._arm()

    def stop(self) -> None:
        self._stopped = True

    def poll(self) -> None:
        """Start the loads and unloads that the changes since the last poll require; look again soon at those that may
        still go on."""
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
        """Return the models whose change is over, and see to another look at the others."""
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
        except TritonError:  # it is in the log, and in the index
            if not self._repository.holds(name):  # another repository has one of that name, too: neither is served
                self._unload(name)
        except Exception:
            _log.exception("model '%s' could not be loaded", name)
        finally:
            with self._lock:
                self._busy.discard(name)
                missed = name in self._missed
                self._missed.discard(name)
            if missed and not self._stopped:
                self.poll()

    def _unload(self, name: str) -> None:
        try:
            self._control.unload_model(name)
        except Exception:
            _log.exception("model '%s' could not be unloaded", name)


def _is_gone(seen: Iterable[str]) -> bool:
    """Return whether the model was removed. It was not if its repository is away as a whole, as a network's may be for
    a while.
    """
    return all(Path(path).parent.is_dir() for path in seen)
