"""Execution environments and stubs of a model's own.

The environment is that of the judge's own Python, because its stub is compiled for that version; other versions are
in tests/server/test_pythons.py.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.interpreters import pack_environment

from .clients import Client
from .lab_client import LabClient
from .models import model
from .real_client import RealClient
from .reference import VENV, backend_directory, missing
from .rules import rule
from .test_load import ANSWERING, ANSWERING_CONFIG, answer_of

if (why := missing()) is not None:
    pytest.skip(f"{why}; the environments here are made of it", allow_module_level=True)

STUB = "triton_python_backend_stub"
NAMES = ("VIRTUAL_ENV", "PYTHONHOME", "FROM_ACTIVATE")
SOURCE = ANSWERING.format(
    f"mark = os.path.join(sys.prefix, 'mark')\n"
    f"        self.answer = {{name: os.environ.get(name) for name in {NAMES}}}\n"
    "        self.answer['prefix'] = sys.prefix\n"
    "        self.answer['path'] = os.environ['PATH'].split(':')[0]\n"
    "        self.answer['numpy'] = np.__file__\n"
    "        self.answer['mark'] = open(mark).read() if os.path.exists(mark) else ''"
)


def environment(path: str | Path) -> str:
    """Return a config.pbtxt that names an environment."""
    return ANSWERING_CONFIG + f'parameters {{ key: "EXECUTION_ENV_PATH" value: {{ string_value: "{path}" }} }}\n'


def reason(side: Client, name: str, path: str | Path, **files: str) -> str:
    """Return why a model with that environment could not be loaded: `<Code>: <text>`."""
    failure = side.placed(name, model(SOURCE, environment(path), **files))
    side.unload(name)
    assert failure is not None
    assert failure.code == "INVALID_ARG"
    head = f"load failed for model '{name}': version 1 is at UNAVAILABLE state: "
    assert failure.text.startswith(head) and failure.text.endswith(";\n")
    return failure.text.removeprefix(head).removesuffix(";\n")


@rule("2.10.1", "2.10.4")
def test_a_directory_is_used_in_place(side: Client) -> None:
    assert side.placed("env", model(SOURCE, environment(VENV))) is None
    found: dict[str, Any] = answer_of(side, "env")
    side.unload("env")
    assert found["numpy"].startswith(str(VENV))
    assert (found["prefix"], found["VIRTUAL_ENV"], found["path"]) == (str(VENV), str(VENV), f"{VENV}/bin")


@rule("2.10.1", "2.10.2", "2.10.4")
@pytest.mark.parametrize(("file", "mode"), [("env.tar", "w"), ("env.tar.gz", "w:gz")])
def test_an_archive_in_the_model_is_unpacked_elsewhere(side: Client, file: str, mode: str) -> None:
    side.place("env", model(SOURCE, environment(f"$$TRITON_MODEL_DIRECTORY/{file}")))
    pack_environment(VENV, side.repository / "env" / file, mode, mark="here")
    assert side.load("env") is None
    found = answer_of(side, "env")
    side.unload("env")
    base, _, number = found["prefix"].rpartition("/")
    assert Path(base).name.startswith("python_env_") and number.isdecimal()
    assert (found["VIRTUAL_ENV"], found["path"], found["mark"]) == (found["prefix"], f"{found['prefix']}/bin", "here")


@rule("2.10.2")
def test_models_share_an_archive(side: Client, tmp_path: Path) -> None:
    archive = pack_environment(VENV, tmp_path / "env.tar.gz")
    text = environment(archive)
    assert set(side.load_all({"one": model(SOURCE, text), "two": model(SOURCE, text)}).values()) == {None}
    one, two = answer_of(side, "one"), answer_of(side, "two")
    assert one["prefix"] == two["prefix"]
    for name in ("one", "two"):
        side.unload(name)


@rule("2.10.2")
def test_an_archive_that_changed_is_unpacked_again(side: Client, tmp_path: Path) -> None:
    archive = pack_environment(VENV, tmp_path / "env.tar.gz", mark="first")
    os.utime(archive, (1, 1))
    assert side.placed("env", model(SOURCE, environment(archive))) is None
    assert answer_of(side, "env")["mark"] == "first"
    pack_environment(VENV, archive, mark="second")
    assert side.placed("env", model(SOURCE + "\n", environment(archive))) is None
    assert answer_of(side, "env")["mark"] == "second"
    side.unload("env")


def records_of_environments(side: Client, path: Path) -> list[tuple[str, str]]:
    """Return level and text of the records about that archive, each with its kind before the path."""
    if isinstance(side, LabClient):
        records = [(r.level[0], r.text) for r in side.server.logs()]
    else:
        found = re.finditer(r'^([IWE])\d{4} .*\] "(.* Python execution env .*)"$', side.log(), re.MULTILINE)
        records = [(record[1], record[2]) for record in found]
    return [(level, text.removesuffix(str(path))) for level, text in records if text.endswith(str(path))]


@rule("2.10.8")
def test_what_the_log_says_of_environments(side: Client, tmp_path: Path) -> None:
    """An archive is extracted once per content and path, which only the verbose log records."""
    archive = pack_environment(VENV, tmp_path / "env.tar.gz")
    side.log_verbosely(True)
    using, extracting = ("I", "Using Python execution env "), ("I", "Extracting Python execution env ")
    if side.side == "lab":
        extracting = ("V", extracting[1])  # it is a verbose record, which Triton's letters do not tell
    assert side.placed("env", model(SOURCE, environment(archive))) is None
    assert records_of_environments(side, archive) == [using, extracting]
    assert side.placed("env", model(SOURCE + "\n", environment(archive))) is None
    assert side.placed("env2", model(SOURCE, environment(archive))) is None
    assert records_of_environments(side, archive) == [using, extracting, using, using]
    os.utime(archive, (1, 1))
    assert side.placed("env", model(SOURCE, environment(archive))) is None
    assert records_of_environments(side, archive)[4:] == [using, extracting]
    side.log_verbosely(False)
    assert side.placed("env", model(SOURCE + "\n", environment(VENV))) is None
    assert records_of_environments(side, VENV)[-1] == using
    reason(side, "env3", "/no/environment")
    assert records_of_environments(side, Path("/no/environment")) == [using]
    for name in ("env", "env2"):
        side.unload(name)


@rule("2.10.1")
def test_no_path_is_no_environment(side: Client) -> None:
    assert side.placed("env", model(SOURCE, environment(""))) is None
    # the reference server is started without one
    assert answer_of(side, "env")["VIRTUAL_ENV"] == (os.environ.get("VIRTUAL_ENV") if side.side == "lab" else None)
    side.unload("env")


#: path, more files of the model -> the reason
ERRORS: dict[str, tuple[str, dict[str, str], str]] = {
    "not there": ("/no/env.tar.gz", {}, "Failed to get the canonical path for /no/env.tar.gz."),
    "not in the model": (
        "$$TRITON_MODEL_DIRECTORY/env",
        {},
        "Failed to get the canonical path for <repository>/env/env.",
    ),
    "relative": ("no/such/env", {}, "Failed to get the canonical path for no/such/env."),
    "no activate script": (
        "$$TRITON_MODEL_DIRECTORY/dir",
        {"dir/readme.txt": ""},
        "Path <repository>/env/dir/bin/activate does not exist. The Python environment should contain an 'activate'"
        " script.",
    ),
}


@rule("2.10.3")
@pytest.mark.parametrize("case", ERRORS)
def test_an_environment_that_cannot_be_used_says_why(side: Client, case: str) -> None:
    path, files, expected = ERRORS[case]
    assert reason(side, "env", path, **files) == f"Internal: {expected}"


@rule("2.10.3")
@pytest.mark.parametrize("text", ["", "no archive " * 1000])
def test_what_is_not_an_archive_is_refused(fresh: Client, text: str) -> None:
    # a server of its own: a failed extraction spoils every later one of Triton
    found = reason(fresh, "env", "$$TRITON_MODEL_DIRECTORY/env.tar.gz", **{"env.tar.gz": text})
    assert found == "Internal: archive_read_open_filename() failed."


@rule("2.10.3")
def test_an_environment_without_numpy_cannot_load_a_model_that_needs_it(side: Client, tmp_path: Path) -> None:
    archive = pack_environment(VENV, tmp_path / "env.tar.gz", packages=False)
    found = reason(side, "env", archive)
    # ours goes on with what to install
    assert found.splitlines()[0] == "Internal: ModuleNotFoundError: No module named 'numpy'"


@rule("2.10.4")
@pytest.mark.parametrize(("program", "expected"), [("real", "yes"), ("lab", None)])
def test_the_activate_script_is_executed_by_2_51_and_not_since(
    request: pytest.FixtureRequest, tmp_path: Path, program: str, expected: str | None
) -> None:
    side: Client = request.getfixturevalue(program)
    archive = pack_environment(VENV, tmp_path / "env.tar.gz")
    assert side.placed("env", model(SOURCE, environment(archive))) is None
    assert answer_of(side, "env")["FROM_ACTIVATE"] == expected
    side.unload("env")


@rule("2.10.6")
def test_triton_prefers_a_models_own_stub_and_makes_it_executable(real: RealClient) -> None:
    real.place("own", model(SOURCE, ANSWERING_CONFIG))
    stub = real.repository / "own" / STUB
    shutil.copy(backend_directory() / "python" / STUB, stub)
    stub.chmod(0o644)
    assert real.load("own") is None
    assert answer_of(real, "own")["mark"] == ""
    assert stub.stat().st_mode & 0o777 == 0o100  # only its owner may run it, nobody may read it; ours adds u+x
    real.unload("own")


@rule("2.10.6")
def test_a_stub_compiled_for_triton_is_kept_and_ours_runs_the_model(lab: Client) -> None:
    lab.place("own", model(SOURCE, ANSWERING_CONFIG))
    stub = backend_directory() / "python" / STUB
    shutil.copy(stub, lab.repository / "own")
    assert lab.load("own") is None
    assert answer_of(lab, "own")["mark"] == ""
    assert (lab.repository / "own" / STUB).stat().st_mode == stub.stat().st_mode
    lab.unload("own")
