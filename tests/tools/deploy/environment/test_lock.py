from __future__ import annotations

import importlib.util
import json
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tritonlab.tools.deploy.child_command import CommandFailed
from tritonlab.tools.deploy.environment import lock
from tritonlab.tools.deploy.environment.lock import (
    Distribution,
    EnvironmentRefused,
    Pin,
    check_local,
    cuda_warnings,
    imported,
    lock_text,
    pins,
    resolved,
)
from tritonlab.tools.deploy.environment.python_prefix import own_python
from tritonlab.tools.deploy.loaded_modules import third_party_modules

NUMPY_2 = Distribution("numpy", "2.4.6", 7, "numpy")


def test_modules_lead_to_the_distributions_that_they_came_from(tmp_path: Path) -> None:
    modules = {
        "json": __import__("json").__file__,
        "numpy": np.__file__,
        "numpy.linalg": np.linalg.__file__,
        "_distutils_hack": str(Path(np.__file__).parents[1] / "_distutils_hack" / "__init__.py"),
        "helper": str(tmp_path / "model" / "1" / "helper.py"),
        "beside": str(tmp_path / "beside.py"),
    }
    found = imported(third_party_modules(modules, [tmp_path / "model"]))
    ((name, version, size, why, url),) = found.distributions
    assert (name, version, why, url) == ("numpy", np.__version__, "numpy", "")
    assert size > 10_000_000
    assert found.loose == {"beside": str(tmp_path / "beside.py")}


def test_numpy_is_1_for_releases_whose_stub_was_compiled_for_it() -> None:
    assert [pin.version for pin in pins([NUMPY_2], "2.51", "3.12")] == ["1.26.4"]
    assert [pin.version for pin in pins([NUMPY_2], "2.51", "3.8")] == ["1.24.4"]
    assert [pin.version for pin in pins([NUMPY_2], "2.52", "3.12")] == ["2.4.6"]
    assert [pin.version for pin in pins([NUMPY_2._replace(version="1.25.0")], "2.36", "3.11")] == ["1.25.0"]
    assert [pin.name for pin in pins([], "2.51", "3.11")] == ["numpy"]  # the stub itself needs it
    with pytest.raises(EnvironmentRefused, match=r"numpy < 2, which has no release for Python 3\.13") as refused:
        pins([NUMPY_2], "2.51", "3.13")
    assert refused.value.fix == "use a Python up to 3.12, or a later release of Triton"


def test_the_lock_says_why() -> None:
    local = Distribution("torch", "2.9.0+cpu", 9, "torch")
    text = lock_text(pins([NUMPY_2, local], "2.51", "3.11"), "2.51", own_python())
    assert "# numpy < 2: the stubs of Triton up to 2.51 were compiled for numpy 1." in text
    assert "numpy==1.26.4  #" in text and "2.4.6 here" in text
    assert "torch==2.9.0  # import torch; 2.9.0+cpu here, a local build" in text
    assert f"Python {sys.version_info.major}.{sys.version_info.minor}" in text
    assert Pin("a", "1").line == "a==1"


def installed(site: Path, name: str, url: str) -> Distribution:
    """Return a distribution that a model imported, as pip installs it from `url`."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "direct_url.json").write_text(json.dumps({"url": url}))
    (info / "RECORD").write_text(f"{name}.py,,\n")
    (site / f"{name}.py").touch()
    (found,) = imported(third_party_modules({name: str(site / f"{name}.py")}, [])).distributions
    return found


def test_a_local_wheel_is_packed_and_never_looked_for_in_an_index(tmp_path: Path) -> None:
    wheel = tmp_path / "mine-1.0-py3-none-any.whl"
    wheel.touch()
    mine = installed(tmp_path / "site-packages", "mine", wheel.as_uri())
    check_local([mine], "archive")
    check_local([NUMPY_2], "requirements")
    (pin, _) = pins([mine], "2.51", "3.11")
    assert pin.requirement == f"mine @ {wheel.as_uri()}" and str(tmp_path) not in pin.line
    with pytest.raises(EnvironmentRefused, match=r"mine 1\.0 was installed from .*\.whl, which no index") as refused:
        check_local([mine], "requirements")
    assert refused.value.fix.startswith("use --env archive or --env dir, which pack it")
    wheel.unlink()
    with pytest.raises(EnvironmentRefused, match="not a wheel that is there"):
        check_local([mine], "archive")


def test_our_stub_in_a_directory_of_packages_is_no_package_of_the_model(tmp_path: Path) -> None:
    stub = tmp_path / "site-packages" / "tritonlab" / "stub"
    modules = {"utils": str(stub / "utils.py"), "other": str(tmp_path / "site-packages" / "other.py")}
    assert [each.name for each in third_party_modules(modules, [tmp_path / "model", stub])] == ["other"]


def test_an_older_release_is_taken_where_the_newest_does_not_go_with_the_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An index leaves such a release out, and pip refuses it as a file of `find-links`."""
    requests: list[str] = []

    def run(command: list[str], cancel: threading.Event, printed: object) -> str:
        requests.append(command[-1])
        if "<=" not in command[-1]:
            raise CommandFailed("pip ended with 1:\nERROR: Package 'a' requires a different Python: 3.10.13 not in 3")
        row = {"metadata": {"name": "a", "version": "1.9"}, "download_info": {"url": "file:///a.whl"}}
        Path(command[command.index("--report") + 1]).write_text(json.dumps({"install": [row]}))
        return ""

    monkeypatch.setattr(lock, "run_command", run)
    (pin,) = resolved([Pin("a", "2.0", "import a")], own_python()._replace(version="3.10"), threading.Event(), print)
    assert requests == ["a==2.0", "a<=2.0"] and (pin.version, pin.comment.partition(";")[0]) == ("1.9", "import a")


def test_without_pip_the_refusal_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentRefused, match="has none") as error:
        resolved([Pin("a", "2.0")], own_python(), threading.Event(), print)
    assert "-m ensurepip" in error.value.remedy()


def test_a_build_for_cpus_that_is_locked_with_cuda_is_named_with_its_size() -> None:
    here = [Distribution("torch", "2.9.0+cpu", 0, "torch"), Distribution("numpy", "1.26.4", 0, "numpy")]
    cuda = [Pin("torch", "2.9.0", bytes=900_000_000), Pin("nvidia-cudnn-cu12", "9.1", bytes=700_000_000)]
    (warning,) = cuda_warnings(here, cuda)
    assert "1 of NVIDIA's packages, 1.6 GB to be fetched" in warning
    assert warning.endswith("whl/cpu and torch==2.9.0+cpu")
    assert cuda_warnings(here, cuda[:1]) == cuda_warnings([Distribution("torch", "2.9.0", 0, "torch")], cuda) == []


def test_the_output_of_pip_is_reported_every_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    times, lines = iter(range(20)), list[str]()
    monkeypatch.setattr(lock.time, "monotonic", lambda: next(times))
    progress = lock._Progress(lines.append)
    for line in ("Collecting a", "  Downloading a.whl", "Using cached", "Collecting b", "Collecting c"):
        progress(line)
    assert lines == ["environment: package 2, collecting b"]
