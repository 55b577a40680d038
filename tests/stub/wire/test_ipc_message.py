"""Every row of the table of messages: it crosses as it is, and another layout is refused."""

from __future__ import annotations

import collections.abc
import json
import sys
import typing
from typing import Any, get_type_hints

import pytest

from tritonlab.stub._pb_stub.wire import fork_bodies, message_bodies
from tritonlab.stub._pb_stub.wire.ipc_message import (
    BY_NUMBER,
    CALLS,
    COMMANDS,
    CONTROL,
    DOOR,
    HEADER,
    NUMBER,
    NUMBER_OF,
    ROW,
    SIGNAL,
    TO_KERNEL,
    TO_STUB,
    CommandRow,
    read_answer,
)
from tritonlab.stub._pb_stub.wire.message_bodies import (
    RESCHEDULED,
    Entry,
    Executed,
    Needs,
    Output,
    ResponseError,
    Result,
    TensorHeader,
    TraceRef,
)
from tritonlab.stub._pb_stub.wire.serialization import WireError, decode_body, encode_body

ROWS = [pytest.param(row, id=row.name) for row in COMMANDS]


def is_body(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def hints_of(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, vars(sys.modules[kind.__module__]))


def example(kind: Any, *, full: bool) -> Any:
    """Return a value of the type, with all that may be there (`full`) or as little as may be."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if is_body(kind):
        hints = hints_of(kind)
        return kind(*[example(hints[name], full=full) for name in kind._fields])
    if origin is typing.Union:
        return example(arguments[0], full=full) if full or type(None) not in arguments else None
    if origin in (list, collections.abc.Sequence):
        return [example(arguments[0], full=full)] * (2 if full else 0)
    if origin is dict:
        return {"key": example(arguments[1], full=full)} if full else {}
    return {str: "é\ud800", int: 7, float: 0.5, bool: True, type(None): None, Any: None}[kind]


def crossed(value: Any) -> Any:
    return decode_body(encode_body(value))


@pytest.mark.parametrize("full", [True, False], ids=["full", "bare"])
@pytest.mark.parametrize("row", ROWS)
def test_every_row_crosses_as_it_is(row: CommandRow, full: bool) -> None:
    body = example(row.body, full=full)
    found = row.read(crossed(body))
    assert found == body
    assert type(found) is row.body
    assert types_of(found) == types_of(body)


def types_of(value: Any) -> Any:
    """Return the types of a value and of all that is in it."""
    inner = [types_of(part) for part in value] if isinstance(value, (list, tuple)) else []
    return [type(value), *inner]


def test_what_every_request_has_crosses_as_rows() -> None:
    header = TensorHeader("é\ud800", 11, [2, 3], 0, 0, 64, 24)
    failed = Output([], ResponseError(None, "x", {"type": "E"}), "{}")
    outputs = [None, RESCHEDULED, Output([header], None, ""), failed]
    found = ROW[Executed].read(crossed(Executed(1, 2, 3, None, 64, outputs)))
    assert found.outputs[:2] == [None, RESCHEDULED]
    first, second = [Output._make(row) for row in found.outputs[2:]]
    assert TensorHeader._make(first.tensors[0]) == header
    assert second.error is not None and ResponseError(*second.error) == failed.error
    entry = Entry(1, "", 0, 0, 0, "", None, [header], TraceRef(3, "c"))
    (row,) = ROW[message_bodies.Execute].read(crossed(message_bodies.Execute(0, None, [entry]))).entries
    found_entry = Entry._make(row)
    assert found_entry.trace is not None and TraceRef._make(found_entry.trace) == entry.trace
    assert found_entry._replace(tensors=entry.tensors, trace=entry.trace) == entry


@pytest.mark.parametrize("row", [row for row in ROWS if row.values[0].answer is not None])
def test_every_answer_crosses_as_it_is(row: CommandRow) -> None:
    if row.answer in ROW:
        return  # a message, which crosses by its own row
    for full in (True, False):
        value = example(row.answer, full=full)
        result: Result = ROW[Result].read(crossed(Result(value)))
        found = read_answer(row, result.value)
        assert found == value
        assert type(found) is type(value)
    assert row.answer is not Needs or type(found) is Needs


@pytest.mark.parametrize("row", ROWS)
def test_other_layouts_are_refused(row: CommandRow) -> None:
    fields = json.loads(encode_body(example(row.body, full=True)))
    for lie in (None, "x", 5, {}, {"a": 1}, [*fields, 1], fields[:-1] if fields else [1]):
        with pytest.raises(WireError, match="another layout"):
            row.read(lie)


@pytest.mark.parametrize("row", ROWS)
def test_lies_inside_a_body_are_refused(row: CommandRow) -> None:
    hints = hints_of(row.body)
    for place, name in enumerate(row.body._fields):
        if not any(is_body(kind) for kind in (hints[name], *typing.get_args(hints[name]))):
            continue
        for lie in ("x", [["too", "short"]], 5):
            fields = json.loads(encode_body(example(row.body, full=True)))
            fields[place] = lie
            with pytest.raises((WireError, TypeError)):
                row.read(fields)


def test_the_table_is_one_to_one() -> None:
    for values in ([row.number for row in COMMANDS], [row.name for row in COMMANDS], [row.body for row in COMMANDS]):
        assert len(set(values)) == len(COMMANDS)
    assert {row.number for row in COMMANDS} == set(BY_NUMBER) == set(NUMBER.values()) == set(NUMBER_OF.values())
    assert all(0 < row.number < 256 for row in COMMANDS)
    assert all(row.direction in (TO_STUB, TO_KERNEL) for row in COMMANDS)


def test_every_message_type_has_a_row_or_is_part_of_one() -> None:
    kinds = {
        kind
        for module in (message_bodies, fork_bodies)
        for kind in vars(module).values()
        if is_body(kind) and kind.__module__ == module.__name__
    }

    def parts(kind: Any) -> set[Any]:
        hints = hints_of(kind)
        inner = {part for hint in hints.values() for part in (hint, *typing.get_args(hint)) if is_body(part)}
        return inner.union(*[parts(part) for part in inner])

    used = set(ROW).union(*[parts(kind) for kind in ROW]) | {row.answer for row in COMMANDS if is_body(row.answer)}
    used |= {part for kind in list(used) for part in parts(kind)} | {Entry, Output, TensorHeader}
    assert kinds == used


def test_what_a_stub_asks_is_answered() -> None:
    assert {row.name for row in CALLS if row.answer is None} == {"INFER_CANCEL"}
    assert {row.direction for row in CALLS} == {TO_KERNEL}
    assert {row.way for row in CALLS} == {CONTROL}
    assert {row.name for row in COMMANDS if row.way == DOOR} == {"KNOCK", "FORK_LINK"}
    assert {row.name for row in COMMANDS if row.way == SIGNAL} == {"STACKS"}
    assert HEADER.size == 19
