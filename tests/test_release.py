"""What several files say of the version, the licences, the supported versions and the set-up agrees."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

import tritonlab
from tests.matrix.__main__ import ROWS

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def test_the_extension_has_the_version_of_the_package() -> None:
    for place in ("extension/package.json", "tritonlab/labextension/package.json"):
        assert json.loads((ROOT / place).read_text())["version"] == tritonlab.__version__
    assert "version" in PROJECT["dynamic"]


def test_the_changelog_has_a_section_of_the_version() -> None:
    headings = re.findall(r"^## \[(.+?)\](.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == ("Unreleased", "")
    assert any(name == tritonlab.__version__ and re.fullmatch(r" - \d{4}-\d\d-\d\d", date) for name, date in headings)


def test_the_licences_of_the_bundle_are_listed() -> None:
    built = json.loads((ROOT / "tritonlab/labextension/static/third-party-licenses.json").read_text())
    text = (ROOT / "THIRD_PARTY.md").read_text()
    for package in built["packages"]:
        assert f"| {package['name']} | {package['versionInfo']} | {package['licenseId']} |" in text
        assert package["extractedText"].strip() in text


def test_the_templates_of_deploy_files_are_in_the_wheel() -> None:
    builder = pytest.importorskip("hatchling.builders.wheel").WheelBuilder(str(ROOT))
    packed = {file.distribution_path for file in builder.recurse_included_files()}
    templates = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tritonlab").rglob("*.j2")}
    assert len(templates) > 10 and templates < packed


def test_the_oldest_row_has_every_lower_bound() -> None:
    lines = (ROOT / "tests/matrix" / ROWS["oldest"].lock).read_text().split()
    pins = dict(line.split("==") for line in lines)
    for text in [*PROJECT["dependencies"], *EXTRAS["lab"]]:
        requirement = Requirement(text)
        bound = next(iter(requirement.specifier)).version
        assert Version(pins[requirement.name]) == Version(bound), requirement


def test_the_last_run_of_the_matrix_passed() -> None:
    table = (ROOT / "docs/reference/matrix.md").read_text()
    results = dict(re.findall(r"^\| `(.+?)` \|.* \| ([^|]+) \|$", table, re.MULTILINE))
    assert set(results) == set(ROWS) and all(text.startswith("passed, ") for text in results.values())


def test_the_oldest_row_is_run_with_every_submission() -> None:
    assert 'make -j3 matrix test MATRIX_ROWS="oldest"\n' in (ROOT / ".ci/run").read_text()


def test_every_row_of_the_matrix_is_one_of_the_public_forge() -> None:
    jobs = workflow("test")["jobs"]
    found = {row["row"]: row["python"] for row in jobs["matrix"]["strategy"]["matrix"]["include"]}
    assert found == {name: row.python for name, row in ROWS.items()}
    assert any(".ci/run" in step.get("run", "") for step in jobs["suite"]["steps"])


def test_a_release_is_built_attested_and_published() -> None:
    steps = workflow("release")["jobs"]["build"]["steps"]
    text = json.dumps(steps)
    assert "python -m build" in text and "attest-build-provenance" in text and "twine check" in text


def test_classifiers_name_the_pythons_of_the_matrix_that_are_proved() -> None:
    named = {text.rpartition(" ")[2] for text in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", text)}
    assert named == {row.python for row in ROWS.values()}


def test_what_others_install_is_what_the_project_names() -> None:
    assert set(re.findall(r"\[([\w,]+)\]", (ROOT / ".binder/requirements.txt").read_text())) == {"lab,onnx,torch"}
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())
    makefile = (ROOT / "Makefile").read_text()
    assert container["postAttachCommand"].startswith("make lab ") and "\nlab:" in makefile
    assert container["postCreateCommand"] == "make .venv/.lab" and "\n$(VENV)/.lab:" in makefile


def workflow(name: str) -> Any:
    return yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text())
