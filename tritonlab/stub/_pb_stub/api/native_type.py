"""The class of the classes that Triton compiles into its stub."""

from __future__ import annotations

from typing import Any

#: The name of a class in Python's own errors.
_NAME: Any = type.__dict__["__name__"]


class NativeType(type):
    """The class of an author-facing class. As with Triton's, errors name it with its module (`'c_python_backend_utils.
    Tensor' object is not callable`, rule 2.5.2), `__name__` does not."""

    @property
    def __name__(cls) -> str:
        return str(_NAME.__get__(cls).rpartition(".")[2])

    @__name__.setter
    def __name__(cls, name: str) -> None:
        _NAME.__set__(cls, name)


def put_into(kind: Any, module: str) -> None:
    """Make a class appear to be of this module, also in errors."""
    kind.__module__ = module
    _NAME.__set__(kind, "%s.%s" % (module, kind.__name__))


def show_as_base(kind: NativeType) -> None:
    """Make a base of author-facing classes look like Triton's."""
    kind.__name__ = kind.__qualname__ = "pybind11_object"
    put_into(kind, "pybind11_builtins")


NativeType.__module__, NativeType.__qualname__ = "pybind11_builtins", "pybind11_type"
_NAME.__set__(NativeType, "pybind11_type")
