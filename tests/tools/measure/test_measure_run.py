"""`tritonlab load-test`, `profile`, `tune` and `golden record`: output, files and exit status."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from tests.models import answers
from tests.serving import write_model
from tritonlab.__main__ import main

CONFIG = """max_batch_size: 4
input { name: "IN" data_type: TYPE_FP32 dims: [-1] }
output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "models"
    write_model(root, "double", answers("x * 2"), CONFIG)
    return root


def suites(path: Path) -> list[tuple[str | None, ...]]:
    names = ("name", "tests", "failures", "errors")
    return [tuple(suite.get(name) for name in names) for suite in ElementTree.parse(path).getroot()]


def run(capsys: pytest.CaptureFixture[str], command: str, repository: Path, *words: str) -> tuple[int, Any]:
    """Run a command with --json and --junit, and return its status and its document."""
    junit = repository.parent / "found.xml"
    status = main([*command.split(), f"--model-repository={repository}", "--json", f"--junit={junit}", *words])
    return status, json.loads(capsys.readouterr().out)


def test_load_test_and_its_comparison(repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick = ("--seconds=0.2", "--concurrency=1,2")
    kept = tmp_path / "kept"
    status, [found] = run(capsys, "load-test", repository, *quick, f"--save={kept}")
    assert (status, found["model"], [row["level"] for row in found["rows"]]) == (0, "double", [1, 2])
    assert suites(tmp_path / "found.xml") == [("double", "2", "0", "0")]
    # a hundred times as fast before: this run is worse
    saved = json.loads((kept / "double.json").read_text())
    for row in saved["rows"]:
        row["inferences_per_s"] *= 100
    (kept / "double.json").write_text(json.dumps(saved))
    status, [found] = run(capsys, "load-test", repository, *quick, f"--baseline={kept}", "--tolerance=0.5")
    assert (status, found["compared"]["ok"]) == (1, False)
    assert suites(tmp_path / "found.xml") == [("double", "3", "1", "0")]


def test_profile_names_the_lines_of_the_author(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_model(repository, "double", answers("(time.sleep(0.05), x * 2)[1]", imports="import time"), CONFIG)
    status, [found] = run(capsys, "profile", repository, "--seconds=0.5")
    assert status == 0
    assert {line["file"] for line in found["lines"]} == {str(repository / "double" / "1" / "model.py")}
    assert suites(repository.parent / "found.xml") == [("double", "1", "0", "0")]


def test_tune_leaves_the_repository_as_it_is(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in repository.rglob("*") if path.suffix in (".py", ".pbtxt")}
    status, [found] = run(capsys, "tune", repository, "--seconds=3", "--max-instances=1", "--p99-ms=0.000001")
    assert status in (1, 2) and found["model"] == "double"  # 2: the time was too short on this machine
    assert {path: path.read_bytes() for path in before} == before


def test_golden_record_is_what_test_compares_with(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, [found] = run(capsys, "golden record", repository, "--count=2")
    assert (status, found["is_new"], len(found["files"])) == (0, True, 2)
    assert main(["test", str(repository)]) == 0
    write_model(repository, "double", answers("x * 3"), CONFIG)
    assert main(["test", str(repository)]) == 1
    capsys.readouterr()
    status, [found] = run(capsys, "golden record", repository)
    assert (status, found["is_new"], len(found["files"])) == (0, False, 2)
    assert main(["test", str(repository)]) == 0


def test_a_model_that_does_not_load_is_an_error(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_model(repository, "broken", "raise ValueError('no weights')", CONFIG)
    status, documents = run(capsys, "load-test", repository, "--seconds=0.1")
    assert status == 2
    file = repository / "broken" / "1" / "model.py"
    assert documents[0]["error"] == f'ValueError: no weights, in File "{file}", line 1'
    assert suites(repository.parent / "found.xml") == [("broken", "1", "0", "1"), ("double", "1", "0", "0")]
    assert main(["tune", "--model-repository", "nowhere"]) == 2


def test_each_model_gets_the_smallest_shapes_of_its_own_inputs(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = CONFIG.replace('"IN"', '"ELSE"')
    write_model(repository, "other", answers("x * 2", reads="ELSE"), other)
    status, documents = run(capsys, "load-test", repository, "--seconds=0.1")
    assert (status, [document.get("error") for document in documents]) == (0, [None, None])
