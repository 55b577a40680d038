from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tritonlab.record.recording import RecordingError
from tritonlab.record.triton_trace import read_trace


def entries(ident: int, start: int, end: int, queued: int, **head: Any) -> list[dict[str, Any]]:
    stamps = {
        "REQUEST_START": queued - 1,
        "QUEUE_START": queued,
        "COMPUTE_START": start,
        "COMPUTE_INPUT_END": start + 1,
        "COMPUTE_OUTPUT_START": end - 1,
        "COMPUTE_END": end,
        "REQUEST_END": end + 1,
    }
    shape = {"activity": "TENSOR_QUEUE_INPUT", "tensor": {"name": "IN", "data": "1,2", "shape": "1,2"}}
    return [
        {"id": ident, "model_name": "add", "model_version": 1, **head},
        {"id": ident, **shape},
        *({"id": ident, "timestamps": [{"name": name, "ns": ns}]} for name, ns in stamps.items()),
    ]


def test_requests_with_equal_executions_were_a_batch(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    found = [*entries(1, 10, 20, 5, request_id="a"), *entries(2, 10, 20, 4), *entries(3, 12, 18, 6, parent_id=1)]
    found += [*entries(4, 20, 30, 8), {"id": 5, "timestamps": [{"name": "HTTP_RECV_START", "ns": 1}]}]
    file.write_text(json.dumps(found))
    record = read_trace(file).model("add")
    columns = [record.batches.columns.index(name) for name in ("start", "end", "instance", "size", "first")]
    assert record.batches.rows()[:, columns].tolist() == [[10, 20, 0, 2, 0], [12, 18, 1, 1, 2], [20, 30, 0, 1, 3]]
    assert record.requests.rows()[:, :4].tolist() == [[2, 3, 4, 0], [1, 4, 5, 0], [3, 5, 6, 1], [4, 7, 8, 2]]
    assert list(record.ids) == [(1, "a")]
    assert record.extras.rows().tolist() == [[2, 0, 0, 1, -1, -1, -1, 0]]
    assert record.words.lists()["instance"] == ["add #1", "add #2"]
    assert record.words.lists()["shapes"] == [(("IN", (1, 2)),)]


@pytest.mark.parametrize("text", ["", "[1]", '[{"timestamps": []}]', '{"a": 1}', '[{"id": 1, "timestamps": [{}]}]'])
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "trace.json"
    file.write_text(text)
    with pytest.raises(RecordingError, match="not a trace"):
        read_trace(file)


@pytest.mark.parametrize("ns", ["1e400", "9" * 24, "-" + "9" * 24, "1" * 5000, "[]", '"x"', "NaN"])
def test_an_entry_with_a_time_that_fits_nowhere_is_left_out(tmp_path: Path, ns: str) -> None:
    file = tmp_path / "trace.json"
    text = json.dumps([*entries(1, 10, 30, 5), *entries(2, 15, 20, 5)])
    file.write_text(text.replace('"ns": 20}', f'"ns": {ns}}}'))
    with pytest.warns(UserWarning, match=re.escape(f"{file}: ") + r"1 of \d+ entries cannot be read and were left out"):
        record = read_trace(file).model("add")
    assert record.batches.rows()[:, :2].tolist() == [[10, 30]]
    file.write_text(f'[{{"id": 1, "timestamps": [{{"name": "COMPUTE_START", "ns": {ns}}}]}}]')
    with pytest.raises(RecordingError, match=re.escape(f"{file} is not a trace file of Triton: ")):
        read_trace(file)


def test_entries_that_triton_wrote_wrong_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    wrong = '{"id":1,"activity":"TENSOR_QUEUE_INPUT","tensor":{"name":"S","data":""a"b"","shape":"1"}}'
    found = [json.dumps(each, separators=(",", ":")) for each in entries(1, 10, 20, 5)]
    file.write_bytes(f"[{','.join([*found[:2], wrong, *found[2:]])}]".encode() + b"\n")
    with pytest.warns(UserWarning, match=f"1 of {len(found) + 1} entries cannot be read and were left out"):
        record = read_trace(file).model("add")
    assert record.batches.rows()[:, :2].tolist() == [[10, 20]]
    assert record.words.lists()["shapes"] == [(("IN", (1, 2)),)]
