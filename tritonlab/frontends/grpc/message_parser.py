"""The parser of ModelInferRequest messages, which remembers the parts besides tensors that most messages share.

Protobuf writes fields in the order of their numbers, so that `raw_input_contents`, the last one, follows all other
fields of the request: the *head*. Clients that send tensors of one shape, without ids, always send the same head, which
is not parsed again. Measured, add_sub, one caller on two cores: 12 us until the request is read instead of 25.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ...core.config.service_messages import messages
from ...core.inference.data_type import DataType
from ...core.inference.tensor import WIRE_ELEMENTS, Tensor
from ..shared.work_pause import check_memory

#: `raw_input_contents`: one per input that is neither typed nor in shared memory
Raw: TypeAlias = Sequence[bytes | memoryview]

DATATYPES = {datatype.name: datatype for datatype in DataType if datatype is not DataType.INVALID}

#: Messages from this size on are not parsed whole (`parse`).
_LARGE = 1 << 16
#: Messages of more fields are: 2 us for each would hold up all other calls.
_MOST_FIELDS = 1 << 12
_RAW_TAG = 7 << 3 | 2
#: Bytes of typed elements after parsing, for each byte in the message: an empty string, the worst case, has 2 there and
#: 16 here.
_PARSED = 8

#: How many heads are remembered, and how many bytes each may have.
MAX_HEADS = 64
MAX_HEAD = 1 << 12


class HeadInput(NamedTuple):
    """An input of raw bytes, as the head describes it; its elements are read as `dtype`, of `item_size` bytes."""

    name: str
    datatype: DataType
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    item_size: int


class PlainHead(NamedTuple):
    """A head whose inputs are all raw bytes, without anything unusual. Its fields have ModelInferRequest's names."""

    model_name: str
    model_version: str
    inputs: tuple[HeadInput, ...]
    requested_outputs: tuple[str, ...]
    id: str = ""

    def tensors(self, data: bytes, start: int) -> dict[str, Tensor] | None:
        """Return the inputs that begin at `start` of `data`; None if there are bytes besides."""
        found = {}
        try:
            for name, datatype, shape, dtype, item_size in self.inputs:
                if data[start] != _RAW_TAG:
                    return None
                size = data[start + 1]
                start += 2
                if size > 0x7F:
                    size, start = _varint(data, start - 1)
                if size % item_size:
                    return None
                found[name] = Tensor(datatype, shape, np.frombuffer(data, dtype, size // item_size, start))
                start += size
        except (IndexError, ValueError, OverflowError):
            return None
        return found if start == len(data) else None


def plain_head(message: Any) -> PlainHead | None:
    """Return the head of a ModelInferRequest if it is a plain one."""
    if message.id or message.parameters or any(output.parameters for output in message.outputs):
        return None
    inputs = {}
    for each in message.inputs:
        if each.parameters or each.HasField("contents"):
            return None
        datatype = DATATYPES.get(each.datatype, DataType.INVALID)
        dtype = WIRE_ELEMENTS[datatype]
        inputs[each.name] = HeadInput(
            each.name, datatype, shape=tuple(each.shape), dtype=dtype, item_size=dtype.itemsize
        )
    if len(inputs) < len(message.inputs):
        return None  # two inputs have one name, which is an error
    outputs = tuple(output.name for output in message.outputs)
    return PlainHead(message.model_name, message.model_version, tuple(inputs.values()), outputs)


class MessageParser:
    """The parser of the messages of one server."""

    def __init__(self) -> None:
        self._heads: dict[bytes, PlainHead] = {}

    def parse(self, data: bytes) -> tuple[Any, Raw | dict[str, Tensor]]:
        """Return a ModelInferRequest and its `raw_input_contents`, or for a known head its PlainHead and inputs. Raises
        google.protobuf.message.DecodeError or UnavailableError (`parse`)."""
        size = _head_size(data)
        head = data[:size]
        known = self._heads.get(head)
        if known is not None:
            tensors = known.tensors(data, size)
            if tensors is not None:
                return known, tensors
        message, raw = parse(data)
        if known is None and size:
            self._remember(head, plain_head(message), data)
        return message, raw

    def _remember(self, head: bytes, plain: PlainHead | None, data: bytes) -> None:
        if plain is None or plain.tensors(data, len(head)) is None:
            return  # fields behind a tensor do not belong to the head
        if len(self._heads) >= MAX_HEADS:
            self._heads.clear()
        self._heads[head] = plain


def _head_size(data: bytes) -> int:
    """Return where the tensors of a ModelInferRequest begin; 0 if the position is not found quickly."""
    position = 0
    try:
        while (tag := data[position]) != _RAW_TAG:
            size = data[position + 1]
            if tag & 0x87 != 2 or size > 0x7F:  # no short text or message
                return 0
            position += 2 + size
    except IndexError:
        return 0
    return position if position <= MAX_HEAD else 0


def parse(data: bytes) -> tuple[Any, Raw]:
    """Return a ModelInferRequest and its `raw_input_contents`, which are views of `data` if it is large, because the
    parser would copy them twice. Raises google.protobuf.message.DecodeError, and UnavailableError if there is no memory
    for the parsed message."""
    apart = _without_raw(data) if len(data) >= _LARGE else None
    rest, raw = apart or (data, None)
    if len(rest) >= _LARGE:
        check_memory(_PARSED * len(rest))
    message = messages.ModelInferRequest.FromString(rest)
    return message, message.raw_input_contents if raw is None else raw


def _without_raw(data: bytes) -> tuple[bytes, list[memoryview]] | None:
    """Return the message without its field 7, and that field's values; None if the parser must read all of it, because
    it may not be a message, or has so many fields that this takes long."""
    view = memoryview(data)
    rest: list[memoryview] = []
    raw: list[memoryview] = []
    position, end = 0, len(data)
    try:
        while position < end:
            if len(rest) + len(raw) > _MOST_FIELDS:
                return None
            start = position
            tag, position = _varint(data, position)
            kind = tag & 7
            if kind == 2:
                size, position = _varint(data, position)
                if size > end - position:
                    return None
                if tag == _RAW_TAG:
                    raw.append(view[position : position + size])
                    position += size
                    continue
                position += size
            elif kind == 0:
                _, position = _varint(data, position)
            elif kind in (1, 5):
                position += 8 if kind == 1 else 4
            else:
                return None
            rest.append(view[start:position])
    except (IndexError, ValueError):
        return None
    return b"".join(rest), raw


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at `position`, and where it ends. Raises IndexError at the end of the data, ValueError if the
    number is too long."""
    number = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
    raise ValueError("a number of more than 64 bits")
