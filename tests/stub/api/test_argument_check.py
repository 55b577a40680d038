from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tritonlab.stub._pb_stub.api.argument_check import as_flag, as_float, as_int, as_text, is_sequence, mismatch

pytestmark = pytest.mark.rule("1.7.2")  # rule 0.4 says how such errors look


def test_the_text_names_the_signature_and_the_arguments() -> None:
    error = mismatch("send", "(self) -> None", (1, "x"), {"flags": 2})
    assert isinstance(error, TypeError)
    assert str(error) == (
        "send(): incompatible function arguments. The following argument types are supported:\n"
        "    1. (self) -> None\n\nInvoked with: 1, 'x'; kwargs: flags=2"
    )
    assert str(mismatch("__init__", "T()")).startswith("__init__(): incompatible constructor arguments.")


@pytest.mark.parametrize(
    ("value", "text"),
    [("é", "é"), (b"a", "a"), (bytearray(b"a"), "a"), (np.str_("a"), "a"), ("\ud800", None), (1, None), (None, None)],
)
def test_texts(value: Any, text: str | None) -> None:
    assert as_text(value) == text


def test_bytes_that_are_not_utf8_raise_what_reading_them_raises_on_triton() -> None:
    with pytest.raises(UnicodeDecodeError, match="invalid start byte"):
        as_text(b"\xff")


@pytest.mark.parametrize(
    ("value", "number"),
    [(0, 0), (255, 255), (256, None), (-1, None), (True, 1), (np.int8(3), 3), (1.0, None), (None, None), ("1", None)],
)
def test_integers_within_their_type(value: Any, number: int | None) -> None:
    assert as_int(value, 0, 255) == number


@pytest.mark.parametrize(
    ("value", "number"), [(1, 1.0), (True, 1.0), (np.float32(1.5), 1.5), ("1", None), (None, None), (1j, None)]
)
def test_floats(value: Any, number: float | None) -> None:
    assert as_float(value) == number


@pytest.mark.rule("4.1.1")
@pytest.mark.parametrize(
    ("value", "flag"), [(True, True), (0, False), (2.0, True), (np.True_, True), (None, None), ("x", None), ([1], None)]
)
def test_flags(value: Any, flag: bool | None) -> None:
    assert as_flag(value) is flag


@pytest.mark.rule("1.7.3")
@pytest.mark.parametrize(
    ("value", "fits"),
    [([], True), ((), True), (np.array(["a"]), True), ("ab", False), (b"ab", False), ({}, False), ({1}, False)],
)
def test_sequences(value: Any, fits: bool) -> None:
    assert is_sequence(value) is fits
    assert not is_sequence(iter([1]))
