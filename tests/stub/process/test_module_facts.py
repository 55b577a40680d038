"""Facts of modules, read without their code, whatever lies in `sys.modules`."""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from tritonlab.stub._pb_stub.process.module_facts import file_of, own_names, search_path_of


class Raises:
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class Invents:
    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        return Invents()


class RaisingModule(types.ModuleType):
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class OddDict:
    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("no dict")


class Replaced:
    __file__ = "/of/the/class.py"

    def __init__(self) -> None:
        self.__file__ = "/here.py"


def made(**names: Any) -> types.ModuleType:
    module = types.ModuleType("odd")
    vars(module).update(names)
    return module


@pytest.mark.parametrize(
    "make",
    [
        lambda: None,
        Raises,
        Invents,
        OddDict,
        lambda: RaisingModule("odd"),
        lambda: made(__path__=5, __file__=None),
        lambda: made(__path__=Raises(), __file__=Raises()),
        lambda: made(__path__=[5, Raises()], __file__=b"/x.py"),
    ],
)
def test_nothing_is_known_of_what_is_not_a_whole_module(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[], Any]
) -> None:
    monkeypatch.setitem(sys.modules, "odd", make())
    assert file_of("odd") == ""
    assert search_path_of("odd") == []


def test_nothing_is_known_of_a_module_that_is_not_there() -> None:
    assert (own_names("nowhere"), file_of("nowhere"), search_path_of("nowhere")) == ({}, "", [])


def test_modules_and_packages() -> None:
    assert file_of("types") == types.__file__
    assert search_path_of("types") == []
    assert file_of("json") == json.__file__
    assert search_path_of("json") == list(json.__path__)


def test_an_object_in_the_place_of_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "odd", Replaced())  # type: ignore[arg-type]
    assert file_of("odd") == "/here.py"
    monkeypatch.setitem(sys.modules, "odd", Replaced)  # type: ignore[arg-type]
    assert file_of("odd") == "/of/the/class.py"


def test_a_lazy_module_is_not_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    path = tmp_path / "lazy.py"
    path.write_text("raise RuntimeError('loaded')")
    spec = importlib.util.spec_from_file_location("lazy", path)
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "lazy", module)
    assert file_of("lazy") == str(path)
    assert search_path_of("lazy") == []
