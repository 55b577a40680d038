"""The reasons why requests, sequences, instances and loads wait, and why the last load of a model failed, in sentences.
Triton reports none of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ...core.config.load_advice import config_place, load_advice
from ...core.explained import Explained
from ...core.observe.failure_capsule import FailureBook
from ...core.plain_facts import few_lines
from ...engine.calls.blocked_calls import BlsCall
from ...engine.life.instance_state import InstanceState
from ...engine.life.model_instance import ModelInstance
from ...engine.schedulers.dynamic_batch_scheduler import DynamicBatchScheduler
from ...engine.schedulers.ensemble_scheduler import EnsembleScheduler
from ...engine.schedulers.sequence_batch_scheduler import SequenceBatchScheduler
from ...engine.schedulers.sequence_occupancy import Occupancy, SlotUse
from ..models.global_map import is_meant
from ..models.loaded_model import LoadedModel
from ..models.model_lifecycle import ModelVersion
from .requests_in_flight import HeldRequest
from .watchdog import WaitReport, heads, stack_of

#: The most stubs that are queried, and the most sequences of a model that are named.
_STUBS, _SEQUENCES = 6, 8
#: Seconds for each stub's answer.
_SECONDS = 1.0


@dataclass(frozen=True)
class Reason:
    """One thing that waits or has failed. `kind`: `loading`, `load` (a failed one), `instance`, `ending`,
    `requests`, `sequences` or `failure`. `lines` are details; `stacks` are the stacks of the processes on the way, by
    instance.
    """

    kind: str
    model: str
    text: str
    lines: tuple[str, ...] = ()
    stacks: tuple[tuple[str, str], ...] = ()
    where: str | None = None
    fix: str | None = None

    def cited(self, cite: Callable[[str], str]) -> Reason:
        """Return the same with the places of its texts in the form of `cite`."""
        return replace(
            self,
            text=cite(self.text),
            lines=tuple(map(cite, self.lines)),
            stacks=tuple((name, cite(stack)) for name, stack in self.stacks),
            where=cite(self.where) if self.where else None,
        )

    def all_lines(self) -> Iterator[str]:
        """Yield the lines of the text, with place, advice, details and stacks."""
        yield self.text
        if self.where:
            yield f"  At {self.where}."
        if self.fix:
            yield f"  Fix: {self.fix}" + "." * (self.fix[-1] not in ".?")
        yield from self.lines
        for name, stack in self.stacks:
            yield f"  -- {name}:"
            yield from (f"  {line}" for line in stack.split("\n"))

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "model": self.model,
            "text": self.text,
            "details": [line.strip() for line in self.lines],
            "stacks": dict(self.stacks),
            "where": self.where,
            "fix": self.fix,
        }


class Why:
    """The reasons; as text they are sentences. `calm` is the text without any."""

    def __init__(self, reasons: Sequence[Reason], calm: str) -> None:
        self.reasons = list(reasons)
        self.calm = calm

    def cited(self, cite: Callable[[str], str]) -> Why:
        """Return the same with the places of the texts in the form of `cite`."""
        return Why([reason.cited(cite) for reason in self.reasons], self.calm)

    def text(self) -> str:
        return "\n".join(line for reason in self.reasons for line in reason.all_lines()) or self.calm

    def to_dict(self) -> dict[str, Any]:
        return {"waits": bool(self.reasons), "reasons": [reason.to_dict() for reason in self.reasons]}

    def __repr__(self) -> str:
        return few_lines(self.text())


class ServerSnapshot(NamedTuple):
    """The state of a server at one moment. `now` is nanoseconds of its clock."""

    models: Sequence[LoadedModel]
    versions: Sequence[ModelVersion]
    loading: Sequence[ModelVersion]
    held: Sequence[HeldRequest]
    calls: Sequence[BlsCall]
    failures: FailureBook
    now: int


def why(seen: ServerSnapshot, name: str = "") -> Why:
    """Return the reasons of all waits in the snapshot, of one model or all."""
    reasons = [_loading(version, seen.now) for version in seen.loading if is_meant(version, name)]
    for model in seen.models:
        if model.failure is not None and is_meant(model, name):
            reasons.append(failed_load(model.name, model.failure, serves=bool(model.versions)))
    for version in seen.versions:
        if is_meant(version, name):
            reasons += _instances(version, seen.now)
            reasons += _requests(version, seen)
            reasons += _sequences(version)
            reasons += _failures(version, seen.failures)
    return Why(reasons, _calm(seen, name))


def _calm(seen: ServerSnapshot, name: str) -> str:
    if name:
        return f"Nothing waits in model '{name}': no request is in flight, no load goes on."
    count = sum(version.serves for version in seen.versions)
    return f"Nothing waits: {count} model{'s' * (count != 1)} READY, no request in flight, no load goes on."


# -- loads


def _loading(version: ModelVersion, now: int) -> Reason:
    took = (now - version.load_started) / 1e9
    text = f"model '{version.name}' version {version.version} has been loading for {took:.1f} s."
    lines = tuple(f"  {instance.name} executes {_sample(instance)}." for instance in version.warming)
    return Reason("loading", version.name, text, lines, tuple(version.loading.stacks(_SECONDS).items()))


def _sample(instance: ModelInstance) -> str:
    warmup = instance.warmup
    return f"its warmup sample '{warmup.sample}'" if warmup is not None else "its warmup"


def failed_load(model: str, error: Explained, *, serves: bool) -> Reason:
    """Return why the last load of a model failed. `serves`: whether an earlier version still serves."""
    reason = getattr(error, "reason", "") or str(error)
    exception = getattr(error, "exception", None)
    headline = str(reason if exception is None else exception).strip().partition("\n")[0].rstrip(".")
    before = " The version from before serves on." if serves else ""
    where = error.where or config_place(reason) or None
    text = f"the last load of model '{model}' failed: {headline}.{before}"
    return Reason("load", model, text, where=where, fix=error.fix or load_advice(reason) or None)


# -- instances


def _instances(version: ModelVersion, now: int) -> Iterable[Reason]:
    if not version.serves:
        if awaited := version.awaited():
            text = f"version {version.version} of model '{version.name}' serves no more and waits for {awaited}."
            yield Reason("ending", version.name, text)
        return
    for instance in version.warming:
        text = f"instance {instance.name} of model '{version.name}' is not ready yet: it executes {_sample(instance)}."
        yield Reason("instance", version.name, text)
    for instance in version.instances:
        if instance.state is InstanceState.READY or instance in version.warming:
            continue
        replacement = instance.replacement
        next_try = replacement.next_try
        again = f" It is started again in {max(next_try - now, 0) / 1e9:.1f} s." if next_try is not None else ""
        cause = replacement.failure or replacement.last_death or "its process has ended."
        text = f"instance {instance.name} of model '{version.name}' is {instance.state.value}: {cause}{again}"
        yield Reason("instance", version.name, text.rstrip())


# -- requests


def _requests(version: ModelVersion, seen: ServerSnapshot) -> Iterable[Reason]:
    group = [one for one in seen.held if one.version is version]
    if not group:
        return
    report = WaitReport(group, seen.held, seen.calls)
    stacks = tuple(
        (f"{instance.name} (process {instance.pid})", stack_of(instance, _SECONDS))
        for instance in report.instances[:_STUBS]
    )
    lines = (*heads(group)[1:], *report.lines, *_queue(version, group), *_order(version), *_steps(version))
    yield Reason(kind="requests", model=version.name, text=heads(group)[0], lines=lines, stacks=stacks)


def _queue(version: ModelVersion, group: Sequence[HeldRequest]) -> Iterator[str]:
    """Yield why requests stay in the queue of a batcher although an instance is free."""
    queued = [one for one in group if one.state == "pending"]
    delay, until, setting = _delay(version)
    busy = {id(one.instance) for one in group if one.state == "executing"}
    free = [one for one in version.instances if one.state is InstanceState.READY and id(one) not in busy]
    if not queued or not delay or not free:
        return
    left = max(delay * 1000 - queued[0].waited, 0) / 1e9
    yield (
        f"  The batcher waits for more requests to join them, for {left:.1f} s more{until}: "
        f"max_queue_delay_microseconds is {delay}{setting}."
    )


def _delay(version: ModelVersion) -> tuple[int, str, str]:
    """Return how many microseconds the batcher of a version waits for more requests, the event that ends the wait, and
    the setting behind it.
    """
    config, setting = version.config, ""
    strategy: Any = config.dynamic_batching
    if isinstance(version.scheduler, SequenceBatchScheduler):
        if not version.scheduler.gathers:
            return 0, "", ""  # all wait for a slot, or for the request before them
        strategy, rules = config.sequence_batching.oldest, version.scheduler.config
        if rules.direct:
            least = math.ceil(rules.minimum_ready)
            until = f", or until {least} slot{'s have' if least > 1 else ' has'} a request"
            direct = config.sequence_batching.direct
            setting = f", minimum_slot_utilization {direct.minimum_slot_utilization:g}"
            return rules.delay // 1000, until, setting
    sizes = list(strategy.preferred_batch_size)
    until = f", or until they are {' or '.join(map(str, sizes))}" if sizes else ""
    return strategy.max_queue_delay_microseconds, until, setting


def _order(version: ModelVersion) -> Iterator[str]:
    """Yield the answers that wait for their turn."""
    if not isinstance(version.scheduler, (DynamicBatchScheduler, SequenceBatchScheduler)):
        return
    for found in version.scheduler.held_back():
        first, *held = (f"request {request.serial}" for request in found)
        yield f"  {', '.join(held)} has an answer, which waits for that of {first} (preserve_ordering)."


def _steps(version: ModelVersion) -> Iterator[str]:
    """Yield the steps of an ensemble that may begin no more requests."""
    if not isinstance(version.scheduler, EnsembleScheduler):
        return
    limit = version.config.ensemble_scheduling
    for number, count in version.scheduler.limits.waiting().items():
        model = limit.step[number].model_name
        yield f"  {count} more of step {number}, model '{model}', wait: max_inflight_requests allows no more at a time."


# -- sequences


def _sequences(version: ModelVersion) -> Iterable[Reason]:
    scheduler = getattr(version, "scheduler", None)
    if not isinstance(scheduler, SequenceBatchScheduler):
        return
    taken = scheduler.occupancy()
    held = [(instance, slot) for instance, slots in taken.instances for slot in slots]
    lines = [_slot(instance, slot) for instance, slot in held[:_SEQUENCES]]
    if not held and not taken.backlog:
        return
    text = f"model '{version.name}' has {len(held)} sequence{'s' * (len(held) != 1)} in its slots."
    if taken.backlog:
        text = _backlog(version.name, taken)
    yield Reason("sequences", version.name, text, tuple(lines))


def _backlog(name: str, taken: Occupancy) -> str:
    first = taken.backlog[0]
    more = len(taken.backlog) - 1
    slots = taken.slots * len(taken.instances)
    others = f", and {more} more sequence{'s' * (more > 1)} wait{'s' * (more == 1)} behind it" if more else ""
    return (
        f"sequence {first.sequence!r} of model '{name}' has waited for {first.waited / 1e9:.1f} s for a slot{others}: "
        f"all {slots} are taken. One comes free when a sequence sends its END, or sends nothing for "
        f"{taken.max_idle / 1e9:g} s (max_sequence_idle_microseconds)."
    )


def _slot(instance: str, slot: SlotUse) -> str:
    doing = "executes" if slot.executing else f"has {slot.queued} requests queued" if slot.queued else ""
    if not doing:
        ends = f", and ends in {slot.idle_left / 1e9:.1f} s" if slot.idle_left is not None else ""
        doing = f"waits for its client's next request{ends}"
    return f"  Slot {slot.number} of {instance}: sequence {slot.sequence!r} {doing}."


# -- failures


def _failures(version: ModelVersion, failures: FailureBook) -> Iterable[Reason]:
    capsules, total, _ = failures.of_model(version.name)
    if not capsules or capsules[-1].pid not in {instance.pid for instance in version.instances}:
        return  # failures before a reload may be fixed by it
    last = capsules[-1]
    where = f'File "{last.place.file}", line {last.place.line}' if last.place is not None else None
    headline = last.headline.rstrip(".")
    text = f"model '{version.name}' has failed {total} time{'s' * (total > 1)}, the last time with {headline}."
    model = version.name if version.name.isidentifier() else "model"
    yield Reason("failure", version.name, text, where=where, fix=f"look at {model}.failures[-1], and replay it")
