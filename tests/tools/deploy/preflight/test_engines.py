"""P12: what does not survive on Dynamo, Ray Serve and KServe, by source line; `make engines` proves each row there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.repository.model_tree import read_tree
from tritonlab.tools.deploy.preflight.engines import DYNAMO_REQUEST, on_the_engine
from tritonlab.tools.deploy.preflight.finding import Finding, Prediction
from tritonlab.tools.deploy.preflight.judge import judge
from tritonlab.tools.deploy.preflight.subject import Subject
from tritonlab.tools.deploy.releases import find_target

SEQUENCE = "sequence_batching { }"
DECOUPLED = "model_transaction_policy { decoupled: true }"
STREAMS = "def execute(requests):\n    sender = requests[0].get_response_sender()"
LARGE = f'input {{ name: "IN" data_type: TYPE_FP32 dims: [ {DYNAMO_REQUEST // 4 + 1} ] }}'


def found(tmp_path: Path, target: str, source: str = "", config: str = "", versions: tuple[str, ...] = ("1",)) -> str:
    """Return each finding as `outcome:line of the source`, in one text."""
    each_row = rows(tmp_path, target, source, config, versions)
    return " ".join(f"{each.outcome.value}:{each.source_line.rpartition(':')[2]}" for each in each_row)


def rows(
    tmp_path: Path, target: str, source: str = "", config: str = "", versions: tuple[str, ...] = ("1",)
) -> list[Finding]:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "model.py").write_text(source)
    subject = Subject("m", read_tree(tmp_path, include=(), needed=()), parse_pbtxt(config, "m"), versions=versions)
    return list(on_the_engine(subject, find_target(target)))


@pytest.mark.parametrize(
    ("source", "config", "dynamo", "ray", "kserve"),
    [
        ("", "", "", "", ""),
        ("x = 1\ndef f(r): return r.request_id()", "", "attention:2", "", ""),
        ("def f(r): return r.parameters()", "", "attention:1", "", ""),
        ("def f(model): return model.parameters", "", "", "", ""),
        ("def f(r): return r.timeout()", "", "attention:1", "", ""),
        ("def f(r): return r.is_cancelled()", "", "attention:1", "", ""),
        ("\nx = InferenceResponse([], parameters={})", "", "attention:2", "", ""),
        ("", "dynamic_batching { priority_levels: 2 }", "attention:", "", ""),
        (STREAMS, DECOUPLED, "differs:2", "attention:2", "attention:2"),
        ("def f(r): return r.correlation_id()", SEQUENCE, "attention:1", "does not load:1", "attention:1"),
        ("", LARGE, "fails:", "", ""),
        ("", LARGE.replace("input", "output"), "attention:", "", ""),
        ("", 'input { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] }', "", "", ""),
    ],
)
def test_what_does_not_survive(tmp_path: Path, source: str, config: str, dynamo: str, ray: str, kserve: str) -> None:
    for target, expected in {"dynamo": dynamo, "ray": ray, "kserve": kserve}.items():
        (directory := tmp_path / target).mkdir()
        assert found(directory, target, source, config) == expected, target


def test_versions_do_not_reach_a_worker_of_dynamo(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, "dynamo", versions=("1", "2"))
    assert row.outcome is Prediction.DIFFERS and "versions 1, 2" in row.sentence


def test_nothing_of_it_is_found_for_a_container_of_triton(tmp_path: Path) -> None:
    assert rows(tmp_path, "2.51", STREAMS, DECOUPLED + SEQUENCE) == []


def test_an_engine_is_not_judged_by_a_release(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "model.py").write_text("import tomllib\nimport numpy\nnumpy.vecdot\n")
    subject = Subject("m", read_tree(tmp_path, include=(), needed=()), parse_pbtxt("", "m"))
    assert [each.row for each in judge(subject, "2.51").findings] == ["P5", "P6"]
    judged = judge(subject, "ray")
    assert judged.findings == () and judged.target == "Ray Serve" and "HTTP alone" in judged.notes[0]
