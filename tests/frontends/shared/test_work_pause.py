"""Large work ends where memory does: what it makes of a request may take many times the request's bytes."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from tritonlab.core.inference.data_type import DataType
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import UnavailableError
from tritonlab.frontends.grpc import message_parser
from tritonlab.frontends.http import infer_encoder, json_tensor
from tritonlab.frontends.http.json_document import parse
from tritonlab.frontends.shared import work_pause
from tritonlab.ipc.processes.memory_room import RESERVE, MemoryRoom

COUNT = 60_000
WORDS = json.dumps(["ab"] * COUNT).encode()
#: More than are written in one piece.
MANY = 4 * COUNT
STRINGS = Tensor.from_numpy(np.array([b"ab"] * MANY, object))
NUMBERS = Tensor.from_numpy(np.arange(COUNT))
#: A ModelInferRequest with an input of typed elements, empty strings.
TYPED = b"\x2a\x84\x80\x20" + b"\x2a\x80\x80\x20" + b"\x42\0" * (1 << 18)


def read_json() -> None:
    parse(WORDS)


def read_strings() -> None:
    json_tensor.elements("IN", DataType.BYTES, parse(WORDS), COUNT)


def write_strings() -> None:
    infer_encoder.json_data("OUT", STRINGS)


def write_numbers() -> None:
    infer_encoder.json_data("OUT", NUMBERS)


def parse_typed() -> None:
    message_parser.parse(TYPED)


WORK = [read_json, read_strings, write_strings, write_numbers, parse_typed]


def leave(monkeypatch: pytest.MonkeyPatch, nbytes: int) -> None:
    monkeypatch.setattr(work_pause, "ROOM", MemoryRoom(left=lambda: RESERVE + nbytes, now=lambda: 0.0))


@pytest.mark.parametrize("work", WORK)
def test_work_for_which_no_memory_is_left_is_refused(monkeypatch: pytest.MonkeyPatch, work: Callable[[], None]) -> None:
    leave(monkeypatch, 1 << 30)
    work()  # the control
    leave(monkeypatch, 0)
    with pytest.raises(UnavailableError, match="There is no memory for the elements of the request"):
        work()


@pytest.mark.parametrize("count", [0, 1, 3, MANY])
def test_strings_in_many_pieces_are_those_in_one(count: int) -> None:
    words = [f"{number}\n" * (number % 4) for number in range(count)]
    tensor = Tensor.from_numpy(np.array(words, object))
    assert (tensor.data.nbytes > infer_encoder._WHOLE) == (count == MANY)
    assert json.loads(infer_encoder.json_data("OUT", tensor)) == words
