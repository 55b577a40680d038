from __future__ import annotations

import numpy as np
import pytest

from tritonlab.core.config.model_config import messages
from tritonlab.core.inference.data_type import DataType

PLAIN = [d for d in DataType if d not in (DataType.INVALID, DataType.BYTES, DataType.BF16)]


def test_numbers_and_words_are_those_of_the_proto() -> None:
    words = {value.name: value.number for value in messages.DataType.DESCRIPTOR.values}
    assert {d.config_name: int(d) for d in DataType} == words


@pytest.mark.parametrize("datatype", list(DataType))
def test_config_names_read_back(datatype: DataType) -> None:
    assert DataType.from_config_name(datatype.config_name) is datatype


@pytest.mark.parametrize("name", ["TYPE_FOO", "", "TYPE_float"])
def test_unknown_words(name: str) -> None:
    with pytest.raises(KeyError):
        DataType.from_config_name(name)


@pytest.mark.parametrize("datatype", PLAIN)
def test_numpy_form_and_back(datatype: DataType) -> None:
    assert datatype.numpy.itemsize == datatype.byte_size
    assert DataType.from_numpy(datatype.numpy) is datatype
    assert DataType.from_numpy(datatype.numpy.newbyteorder(">")) is datatype


def test_text_and_objects_are_bytes() -> None:
    for dtype in ("O", "S5", "U5", object, bytes, str):
        assert DataType.from_numpy(dtype) is DataType.BYTES
    assert DataType.BYTES.byte_size == 0


def test_bf16_has_two_bytes_and_does_not_come_from_numpy() -> None:
    """Rule 1.6.5."""
    assert DataType.BF16.byte_size == 2
    assert DataType.BF16.numpy == np.uint16
    assert DataType.from_numpy(np.uint16) is DataType.UINT16


@pytest.mark.parametrize("dtype", [complex, "M8[s]", "m8[s]", "V4", [("a", "i4")], np.longdouble])
def test_what_triton_has_no_word_for(dtype: object) -> None:
    assert DataType.from_numpy(dtype) is DataType.INVALID  # type: ignore[arg-type]


def test_platform_spellings_of_one_type() -> None:
    assert DataType.from_numpy("longlong") is DataType.from_numpy("int64") is DataType.INT64
    assert DataType.from_numpy("intc") is DataType.INT32
