from __future__ import annotations

import numpy as np
import pytest

from tritonlab.stub.c_python_backend_utils import Tensor, TritonError


def test_errors_name_a_class_with_its_module() -> None:
    tensor = Tensor("a", np.zeros(1))
    with pytest.raises(TypeError, match=r"^'c_python_backend_utils\.Tensor' object is not callable$"):
        tensor()  # type: ignore[operator]
    with pytest.raises(AttributeError, match=r"^type object 'c_python_backend_utils\.Tensor' has no attribute 'x'$"):
        Tensor.x  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"^'c_python_backend_utils\.__ErrorCode' object has no attribute 'x'$"):
        TritonError.INTERNAL.x  # type: ignore[attr-defined]  # noqa: B018


def test_the_name_itself_is_without_it() -> None:
    assert [kind.__name__ for kind in (Tensor, TritonError)] == ["Tensor", "TritonError"]
    bases = [repr(kind) for kind in Tensor.__mro__[:2]]
    assert bases == ["<class 'c_python_backend_utils.Tensor'>", "<class 'pybind11_builtins.pybind11_object'>"]
    assert repr(type(Tensor)) == "<class 'pybind11_builtins.pybind11_type'>"


def test_a_class_of_an_author_has_its_own_name() -> None:
    class Mine(Tensor):
        pass

    assert Mine.__name__ == "Mine"
    with pytest.raises(AttributeError, match=r"^type object 'Mine' has no attribute 'x'$"):
        Mine.x  # type: ignore[attr-defined]  # noqa: B018
    Mine.__name__ = "Other"
    assert Mine.__name__ == "Other"
