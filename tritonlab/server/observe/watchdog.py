"""The watchdog, which reports once why a request waits for long: its place, the chain of waits, and the stacks of the
stubs on the way. Triton reports nothing.

It has no thread per request, and nothing runs while none is in flight: the first request arms a timer, which arms
itself again while requests are in flight. So it also notices when the server becomes idle.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial

from ...core.clock import Clock
from ...core.inference.infer_request import InferenceRequest, StepRequest
from ...engine.calls.blocked_calls import BlsCall
from ...engine.life.model_instance import ModelInstance
from ...engine.schedulers.scheduler import WakeUp
from .requests_in_flight import HeldRequest

#: Looks are at least this share of the limit apart, so that many requests are handled together.
_SHARE = 20
#: Nanoseconds between looks for the end of all work, and from the look that finds it to `on_quiet`.
_QUIET = 3_000_000_000
#: Nanoseconds between two calls of `on_quiet` at most.
_LONGEST_QUIET = 30_000_000_000
#: How many requests of one model a report names singly.
_NAMED = 5
#: How many stubs' stacks are in one report (each in one of simultaneous reports), and the seconds for each stub's
#: answer.
_STUBS = 6
_STACK_SECONDS = 2.0

Survey = Callable[[], list[HeldRequest]]


class Watchdog:
    """The search for requests that have waited `seconds` without an event (0: never).

    `survey` returns the requests in flight, `calls` the unanswered BLS calls. `warn(held, text)` gets each report with
    the first of its requests, on a separate thread. `on_quiet` is called on the timer's thread, some seconds after the
    last answer, and again, less and less often, until it returns False or a request arrives.
    """

    def __init__(
        self,
        seconds: float,
        clock: Clock,
        timer: WakeUp,
        survey: Survey,
        calls: Callable[[], list[BlsCall]],
        warn: Callable[[HeldRequest, str], None],
        on_quiet: Callable[[], bool] = lambda: False,
    ) -> None:
        #: whether a look is due; `arm` sets it when a request arrives
        self.armed = False
        self._limit = int(seconds * 1e9) if seconds > 0 else sys.maxsize
        self._on_quiet = on_quiet
        self._clock = clock
        self._timer = timer
        self._survey = survey
        self._calls = calls
        self._warn = warn
        self._reported: set[int] = set()  # serials, of requests in flight
        self._next_look = object()  # the mark of the look that is due; earlier ones are dropped

    def arm(self) -> None:
        """Arm the timer, because a request arrived while none was in flight; the request's thread calls it."""
        self.armed = True
        self._look_in(min(self._limit, _QUIET))

    def _look_in(self, pause: int) -> None:
        """Look after that many nanoseconds, and not at the time that was planned before."""
        self._next_look = mark = object()
        self._timer.call_at(self._clock.now() + pause, partial(self._look, mark))

    def _look(self, mark: object) -> None:
        """Check the requests in flight, on the timer's thread."""
        if mark is not self._next_look:
            return
        self.armed = False  # first: a request that arrives from here on arms it again
        held = self._survey()
        self._reported &= {one.request.serial for one in held}
        overdue = [
            one
            for one in held
            if one.waited >= self._limit and one.request.serial not in self._reported and not _typed_to(one)
        ]
        self._reported.update(one.request.serial for one in overdue)
        if held:
            self.armed = True
            self._look_in(self._pause(held))
        else:
            self._timer.call_at(self._clock.now() + _QUIET, partial(self._look_again, mark, _QUIET))
        if overdue:
            threading.Thread(target=self._report, args=(overdue, held), name="watchdog", daemon=True).start()

    def _look_again(self, mark: object, pause: int) -> None:
        if mark is not self._next_look:
            return  # a request has arrived since
        if self._on_quiet():
            longer = min(2 * pause, _LONGEST_QUIET)
            self._timer.call_at(self._clock.now() + pause, partial(self._look_again, mark, longer))

    def _pause(self, held: Sequence[HeldRequest]) -> int:
        """Return the nanoseconds until the next one of them could be overdue."""
        left = [self._limit - one.waited for one in held if one.request.serial not in self._reported]
        return min(max(min(left, default=self._limit), self._limit // _SHARE), _QUIET)

    def _report(self, overdue: Sequence[HeldRequest], held: Sequence[HeldRequest]) -> None:
        calls = self._calls()
        groups: dict[int, list[HeldRequest]] = {}
        for one in overdue:
            groups.setdefault(id(one.version), []).append(one)
        reported: set[ModelInstance] = set()
        for group in groups.values():
            report = WaitReport(group, held, calls)
            fresh = [instance for instance in report.instances if instance not in reported][:_STUBS]
            reported.update(fresh)
            self._warn(
                group[0], "\n".join([*heads(group), *report.lines, *(stacks_of(i, _STACK_SECONDS) for i in fresh)])
            )

    def explain(self, request: InferenceRequest, seconds: float) -> str:
        """Return why one request waits; empty if it is not in flight. `seconds`: the time for each stub's answer."""
        held = self._survey()
        group = [one for one in held if one.request is request]
        if not group:
            return ""
        report = WaitReport(group, held, self._calls())
        return "\n".join([*heads(group), *report.lines, *(stacks_of(i, seconds) for i in report.instances[:_STUBS])])


def _typed_to(one: HeldRequest) -> bool:
    """Return whether the request waits for a person at the debugger, who needs no report."""
    return one.instance is not None and any(session.attended for session in one.instance.debugged)


def heads(group: Sequence[HeldRequest]) -> list[str]:
    """Return a sentence for each of a model's requests; of many, the rest share one."""
    lines = []
    for one in group[:_NAMED]:
        request = one.request
        name = f"request {request.serial}" + (f" (id '{request.request_id}')" if request.request_id else "")
        lines.append(f"{name} of model '{one.version.name}' waits for {one.waited / 1e9:.1f} s: {_whereabouts(one)}.")
    if len(group) > _NAMED:
        lines.append(f"and {len(group) - _NAMED} more requests of model '{group[0].version.name}'.")
    return lines


def _whereabouts(one: HeldRequest) -> str:
    if one.instance is None:
        return "its steps are not answered" if one.steps else "it is in the queue"
    name = f"{one.instance.name} (process {one.instance.pid})"
    if one.state == "executing":
        paused = one.instance.debugged.place
        executes = f"{name} executes it" + ", and it is cancelled" * one.request.cancelled
        return f"{name} is paused in the debugger at {paused}" if paused else executes
    return f"the execute call of {name} has returned, and its response sender has not sent the final flag"


class WaitReport:
    """Why a model's requests wait, directly or through BLS calls: sentences, and the instances on the way."""

    def __init__(self, group: Sequence[HeldRequest], held: Sequence[HeldRequest], calls: Sequence[BlsCall]) -> None:
        self.lines: list[str] = []
        self.instances: list[ModelInstance] = []
        self._held = {id(one.request): one for one in held}
        self._calls = calls
        self._seen: set[int] = set()
        if any(one.instance is None and not one.steps for one in group):
            self._busy(group[0].version.name, group[0].version.instances)
        for instance in {id(one.instance): one.instance for one in group if one.instance is not None}.values():
            self._follow(instance, [])
        for one in group:
            self._follow_steps(one, [])

    def _busy(self, model: str, instances: Sequence[ModelInstance]) -> None:
        """Add the current work of the instances that could take a queued request."""
        for instance in instances:
            others = [one for one in self._held.values() if one.instance is instance and one.state == "executing"]
            what = ", ".join(f"request {one.request.serial}" for one in others)
            place = instance.debugged.place
            doing = f"is paused in the debugger at {place} with" if place else "executes"
            state = f"{doing} {what}" if what else f"is {instance.state.value} and executes nothing"
            self.lines.append(f"  {instance.name} of model '{model}' {state}.")
            self._follow(instance, [])

    def _follow(self, instance: ModelInstance, path: list[ModelInstance]) -> None:
        """Add the reason of the instance's wait, then the reason behind it, and so on."""
        if instance in path:
            names = [on_way.plan.source.model for on_way in [*path[path.index(instance) :], instance]]
            self.lines.append(f"  They may wait for one another: {' -> '.join(names)}.")
            return
        if id(instance) in self._seen:
            return
        self._seen.add(id(instance))
        self.instances.append(instance)
        self._follow_turn(instance, [*path, instance])
        for call in self._calls:
            if call.caller is instance:
                self._follow_call(call, [*path, instance])

    def _follow_turn(self, instance: ModelInstance, path: list[ModelInstance]) -> None:
        """Add the resources that the rate limiter lacks for the instance, or for one before it, and their holders."""
        wait = instance.limiter.wait_of(instance) if instance.limiter is not None else None
        if wait is None or not wait.resources:
            return
        who = f"its turn, behind {wait.first.name}, which waits for " if wait.first is not instance else ""
        named = " and ".join(f"resource '{name}'" for name in wait.resources)
        holders = ", ".join(holder.name for holder in wait.holders)
        self.lines.append(f"  {instance.name} waits for {who}{named}: {holders} executes with it (rate limiter).")
        for holder in wait.holders:
            self._follow(holder, path)

    def _follow_call(self, call: BlsCall, path: list[ModelInstance]) -> None:
        one = self._held.get(id(call.request))
        if one is None:
            return  # answered meanwhile
        self.lines.append(
            f"  {call.caller.name} has called model '{one.version.name}': request {call.request.serial}, "
            f"{_place_text(one)} for {one.waited / 1e9:.1f} s."
        )
        self._follow_request(one, path)

    def _follow_request(self, one: HeldRequest, path: list[ModelInstance]) -> None:
        self._follow_steps(one, path)
        for instance in one.version.instances if one.instance is None else [one.instance]:
            self._follow(instance, path)

    def _follow_steps(self, one: HeldRequest, path: list[ModelInstance]) -> None:
        """Add the requests that an ensemble has made to its steps' models for this one, and their reasons to wait."""
        for step in self._held.values():
            if isinstance(step.request, StepRequest) and step.request.parent is one.request:
                self.lines.append(
                    f"  Ensemble '{one.version.name}' waits for model '{step.version.name}': request "
                    f"{step.request.serial}, {_place_text(step)} for {step.waited / 1e9:.1f} s."
                )
                self._follow_request(step, path)


def _place_text(one: HeldRequest) -> str:
    if one.instance is None:
        return "with its steps" if one.steps else "in the queue"
    return f"with {one.instance.name}"


def stack_of(instance: ModelInstance, seconds: float) -> str:
    """Return the stacks of an instance's threads, or a note that it did not answer."""
    stub = instance.stub
    text = stub.dump_stacks(seconds) if stub is not None else ""
    return text or f"It did not answer within {seconds:g} s: C code may hold the interpreter's lock (the GIL)."


def stacks_of(instance: ModelInstance, seconds: float) -> str:
    """Return the same below a line that names the instance."""
    return f"-- {instance.name} (process {instance.pid}):\n{stack_of(instance, seconds)}"
