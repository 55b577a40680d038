from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

import pytest

from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.tools.deploy.child_command import Cancelled, CommandFailed
from tritonlab.tools.deploy.environment import lock, placed
from tritonlab.tools.deploy.environment.built_environment import build_environment, check_budget, pack
from tritonlab.tools.deploy.environment.lock import Distribution, EnvironmentRefused, StubImports
from tritonlab.tools.deploy.environment.placed import EnvironmentOptions, place_environment
from tritonlab.tools.deploy.environment.python_prefix import Python, own_python

NUMPY = StubImports((Distribution("numpy", "1.26.4", 70_000_000, "numpy"),), {})
TEXT = '# mine\nbackend: "python"\n'


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "models" / "m"
    (path / "1").mkdir(parents=True)
    (path / "config.pbtxt").write_text(TEXT)
    return path


def place(model: Path, choice: str, **more: object) -> placed.PlacedEnvironment:
    return place_environment(
        {model: NUMPY},
        EnvironmentOptions(choice, **more),  # type: ignore[arg-type]
        lock=model.parent.parent / "requirements.lock",
    )


def files(model: Path) -> list[str]:
    return sorted(path.relative_to(model).as_posix() for path in model.rglob("*"))


def prefix_of(path: Path, version: str = "3.10", numpy: str = "1.26.4") -> Path:
    """Return a small directory that looks like a prefix of CPython."""
    site = path / "lib" / f"python{version}" / "site-packages"
    (site / f"numpy-{numpy}.dist-info").mkdir(parents=True)
    (site.parent / "os.py").touch()
    (path / "bin").mkdir()
    (path / "bin" / "activate").touch()
    (path / "lib" / f"libpython{version}.so.1.0").touch()
    return path


@pytest.mark.parametrize("has_it", [True, False])
def test_a_lock_is_for_the_python_of_the_image(model: Path, monkeypatch: pytest.MonkeyPatch, has_it: bool) -> None:
    """Its Dockerfile installs it there, whatever Python the notebook has, or this machine has besides."""
    other = own_python()._replace(version="3.10", full_version="3.10.13")
    commands: list[list[str]] = []

    def run_command(command: list[str], **more: object) -> str:
        commands.append(command)
        if any("scipy==" in word for word in command):
            raise CommandFailed("ERROR: No matching distribution found for scipy==1.17.1")
        versions = {"numpy": "1.26.4", "scipy": "1.15.3"}
        rows = [
            {"metadata": {"name": name, "version": version}, "download_info": {"url": f"file:///{name}.whl"}}
            for name, version in versions.items()
        ]
        Path(command[command.index("--report") + 1]).write_text(json.dumps({"install": rows}))
        return ""

    monkeypatch.setattr(lock, "run_command", run_command)
    monkeypatch.setattr(placed, "find_python", lambda version: other if has_it and version == "3.10" else None)
    scipy = Distribution("scipy", "1.17.1", 1, "scipy")
    found = StubImports((Distribution("numpy", "2.4.6", 1, "numpy"), scipy), {})
    file = model.parent.parent / "requirements.lock"
    report = place_environment({model: found}, EnvironmentOptions(), lock=file)
    assert report.python == "3.10" and ("--python-version" in commands[0]) is not has_it
    text = file.read_text()
    assert text.startswith("# For Triton 2.51, Python 3.10.") and "scipy==1.15.3  # import scipy; 1.17.1 does" in text
    assert report.warnings == [
        "scipy is pinned to 1.15.3, and the models ran here with 1.17.1, which does not go with Python 3.10 or with "
        "the other packages"
    ]


def test_a_virtual_environment_is_refused_with_the_reason(model: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True, timeout=60)
    before = files(model)
    with pytest.raises(EnvironmentRefused, match="is a virtual environment: it has no interpreter") as refused:
        place(model, str(tmp_path / "venv"))
    assert str(Path(sys.base_prefix) / "bin") in str(refused.value)
    assert "--env dir" in str(refused.value.fix)
    assert files(model) == before


@pytest.mark.parametrize(("numpy", "expected"), [("2.4.6", r"has numpy 2\.4\.6, and Triton 2\.51 needs numpy < 2")])
def test_a_prefix_with_numpy_2_is_refused_for_an_old_target(
    model: Path, tmp_path: Path, numpy: str, expected: str
) -> None:
    prefix = prefix_of(tmp_path / "prefix", numpy=numpy)
    with pytest.raises(EnvironmentRefused, match=expected):
        place(model, str(prefix))
    assert place(model, str(prefix), target="2.60").warnings  # of Python 3.10 beside a stub for 3.12


