from __future__ import annotations

import json
import resource
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tritonlab import doctor
from tritonlab.doctor import Diagnosis, State


def findings(look: Any) -> dict[str, Diagnosis]:
    return {finding.about: finding for finding in look()}


def test_here_nothing_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.run(as_json=True) == 0
    rows = {row["about"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["model"]["state"] == "ok" and "READY after" in rows["model"]["text"]
    assert rows["extension"]["state"] == "ok" and rows["numpy"]["state"] == "ok"


def test_what_is_missing_comes_with_its_fix(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def bad() -> Iterator[Diagnosis]:
        yield Diagnosis("thing", State.BAD, "is not there", "get one")

    def broken() -> Iterator[Diagnosis]:
        raise OSError("an odd machine")
        yield

    monkeypatch.setattr(doctor, "LOOKS", (broken, bad))
    assert doctor.run() == 1
    lines = capsys.readouterr().out.splitlines()
    assert "could not be looked at: OSError('an odd machine')" in lines[0]
    assert lines[1].split() == ["MISSING", "thing", "is", "not", "there"] and lines[2].split() == ["->", "get", "one"]


def test_versions_are_compared_with_what_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["numpy>=999", "no-such-package>=1", 'jupyterlab>=4; extra == "lab"', 'sphinx>=999; extra == "docs"']
    monkeypatch.setattr(doctor.importlib.metadata, "requires", lambda name: wanted)
    found = findings(doctor._packages)
    assert found["numpy"].state is State.BAD and found["numpy"].fix == "pip install 'numpy>=999'"
    assert found["no-such-package"].state is State.BAD and "not installed" in found["no-such-package"].text
    assert found["jupyterlab"].state is State.GOOD and "sphinx" not in found


def test_an_old_notebook_half_is_noted_where_no_jupyterlab_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colab's kernel has an ipykernel that it needs, and cards there are pictures."""
    monkeypatch.setattr(doctor.importlib.metadata, "requires", lambda name: ['ipykernel>=999; extra == "lab"'])
    found = findings(doctor._packages)["ipykernel"]
    assert (found.state, found.fix) == (State.BAD, "pip install 'ipykernel>=999'")
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    found = findings(doctor._packages)["ipykernel"]
    assert (found.state, found.fix) == (State.NOTE, "")
    assert found.text.endswith("JupyterLab wants >=999; in other notebooks cards and views are pictures")


def test_a_package_of_both_halves_is_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["tritonclient[grpc]>=2", 'tritonclient[http]>=2; extra == "lab"']
    monkeypatch.setattr(doctor.importlib.metadata, "requires", lambda name: wanted)
    assert [found.about for found in doctor._packages()] == ["tritonclient"]


def test_a_port_that_is_in_use_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setattr(doctor, "HTTP_PORT", port)
        found = findings(doctor._ports)["ports"]
    assert found.state is State.NOTE and str(port) in found.text


def test_few_open_files_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda what: (256, 256))
    assert findings(doctor._files)["open files"].fix == "ulimit -n 4096"
