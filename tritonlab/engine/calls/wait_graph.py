"""The pure decision whether a BLS call would wait for itself (rule 4.4.1).

An instance whose `execute` is blocked in BLS calls continues when they are answered. A call that waits in a queue needs
a free instance of its model; a call in execution needs the instance that executes it. An instance is *stuck* if
something it needs is stuck: the largest set of such instances can never continue.

    a -> a               `a` calls itself, and its only instance is the caller
    a -> b -> a          `b`, called by `a`, calls back
    a(1) -> b(2) -> a    the same, although an instance of `b` is idle: the call of `a` executes on the other one

Only certain waits count. An instance that does anything but wait is not in the graph, and calls that need it are not
stuck.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

#: Any hashable that represents a model instance.
Instance = Hashable


@dataclass(frozen=True)
class UnansweredCall:
    """A BLS call that is not answered. While it is queued one of the instances `any_of` must take it; later
    `executing` is the instance that executes it. Only the caller reads `tag`."""

    any_of: Sequence[Instance] = ()
    executing: Instance | None = None
    tag: object = field(default=None, compare=False)


@dataclass(frozen=True)
class InstanceWait:
    """An instance of `model` whose `execute` needs an answer to every one of `calls`.

    `alone`: only this `execute` could answer its requests, no thread of the author.
    """

    model: str
    calls: Sequence[UnansweredCall]
    alone: bool = True


class Circle(NamedTuple):
    """A call that waits for itself. `calls` are the caller's calls, then the calls that they wait for. `models` are the
    names on the way, ending with the model that closes the circle: if `a` calls `b`, which calls `a`, they are `a`,
    `b`, `a`.
    """

    calls: list[UnansweredCall]
    models: list[str]


def stuck_instances(waits: Mapping[Instance, InstanceWait]) -> set[Instance]:
    """Return the blocked instances that wait for one another and nothing else."""
    stuck = set(waits)
    while True:
        free = {i for i in stuck if not any(_is_held(call, waits, stuck) for call in waits[i].calls)}
        if not free:
            return stuck
        stuck -= free


def _is_held(call: UnansweredCall, waits: Mapping[Instance, InstanceWait], stuck: set[Instance]) -> bool:
    if call.executing is not None:
        return call.executing in stuck and waits[call.executing].alone
    return bool(call.any_of) and stuck.issuperset(call.any_of)


def circle_of(caller: Instance, waits: Mapping[Instance, InstanceWait]) -> Circle | None:
    """Return the circle in which the calls of `caller` end; None if the caller is not stuck."""
    stuck = stuck_instances(waits)
    if caller not in stuck:
        return None
    way: list[Instance] = []
    calls: list[UnansweredCall] = []
    instance = caller
    while instance not in way:
        way.append(instance)
        call = next(call for call in waits[instance].calls if _is_held(call, waits, stuck))
        calls.append(call)
        instance = call.executing if call.executing is not None else _nearest(call.any_of, way)
    if instance == caller:  # starts with the calling model, as the author sees it
        way = [*way[1:], caller]
    models = [waits[i].model for i in way]
    return Circle(calls, [*models, waits[way[0] if instance == caller else instance].model])


def _nearest(instances: Sequence[Instance], way: Sequence[Instance]) -> Instance:
    return next((instance for instance in instances if instance in way), instances[0])
