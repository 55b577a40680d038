"""The rows of pre-flight, by source line: each that `make engines` proves, and nothing else."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engines.rows import ROWS, Row, write_models
from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.repository.model_tree import read_tree
from tritonlab.tools.deploy.preflight import engines
from tritonlab.tools.deploy.preflight.finding import Finding
from tritonlab.tools.deploy.preflight.subject import Subject
from tritonlab.tools.deploy.releases import find_target

ENGINES = ("dynamo", "ray", "kserve")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("rows") / "models"
    write_models(found)
    return found


def found_of(directory: Path, engine: str) -> Iterator[Finding]:
    text = (directory / "config.pbtxt").read_text()
    versions = tuple(sorted(each.name for each in directory.iterdir() if each.is_dir()))
    subject = Subject(
        directory.name, read_tree(directory, include=(), needed=()), parse_pbtxt(text, "m"), versions=versions
    )
    yield from engines.on_the_engine(subject, find_target(engine))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.engine}: {row.uses}")
def test_preflight_says_it(repository: Path, row: Row) -> None:
    if not row.model:
        assert any(row.phrase in note for note in engines.notes_of(row.engine))
        return
    (finding,) = (each for each in found_of(repository / row.model, row.engine) if row.phrase in each.sentence)
    file, _, line = finding.source_line.rpartition(":")
    assert row.at in linecache.getline(file, int(line)) if row.at else not finding.source_line


@pytest.mark.parametrize("engine", ENGINES)
def test_it_says_nothing_else(repository: Path, engine: str) -> None:
    rows = [row for row in ROWS if row.engine == engine]
    sentences = [(path.name, each.sentence) for path in sorted(repository.iterdir()) for each in found_of(path, engine)]
    assert len(sentences) == sum(bool(row.model) for row in rows)
    assert len(list(engines.notes_of(engine))) == sum(not row.model for row in rows)


def test_every_place_that_makes_a_finding_is_reached(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: set[int] = set()

    def note(*words: Any, **more: Any) -> Finding:
        made.add(inspect.stack()[1].lineno)
        return Finding(*words, **more)

    monkeypatch.setattr(engines, "Finding", note)
    for engine in ENGINES:
        for path in repository.iterdir():
            list(found_of(path, engine))
    tree = ast.parse(Path(engines.__file__).read_text())
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call)]
    assert {each.lineno for each in calls if getattr(each.func, "id", "") == "Finding"} == made
