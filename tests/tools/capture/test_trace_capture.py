from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tritonlab
from tritonlab.core.inference.tensor import Tensor
from tritonlab.exchanges.exchange import Exchange
from tritonlab.tools.capture.capture_file import Capture, Withheld


def entry(activity: str, name: str, data: bytes, shape: str, datatype: str, ident: int = 1) -> bytes:
    head = f'{{"id":{ident},"activity":"TENSOR_{activity}","tensor":{{"name":"{name}","data":"'
    return head.encode() + data + f'","shape":"{shape}","dtype":"{datatype}"}}}}'.encode()


def trace(*tensors: bytes, ident: int = 1, start: int = 58378496976816, head: str = "") -> bytes:
    """Return the entries of a request, in the form of 2.51."""
    moments = {"REQUEST_START": start, "QUEUE_START": start + 50, "REQUEST_END": start + 1000}
    stamps = [f'{{"id":{ident},"timestamps":[{{"name":"{n}","ns":{ns}}}]}}'.encode() for n, ns in moments.items()]
    model = f'{{"id":{ident},"model_name":"types","model_version":1{head}}}'.encode()
    return b",".join([model, *stamps[:2], *tensors, stamps[2]])


def exchanges(tmp_path: Path, *files: bytes) -> tuple[Any, list[Exchange], list[Any]]:
    names = []
    for number, text in enumerate(files):
        names.append(tmp_path / f"trace.json.{number}")
        names[-1].write_bytes(b"[" + text + b"]")
    report = tritonlab.capture_from(names, tmp_path / "day.arrow")
    found = list(Capture(tmp_path / "day.arrow"))
    return report, [each.exchange for each in found], found


#: Values as 2.51 has written them (2026-11-28): nothing is escaped, bytes are bytes.
TEXTS = b'\\"a,b\\",\\"say "yes"\\",\\"back\\n\\",\\"line\nbreak\\",\\"\\",\\"","\\",\\"\xff\xfe\\"'
VALUES: list[tuple[str, bytes, str, Any]] = [
    ("BYTES", TEXTS, "1,7", [b"a,b", b'say "yes"', b"back\\n", b"line\nbreak", b"", b'","', b"\xff\xfe"]),
    ("INT8", b"\x80,A", "1,2", [-128, 65]),
    ("UINT8", b"\xff,,,\x00", "1,3", [255, ord(","), 0]),
    ("UINT64", b"18446744073709551615", "1,1", [2**64 - 1]),
    ("INT64", b"-9223372036854775808", "1,1", [-(2**63)]),
    ("BOOL", b"1,0", "1,2", [True, False]),
    ("INT32", b"", "1,0", []),
]


@pytest.mark.parametrize(("datatype", "data", "shape", "value"), VALUES, ids=[each[0] for each in VALUES])
def test_values_that_come_back_as_they_were(tmp_path: Path, datatype: str, data: bytes, shape: str, value: Any) -> None:
    both = [entry("QUEUE_INPUT", "A", data, shape, datatype), entry("BACKEND_OUTPUT", "B", data, shape, datatype)]
    report, (found,), (one,) = exchanges(tmp_path, trace(*both, head=',"request_id":"r"'))
    tensor: Tensor = found.request.inputs["A"]
    assert (tensor.datatype.name, list(tensor.shape)) == (datatype, [int(n) for n in shape.split(",")])
    assert tensor.numpy().reshape(-1).tolist() == value and found.outputs["B"].numpy().tolist() == [value]
    assert (one.at_ns, found.total_ns, found.request.request_id, one.withheld) == (0, 1000, "r", {})
    assert (found.unanswered, found.unsent, report.requests) == ("", "", 1)
    assert Capture(tmp_path / "day.arrow").facts["source"] == "trace"


def test_floating_point_numbers_are_not_exact(tmp_path: Path) -> None:
    text = trace(
        entry("QUEUE_INPUT", "F", b"1.5,0.333333,nan,-inf,-0", "5", "FP32"),
        entry("QUEUE_INPUT", "H", b"", "2", "FP16"),
        entry("BACKEND_OUTPUT", "D", b"1e-09", "1", "FP64"),
        entry("BACKEND_OUTPUT", "G", b"", "2,1", "BF16"),
    )
    _, (found,), (one,) = exchanges(tmp_path, text)
    assert [str(x) for x in found.request.inputs["F"].numpy()] == ["1.5", "0.333333", "nan", "-inf", "-0.0"]
    assert one.withheld == {
        "input.F": Withheld("inexact", "FP32", (5,)),
        "input.H": Withheld("shape", "FP16", (2,)),
        "output.0.D": Withheld("inexact", "FP64", (1,)),
        "output.0.G": Withheld("shape", "BF16", (2, 1)),
    }
    assert "no values of its input 'H'" in found.unsent and [*found.outputs] == ["D"]


def test_streams_failures_and_calls_of_models(tmp_path: Path) -> None:
    """Requests of several files are in order; one that a model made is part of its answer."""

    def outputs(*n: int) -> list[bytes]:
        return [entry("BACKEND_OUTPUT", "B", str(each).encode(), "1", "INT32") for each in n]

    stream = trace(entry("QUEUE_INPUT", "A", b"1", "1", "INT32"), *outputs(1, 2, 3), start=9000)
    made = trace(*outputs(1), ident=3, start=10_000, head=',"request_id":"inner","parent_id":1').replace(
        b'{"id":1,', b'{"id":3,'
    )
    failed = trace(ident=4, start=8000)
    report, found, _ = exchanges(tmp_path, stream + b"," + made + b"," + failed)
    assert [len(each.arrivals) for each in found] == [0, 3] and report.requests == 2
    assert "it failed, or had none" in found[0].unanswered
    assert [one.final for one in found[1].responses] == [False, False, True]


def test_an_entry_that_cannot_be_read_is_counted(tmp_path: Path) -> None:
    wrong = [
        (b"1,2", "3", "INT32"),
        (b"x", "1", "INT32"),
        (b"1", "1", "FP33"),
        (b"a", "1", "BYTES"),
        (b"99999", "1", "INT16"),
    ]
    entries = [trace(entry("QUEUE_INPUT", "A", *each, ident=n), ident=n) for n, each in enumerate(wrong, 1)]
    good = trace(entry("QUEUE_INPUT", "A", b"1", "1", "INT32", ident=9), ident=9)
    report, found, _ = exchanges(tmp_path, b",".join([*entries, good]))
    assert len(found) == 1 and sum(report.lost.values()) == len(wrong)
    assert "a tensor of INT32 cannot be read: ValueError" in report.lost


def test_a_trace_without_times_or_tensors_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"[" + entry("QUEUE_INPUT", "A", b"1", "1", "INT32") + b"]")
    with pytest.raises(ValueError, match="level=TIMESTAMPS and level=TENSORS"):
        tritonlab.capture_from(tmp_path / "a", tmp_path / "b")
    with pytest.raises(ValueError, match="no file is named"):
        tritonlab.capture_from([], tmp_path / "b")
    assert not (tmp_path / "b").exists()
