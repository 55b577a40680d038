"""What is asked by private names of other packages has an answer without them, too."""

from __future__ import annotations

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
    assert preload._is_bad_after_fork() is bool(bad)
