"""What private names of other packages show, and what is assumed where they are missing."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from types import ModuleType

import pytest

from tritonlab.stub._pb_stub.process import preload


def test_temporary_names_are_noticed_where_tempfile_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "_name_sequence", iter(()))
    assert preload._made_temporary_files()
    monkeypatch.delattr(tempfile, "_name_sequence")
    assert not preload._made_temporary_files()


@pytest.mark.parametrize("bad", [True, False, None])
def test_a_torch_that_does_not_tell_is_taken_for_harmless(monkeypatch: pytest.MonkeyPatch, bad: bool | None) -> None:
    cuda = ModuleType("torch.cuda")
    if bad is not None:
        monkeypatch.setattr(cuda, "_is_in_bad_fork", lambda: bad, raising=False)
    monkeypatch.setitem(sys.modules, "torch.cuda", cuda)
    assert preload._try_fork() == ("it uses the GPU" if bad else "")


def made(**names: object) -> ModuleType:
    module = ModuleType("made")
    vars(module).update(names)
    return module


def fails() -> None:
    raise RuntimeError("not here")


class Generator:
    seed = staticmethod(fails)


class Dies:
    @staticmethod
    def seed() -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("name", "module", "why"),
    [
        ("torch", made(), ""),
        ("torch", None, ""),
        ("torch", made(default_generator=None), ""),
        ("torch", made(default_generator=object()), "it fails in a fork"),
        ("torch", made(default_generator=Generator), "it fails in a fork"),
        ("torch", made(default_generator=Dies), "a fork of it ends with signal 9"),
        ("torch.cuda", made(_is_in_bad_fork=fails), "it fails in a fork"),
        ("numpy.random", made(), ""),
        ("numpy.random", made(seed=fails), "it fails in a fork"),
    ],
)
def test_a_stand_in_is_judged_by_what_it_has(
    monkeypatch: pytest.MonkeyPatch, name: str, module: ModuleType | None, why: str
) -> None:
    for each in ("torch", "torch.cuda", "numpy.random"):
        monkeypatch.setitem(sys.modules, each, made())
    monkeypatch.setitem(sys.modules, name, module)  # type: ignore[arg-type]
    assert preload._try_fork() == why