def test_a_prefix_is_packed_and_named_in_the_config(model: Path, tmp_path: Path) -> None:
    report = place(model, str(prefix_of(tmp_path / "prefix")), target="24.10")
    assert files(model) == ["1", "config.pbtxt", "env.tar.gz"]
    assert not report.has_stub  # 3.10 is the Python of the release's own
    text = (model / "config.pbtxt").read_text()
    assert text.startswith(TEXT)
    parameter = parse_pbtxt(text, "").parameters["EXECUTION_ENV_PATH"]
    assert parameter.string_value == "$$TRITON_MODEL_DIRECTORY/env.tar.gz"
    with tarfile.open(model / "env.tar.gz") as archive:
        assert "bin/activate" in archive.getnames()


def test_another_python_brings_the_stub_of_the_wheel(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = tmp_path / "stub"
    stub.write_bytes(b"\x7fELF")

    class Files:
        def stub(self, python: str) -> Path:
            assert python == "3.12"
            return stub

    monkeypatch.setattr(placed, "unpacked", lambda wheel, say, cancel: Files())
    prefix = prefix_of(tmp_path / "prefix", "3.12")
    assert place(model, str(prefix)).has_stub
    written = model / "triton_python_backend_stub"
    assert written.read_bytes() == b"\x7fELF" and written.stat().st_mode & 0o777 == 0o755
    with pytest.raises(EnvironmentRefused, match=r"no stub for Python 3\.12, only for 3\.8, 3\.9, 3\.10, 3\.11"):
        place(model, str(prefix), target="2.36")


def test_a_failure_leaves_the_models_as_they_were(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = model.with_name("other")
    other.mkdir()
    (other / "config.pbtxt").write_text("no config {")
    (model / "env.tar.gz").write_text("the former one")
    with pytest.raises(ValueError):
        place_environment(
            {model: NUMPY, other: NUMPY},
            EnvironmentOptions(str(prefix_of(tmp_path / "prefix"))),
            lock=tmp_path / "lock",
        )
    assert files(model) == ["1", "config.pbtxt", "env.tar.gz"]
    assert (model / "env.tar.gz").read_text() == "the former one"
    assert (model / "config.pbtxt").read_text() == TEXT


def test_a_budget_is_kept_before_anything_is_built() -> None:
    messages = list[str]()
    with pytest.raises(EnvironmentRefused, match=r"would be about .* numpy 70 MB; the budget is 50 MB"):
        check_budget(own_python(), NUMPY.distributions, 50_000_000, messages.append)
    assert messages[0].startswith("environment: about ")


def test_the_systems_python_is_not_copied(tmp_path: Path) -> None:
    system = Python("3.11", Path("/usr"), Path("/usr/bin/python3.11"), Path("/usr/lib/x"), Path("/usr/lib"), "3.11.2")
    with pytest.raises(EnvironmentRefused, match="the system's Python, whose parts are spread over /usr"):
        build_environment(system, [], tmp_path / "env", print, threading.Event())


def test_a_copy_runs_elsewhere_and_two_archives_are_equal(tmp_path: Path) -> None:
    if why := own_python().why_not_relocatable:
        pytest.skip(why)
    made = build_environment(own_python(), [], tmp_path / "one", print, threading.Event())
    moved = made.rename(tmp_path / "moved")
    done = subprocess.run(
        [str(moved / "bin" / "python3"), "-B", "-c", "import ssl, ctypes, sys; print(sys.prefix)"],
        capture_output=True,
        text=True,
        env={"PATH": "/nowhere"},  # not even a path to its libpython
    )
    assert done.stdout == f"{moved}\n", done.stderr
    maps = subprocess.run(
        [str(moved / "bin" / "python3"), "-B", "-c", "print(open('/proc/self/maps').read())"],
        capture_output=True,
        text=True,
        env={},
    )
    assert f"{moved}/lib/libpython" in maps.stdout and f"{own_python().prefix}/" not in maps.stdout
    small = prefix_of(tmp_path / "small")
    archives = [pack(small, tmp_path / f"{n}.tar.gz", threading.Event()).read_bytes() for n in range(2)]
    assert archives[0] == archives[1]
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Cancelled):
        pack(small, tmp_path / "c.tar.gz", cancel)
