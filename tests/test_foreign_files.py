"""Everything that reads files of others, with files that are damaged in each way: an error names the file, and no
reader hangs, runs a pickle or fails with an error of its parts."""

from __future__ import annotations

import io
import json
import os
import pickle
import resource
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tritonlab.backends.elsewhere.tritonlab_recordings import Recordings
from tritonlab.core.foreign_file import read_arrays, read_text
from tritonlab.core.status import TritonError
from tritonlab.exchanges.exchange_file import read_exchange
from tritonlab.exchanges.golden import GoldenSet
from tritonlab.golden_run import _suites
from tritonlab.notebook.authoring.draft import Draft
from tritonlab.notebook.authoring.errors import FileError
from tritonlab.notebook.views.record.opening import open_view
from tritonlab.record.recording import Recording
from tritonlab.record.triton_trace import read_trace
from tritonlab.server.models.backend_choice import read_choices
from tritonlab.tools.capture import cloud_events, trace_capture
from tritonlab.tools.capture.capture_file import Capture
from tritonlab.tools.check.check_finding import read_from
from tritonlab.tools.deploy.verify.release_verdict import ReleaseVerdict
from tritonlab.tools.deploy.verify.verdict_history import VerdictHistory


class Runs:
    """A value whose pickle makes a directory when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def npz(**arrays: Any) -> bytes:
    packed = io.BytesIO()
    np.savez_compressed(packed, **arrays)
    return packed.getvalue()


def zipped(name: str, content: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return packed.getvalue()


def header(text: str) -> bytes:
    """Return an array of numpy with this text as its header."""
    return b"\x93NUMPY\x01\x00" + (len(text) + 1).to_bytes(2, "little") + text.encode() + b"\n"


CASE = {"model": "m", "request": {"inputs": {"X": {"datatype": "FP32", "shape": [1], "values": [1]}}}, "answers": []}


def case(**values: Any) -> bytes:
    return json.dumps({**CASE, "request": {"inputs": {"X": {**CASE["request"]["inputs"]["X"], **values}}}}).encode()  # type: ignore[index]


#: The content of a file, or what makes one at a path.
Damage = bytes | Callable[[Path], object]
DAMAGED: dict[str, Damage] = {
    "empty": b"",
    "blank": b" \n",
    "text": b"hello",
    "nul": b"\0" * 100,
    "utf16": '[{"a": 1}]'.encode("utf-16"),
    "latin1": b'{"model": "\xe9"}',
    "number": b"1e400",
    "nan": b"NaN",
    "digits": b"9" * 5000,
    "list of numbers": b"[1e400, NaN, 999999999999999999999999]",
    "nested": b"[" * 100_000,
    "nested to the end": b"[" * 100_000 + b"]" * 100_000,
    "objects": b'{"a":' * 100_000,
    "entries": b'[{"id": 1e400}, {"id": []}, {"id": 1, "timestamps": 5}, {"id": 2, "timestamps": [{}]}, null]',
    "cut": json.dumps(CASE).encode()[:-20],
    "other": b'{"relation": 1, "kind": [], "order": 5, "facts": {}, "responses": [1], "inputs": 7, "request": 3}',
    "endless values": case(values=[float("inf")], datatype="INT32"),
    "shape": case(shape=[10**30]),
    "negative": case(shape=[-5]),
    "text for a number": case(values=["x"]),
    "no base64": case(values=[{"base64": "?"}], datatype="BYTES"),
    "object values": case(values=[{"a": 1}], datatype="FP32"),
    "verdicts": b'{"files": {}, "preflight": 5, "when": 3, "verified": [{"models": {"m": {"requests": [1]}}}], '
    b'"earlier": [1, {"verified": 5}, {"when": "x", "verified": [{"triton": "2.51", "models": 1}]}]}',
    "cut zip": npz(about=np.zeros(9999))[:200],
    "zip of nothing": zipped("a", b""),
    "above": zipped("../../about.npy", header("{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }")),
    "no array": zipped("about.npy", b"text"),
    "no header": zipped("about.npy", header("__import__('os')")),
    "nested header": zipped("about.npy", header("(" * 5000)),
    "large array": zipped("about.npy", header(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({10**13},), }}")),
    "not json": npz(about=np.frombuffer(b"[" * 100_000, np.uint8)),
    "other json": npz(about=np.frombuffer(b'{"format": 1, "models": 5}', np.uint8)),
    "directory": os.mkdir,
    "pipe": os.mkfifo,
    "device": lambda path: os.symlink("/dev/zero", path),
    "circle": lambda path: os.symlink(path.name, path),
    "nowhere": lambda path: os.symlink("/nowhere", path),
}


def read_beside(path: Path) -> object:
    """Read a golden case whose arrays are in the file."""
    (path.parent / "it.json").write_bytes(json.dumps(CASE).encode())
    path.rename(path.parent / "it.npz")
    try:
        return read_exchange(path.parent / "it.json")
    finally:
        (path.parent / "it.npz").rename(path)


def read_check_case(path: Path) -> object:
    path.rename(path.with_name("case.json"))
    try:
        return read_from(path.parent)
    finally:
        path.with_name("case.json").rename(path)


def run_notebook(path: Path) -> object:
    path.rename(path.with_suffix(".ipynb"))
    (suite,) = _suites(path.with_suffix(".ipynb"), 1.0)
    path.with_suffix(".ipynb").rename(path)
    assert isinstance(suite.report, str)
    raise ValueError(f"{suite.name}: {suite.report}")


def read_record(path: Path) -> object:
    models = path.parent / "x" / "models"
    models.mkdir(parents=True)
    path.rename(models.parent / "export.json")
    history = VerdictHistory(models.parent, models)
    assert history.verdicts() == [] and history.open_findings == {}
    return list(history.still_open(ReleaseVerdict("2.51", "")))


READERS: dict[str, Callable[[Path], object]] = {
    "view": open_view,
    "recording": Recording.load,
    "trace": read_trace,
    "capture": Capture,
    "capture of a trace": lambda path: list(trace_capture.read_requests(path)),
    "capture of events": lambda path: list(cloud_events.read_events(path)),
    "golden case": read_exchange,
    "golden arrays": read_beside,
    "recorded answers": lambda path: Recordings(str(path.parent.parent), path.parent.name).find(path.stem),
    "backend choices": read_choices,
    "case of a check": read_check_case,
    "notebook": run_notebook,
    "record of an export": read_record,
    "model": lambda path: Draft("m").with_source(path),
    "config": lambda path: Draft("m").with_config(path),
    "helper": lambda path: Draft("m").with_files([path]),
}


@pytest.mark.parametrize("reader", READERS)
def test_an_error_names_the_file(tmp_path: Path, reader: str) -> None:
    for name, damage in DAMAGED.items():
        path = tmp_path / name.replace(" ", "_") / ("it.py" if reader == "helper" else "file.json")
        path.parent.mkdir()
        if callable(damage):
            damage(path)
        else:
            path.write_bytes(damage)
        try:
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                READERS[reader](path)
        except (ValueError, OSError, FileError, TritonError) as error:
            text = str(error)
            assert str(path.parent) in text, (name, text)
            assert "\n" not in text.strip() and "pickle" not in text, (name, text)
        assert all(str(path.parent) in str(each.message) for each in found)


def test_no_pickle_is_run(tmp_path: Path) -> None:
    path, made = tmp_path / "it.npz", tmp_path / "made"
    values = np.array([Runs(made)], object)
    packed = [npz(about=values), zipped("about.npy", pickle.dumps(Runs(made))), pickle.dumps(Runs(made))]
    for content in packed:
        path.write_bytes(content)
        for read in (Recording.load, open_view, lambda path: read_arrays(path, 1 << 30), read_beside):
            with pytest.raises(ValueError):
                read(path)
    assert not made.exists()


def test_an_archive_that_has_more_than_the_memory_holds(tmp_path: Path) -> None:
    path = tmp_path / "it.npz"
    path.write_bytes(npz(about=np.zeros(1 << 20)))
    assert read_arrays(path, 9 << 20)["about"].size == 1 << 20
    with pytest.raises(ValueError, match=r"8,388,\d{3} bytes when it is unpacked, more than there is memory for"):
        read_arrays(path, 8 << 20)


def test_of_many_cases_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "a.json").write_bytes(json.dumps(CASE).encode())
    for name, damage in DAMAGED.items():
        path = tmp_path / "m" / f"{name}.json"
        if callable(damage):
            damage(path)
        else:
            path.write_bytes(damage)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert [case.name for case in GoldenSet(tmp_path).cases()] == ["a"]
    assert len(found) == len(DAMAGED)


def test_a_file_needs_one_descriptor_and_leaves_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, before[1]))
    try:
        assert [read_text(tmp_path / "file") for _ in range(2)] == ["text", "text"]
        for _ in range(2):
            with pytest.raises(IsADirectoryError):
                read_text(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
