"""`RemoteServer.push`: a model of the notebook on running Tritons, one after the other, proved, or undone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ....core.status import TritonError, UnsupportedError
from ....core.version import DEFAULT_TARGET
from ....exchanges.exchange import Exchange
from ....exchanges.golden import check_cases
from ....exchanges.remote.remote_server import RemoteServer
from ....server.api.model import Model
from .push_proof import PushProof
from .push_result import Push, PushState, PushStep, TargetResult, proof_words
from .pushed_model import PushedModel, PushRecord, mark_of

Say = Callable[[str], object]
#: The name of a model that no server has: to unload it shows whether a server allows the control of its models.
_NOBODY = "tritonlab_push_of_no_model"


def push(
    server: RemoteServer,
    model: Model,
    *,
    targets: Sequence[RemoteServer],
    proof: Any,
    timeout: float,
    say: Say,
    record: PushRecord | None = None,
) -> Push:
    """Run `RemoteServer.push`."""
    chosen = PushProof.from_option(model, proof)
    pushed = PushedModel.from_model(model, DEFAULT_TARGET)
    kept = record or PushRecord()
    every = [_TargetPush(each, pushed, chosen, kept, timeout, say) for each in (server, *targets)]
    for each in every:
        each.check()  # of all, before the first is touched
    notes = [*pushed.notes, *(note for each in every for note in each.notes)]
    if chosen.left_out:
        notes.append(f"left out of the proof, as it cannot be sent or compared: {_count(chosen.left_out, 'request')}")
    if not_kept := kept.add(pushed):
        notes.append(not_kept)
    for note in notes:
        say(note)
    for number, each in enumerate(every):
        try:
            each.run()
        except BaseException as error:  # also one of an answer that cannot be read
            reason = "interrupted" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}"
            for done in reversed(every[: number + 1]):
                done.undo(reason, done.is_loading)
            raise
        if not each.result.state.is_pushed:
            for done in reversed(every[:number]):
                done.undo(f"undone, because {each.result.place} failed")
            break
    results = tuple(each.result for each in every)
    result = Push(pushed.name, pushed.mark, results, tuple(notes), lambda: _undo(every))
    say(result.verdict)
    return result


def _undo(every: Sequence[_TargetPush]) -> None:
    for each in reversed(every):
        if each.result.state.is_pushed:
            each.undo("undone by hand")


@dataclass(frozen=True)
class ServedState:
    """The state of a model on a server: the READY versions, the configuration in its JSON form, and the mark of the
    push that loaded it, "" if no push did."""

    versions: tuple[str, ...] = ()
    config: Mapping[str, Any] | None = None
    mark: str = ""

    @staticmethod
    def of(server: RemoteServer, name: str) -> ServedState:
        """Return the state of a model on a server. Raises TritonError if the server does not answer."""
        model = server.model(name)
        try:  # the repository index lacks models that are not in the repository, as former pushes may be
            versions, config = tuple(sorted(model.metadata()["versions"])), model.config()
        except TritonError:
            if any(each == name for each, _ in ready_rows(server)):  # raises if nothing answers there
                raise  # it serves, so an undo must not unload it
            return ServedState()
        return ServedState(versions, config, mark_of(config))

    def __str__(self) -> str:
        if not self.versions:
            return "nothing of this name was served"
        versions = f"version{'s' * (len(self.versions) > 1)} {', '.join(self.versions)}"
        origin = f"pushed {self.mark.partition(' ')[2]}" if self.mark else "as the server's repository has it"
        return f"{versions}, {origin}"


def ready_rows(server: RemoteServer) -> set[tuple[str, str]]:
    """Return the models that are READY, with their versions."""
    return {(row["name"], str(row.get("version", ""))) for row in server.index() if row.get("state") == "READY"}


class _TargetPush:
    """The push to one server."""

    def __init__(
        self, server: RemoteServer, pushed: PushedModel, proof: PushProof, record: PushRecord, timeout: float, say: Say
    ) -> None:
        self._server, self._pushed, self._proof, self._record = server, pushed, proof, record
        self._timeout, self._say = timeout, say
        self.result = TargetResult(server.protocol, server.address)
        self.notes: list[str] = []
        #: whether the load may still be under way there
        self.is_loading = False
        self._former = ServedState()
        self._former_push: PushedModel | None = None
        self._ready: set[tuple[str, str]] = set()
        #: the former model's answers to the requests of the proof
        self._answers: list[Exchange] = []

    def check(self) -> None:
        """Find the former model. Raises UnsupportedError, and other errors of the server, if a push is not possible."""
        server, name = self._server, self._pushed.name
        self._pushed.check_size(server.protocol, server.address)
        check_control(server)
        self._ready = ready_rows(server)
        for needed in self._pushed.needs:
            if not ServedState.of(server, needed).versions:
                reason = f"its step '{needed}' is not READY there: push that one first"
                raise UnsupportedError(f"'{name}' was not pushed to {server.address}: {reason}")
        self._former = ServedState.of(server, name)
        self._former_push = self._record.find(self._former.mark) if self._former.mark else None
        self.result.before = str(self._former)
        if self._former.mark and self._former_push is None:
            self.result.before += ", and its files are not kept here: an undo loads the server's own model, if any"
            self.notes.append(f"{self.result.place}: before it was {self.result.before}")
        new = {path.partition("/")[0] for path in self._pushed.files}
        gone = [version for version in self._former.versions if version not in new]
        if gone:
            self.notes.append(
                f"{self.result.place}: version {', '.join(gone)} is not in the push, so requests that name it fail "
                "until it is undone"
            )

    def run(self) -> None:
        """Load the model and prove it, or undo it."""
        pushed, result = self._pushed, self.result
        if self._former.versions and self._proof.cases:
            with self._step("ask the former model") as words:
                self._answers = [self._ask(case) for case in self._proof.cases]
                words.append(_count(len(self._answers), "request"))
        begun, self.is_loading = time.monotonic(), True
        with self._step("load") as words:
            try:
                self._server.load(pushed.name, pushed.config, pushed.files, timeout=self._timeout)
                reason = self._check_served()
            except TritonError as error:
                reason = f"the load failed: {error.message.strip()}"
            words.append(reason.partition("\n")[0] or f"{pushed.size:,} bytes in {_count(len(pushed.files), 'file')}")
        self.is_loading = bool(reason) and time.monotonic() - begun >= self._timeout
        if not reason and self._proof.cases:
            reason = self._prove()
        if reason:
            self.undo(reason, self.is_loading)
            return
        result.state = PushState.PROVED if result.report is not None else PushState.LOADED

    def _check_served(self) -> str:
        """Return why the server does not serve the push, or which other model stopped; "" if all is well."""
        ready = ready_rows(self._server)
        name = self._pushed.name
        now = ServedState.of(self._server, name)
        if not now.versions:
            return "it was loaded, but is not READY"
        if now.mark != self._pushed.mark:
            return "the server accepted the load, but serves something else"
        lost = sorted({each for each, _ in self._ready - ready if each != name})
        return f"with it {', '.join(lost)} stopped being READY" if lost else ""

    def _prove(self) -> str:
        """Send the requests of the proof, and return the differences; "" if there are none."""
        with self._step("proof") as words:
            self.result.report = report = self._proof.check(self._ask)
            verdict = proof_words(report, self._proof.title)
            words.append(verdict.partition("\n")[0])
        return "" if report.passed else verdict

    def undo(self, reason: str, is_loading: bool = False) -> None:
        """Bring the former model back, and look whether it is back. `is_loading`: the push may still be under way;
        a Triton ends that load before it begins the next one (measured with 2.51, 2026-11-28)."""
        result, name = self.result, self._pushed.name
        result.reason = reason
        try:
            now = ServedState.of(self._server, name)
            if self._is_former(now) and not is_loading:
                result.state = PushState.REFUSED
                return
            if now.versions and now.mark != self._pushed.mark and not is_loading:
                result.state = PushState.UNKNOWN
                result.reason += f"\nit was replaced meanwhile ({now}), and is left alone"
                return
            with self._step("undo") as words:
                self._restore()
                now = ServedState.of(self._server, name)
                words.append(str(now))
            if not self._is_former(now):
                result.state = PushState.UNKNOWN
                result.reason += f"\nbefore it was: {self._former}; now: {now}"
                return
            result.state = PushState.UNDONE if self._former.versions else PushState.REMOVED
            if self._answers:
                with self._step("ask again") as words:
                    result.again = check_cases(self._answers, self._ask)
                    words.append(proof_words(result.again, "as before"))
        except TritonError as error:
            result.state = PushState.UNKNOWN
            result.reason += f"\nthe undo failed: {error.message.strip()}"

    def _is_former(self, now: ServedState) -> bool:
        return now.versions == self._former.versions and now.config == self._former.config

    def _restore(self) -> None:
        """Load the former model, or unload the push if there was none."""
        name, former = self._pushed.name, self._former
        if not former.versions:
            self._server.unload(name)
        elif self._former_push is not None:
            self._server.load(name, self._former_push.config, self._former_push.files, timeout=self._timeout)
        else:
            self._server.load(name, timeout=self._timeout)  # of the server's own repository
            if not former.mark and self._server.model(name).config() != former.config:
                # the repository had its files, but not its configuration
                self._server.load(name, json.dumps(former.config), timeout=self._timeout)

    def _ask(self, case: Any) -> Exchange:
        request = case.again() if isinstance(case, Exchange) else case
        return self._server.model(self._pushed.name).send(request)

    @contextmanager
    def _step(self, name: str) -> Iterator[list[str]]:
        """Announce a step, and time it."""
        self._say(f"{self.result.place}: {name} …")
        begun, words = time.monotonic(), list[str]()
        try:
            yield words
        finally:
            self.result.steps.append(PushStep(name, time.monotonic() - begun, "".join(words)))


def check_control(server: RemoteServer) -> None:
    """Raise UnsupportedError if the server does not allow the control of its models: nothing is changed there."""
    try:
        server.unload(_NOBODY)
    except TritonError as error:
        raise UnsupportedError(f"{server.address} does not allow the control of its models: {error.message}") from None


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
