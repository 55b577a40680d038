from __future__ import annotations

import copy
import pickle
import weakref
from typing import Any

import pytest

from tritonlab.stub import c_python_backend_utils as native
from tritonlab.stub._pb_stub.api.enums import LogLevel
from tritonlab.stub._pb_stub.api.errors import TritonError, TritonModelException, code_of


@pytest.mark.rule("1.3.1")
def test_an_error_is_internal_unless_it_says_otherwise() -> None:
    assert TritonError("x").code() == TritonError.INTERNAL
    error = TritonError(message="é", code=TritonError.NOT_FOUND)
    assert (error.message(), error.code(), code_of(error)) == ("é", TritonError.NOT_FOUND, 2)


@pytest.mark.rule("1.3.1")
@pytest.mark.parametrize("arguments", [(None,), (1,), ("x", 3), ("x", None), ("x", LogLevel.ERROR)])
def test_a_number_is_no_code(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="incompatible constructor arguments"):
        TritonError(*arguments)


@pytest.mark.rule("1.3.2")
def test_an_error_cannot_be_raised() -> None:
    with pytest.raises(TypeError, match="exceptions must derive from BaseException"):
        raise TritonError("x")  # type: ignore[misc]


@pytest.mark.rule("1.3.2", "1.1.6")
def test_an_error_shows_as_tritons_object() -> None:
    assert native.TritonError is TritonError
    assert str(TritonError("x")).startswith("<c_python_backend_utils.TritonError object at 0x")


@pytest.mark.rule("1.3.3")
def test_the_exception_is_a_plain_one() -> None:
    assert TritonModelException.__bases__ == (Exception,)
    assert TritonModelException("a", 1).args == ("a", 1)


@pytest.mark.rule("1.1.6")
def test_objects_can_be_referred_to_but_neither_copied_nor_pickled() -> None:
    error = TritonError("x")
    assert weakref.ref(error)() is error
    for attempt in (copy.copy, pickle.dumps):
        with pytest.raises(TypeError, match=r"cannot pickle 'c_python_backend_utils\.TritonError' object"):
            attempt(error)
