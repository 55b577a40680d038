"""Models on other Pythons than the kernel's, by environment, by archive and by a stub of their own."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.rules import rule
from tests.interpreters import VERSIONS, bare_environment, environment, interpreters, pack_environment
from tests.models import executes
from tests.serving import Lab, eventually, instances, stub_processes
from tritonlab.__main__ import main
from tritonlab.core.status import ModelLoadError
from tritonlab.ipc.processes.own_stub import NAME
from tritonlab.server.api.model import Model

TELLING = executes(
    """
    responses = []
    for request in requests:
        value = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
        facts = np.array([json.dumps(self.facts)], dtype=object)
        outputs = [pb_utils.Tensor("OUT", facts), pb_utils.Tensor("SUM", value.sum(keepdims=True))]
        responses.append(pb_utils.InferenceResponse(outputs))
    return responses
    """,
    initialize="""
    names = ("VIRTUAL_ENV", "PATH", "LD_LIBRARY_PATH", "PYTHONHOME", "FROM_ACTIVATE")
    self.facts = {name: os.environ.get(name) for name in names}
    self.facts.update(version="%d.%d" % sys.version_info[:2], prefix=sys.prefix, numpy=np.__file__)
    """,
    imports="import json; import os; import sys",
)
CONFIG = """
backend: "python"
input { name: "IN" data_type: TYPE_FP32 dims: -1 }
output [ { name: "OUT" data_type: TYPE_STRING dims: 1 }, { name: "SUM" data_type: TYPE_FP32 dims: 1 } ]
instance_group { kind: KIND_CPU }
"""


def config(path: str | Path) -> str:
    return CONFIG + f'parameters {{ key: "EXECUTION_ENV_PATH" value: {{ string_value: "{path}" }} }}'


def get_facts(model: Model) -> dict[str, Any]:
    outputs = model(IN=[1.0, 2.0, 3.5])
    assert outputs["SUM"] == 6.5
    found: dict[str, Any] = json.loads(outputs["OUT"][0])
    return found


@rule("2.10.1", "2.10.4")
def test_models_on_every_python_run_side_by_side(lab: Lab) -> None:
    found = {version: environment(version) for version in VERSIONS if version in interpreters()}
    assert len(found) > 1
    models = {v: lab.load(f"py{v.replace('.', '_')}", TELLING, config(path)) for v, path in found.items()}
    for version, model in models.items():
        facts = get_facts(model)
        assert (facts["version"], facts["prefix"]) == (version, str(found[version]))
        assert facts["numpy"].startswith(str(found[version]))
    for model in models.values():
        lab.server.unload(model)


@rule("2.10.4")
def test_what_an_environment_sees(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    venv = environment("3.11")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere/lib")
    monkeypatch.setenv("PYTHONHOME", "")
    facts = get_facts(lab.load("sees", TELLING, config(venv)))
    assert {name: facts[name] for name in ("VIRTUAL_ENV", "PYTHONHOME", "FROM_ACTIVATE")} == {
        "VIRTUAL_ENV": str(venv),
        "PYTHONHOME": None,
        "FROM_ACTIVATE": None,
    }
    assert facts["PATH"] == f"{venv}/bin:{os.environ['PATH']}"
    assert facts["LD_LIBRARY_PATH"] == f"{venv}/lib:/nowhere/lib"
    lab.server.unload("sees")


@rule("2.10.2")
def test_models_share_an_archive_that_goes_with_the_server(tmp_path: Path) -> None:
    archive = pack_environment(environment("3.9"), tmp_path / "env.tar.gz")
    (tmp_path / "repository").mkdir()
    lab = Lab(tmp_path / "repository", warm=0)
    try:
        facts = [get_facts(lab.load(name, TELLING, config(archive))) for name in ("one", "two")]
        assert facts[0]["version"] == "3.9"
        unpacked = Path(facts[0]["prefix"])
        assert facts[0] == facts[1]
        assert (unpacked.name, unpacked.parent.name[:11]) == ("0", "python_env_")
        # changed: the model that is loaded again gets the new one, the other keeps what it runs in
        pack_environment(environment("3.10"), archive)
        (lab.repository / "two" / "1" / "model.py").touch()
        facts = [get_facts(lab.server.load(name)) for name in ("one", "two")]
        assert [s["version"] for s in facts] == ["3.9", "3.10"]
    finally:
        lab.server.stop()
    assert not unpacked.parent.exists()


@rule("2.10.1", "2.10.2")
def test_an_archive_may_lie_in_the_model(lab: Lab) -> None:
    directory = lab.write("packed", TELLING, config("$$TRITON_MODEL_DIRECTORY/env.tar.gz"))
    pack_environment(environment("3.9"), directory / "env.tar.gz")
    facts = get_facts(lab.server.load("packed"))
    assert facts["version"] == "3.9"
    assert facts["VIRTUAL_ENV"] == facts["prefix"]
    lab.server.unload("packed")


def test_an_environment_is_not_taken_from_the_warm_pool(lab: Lab) -> None:
    lab.server.core.pool.wait_warm()
    model = lab.load("cold", TELLING, config(environment("3.11")))
    (process,) = [p for p in stub_processes() if p.pid == instances(model)[0].pid]
    assert process.cmdline()[0] == str(environment("3.11") / "bin" / "python")
    lab.server.unload("cold")


def test_a_stub_that_dies_is_restarted_in_its_environment(lab: Lab) -> None:
    model = lab.load("dies", TELLING, config(environment("3.9")))
    instance = instances(model)[0]
    assert instance.pid is not None
    os.kill(instance.pid, 9)
    eventually(lambda: instance.replacement.count == 1)
    assert get_facts(model)["version"] == "3.9"
    lab.server.unload("dies")


def test_an_environment_without_numpy_says_what_to_install(lab: Lab) -> None:
    venv = bare_environment("3.9")
    lab.write("bare", TELLING, config(venv))
    with pytest.raises(ModelLoadError) as caught:
        lab.server.load("bare")
    text = caught.value.message
    assert "UNAVAILABLE state: Internal: ModuleNotFoundError: No module named 'numpy'\n" in text
    assert f"{venv}/bin/python -m pip install numpy" in text
    lab.server.unload("bare")


def test_a_moved_environment_names_the_python_it_misses(lab: Lab, tmp_path: Path) -> None:
    venv = tmp_path / "env"
    shutil.copytree(bare_environment("3.9"), venv, symlinks=True)
    (venv / "bin" / "python").unlink()
    (venv / "bin" / "python3").unlink()
    (venv / "bin" / "python").symlink_to("/opt/elsewhere/bin/python3.9")
    lab.write("moved", TELLING, config(venv))
    with pytest.raises(ModelLoadError, match="is a link to '/opt/elsewhere/bin/python3\\.9', which"):
        lab.server.load("moved")
    lab.server.unload("moved")


@rule("2.10.6")
def test_a_models_own_stub_runs_it_with_another_python(lab: Lab) -> None:
    directory = lab.write("own", TELLING, CONFIG)
    assert main(["stub", "--python", str(environment("3.9") / "bin" / "python"), str(directory)]) == 0
    (directory / NAME).chmod(0o644)  # as a cloud store hands it out
    facts = get_facts(lab.server.load("own"))
    assert (facts["version"], facts["VIRTUAL_ENV"]) == ("3.9", os.environ.get("VIRTUAL_ENV"))
    assert main(["stub", "--python", sys.executable, str(directory)]) == 0
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert get_facts(lab.server.load("own"))["version"] == own, "the next load has the next stub"
    lab.server.unload("own")


@rule("2.10.6")
def test_a_models_own_stub_runs_in_its_environment(lab: Lab) -> None:
    venv = environment("3.9")
    directory = lab.write("both", TELLING, config(venv))
    (directory / NAME).write_text('#!/bin/sh\nexec python3 "$@"\n')
    facts = get_facts(lab.server.load("both"))
    assert (facts["version"], facts["prefix"]) == ("3.9", str(venv))
    lab.server.unload("both")


def test_a_stub_that_is_not_one_fails_the_load_with_what_it_printed(lab: Lab) -> None:
    directory = lab.write("broken", TELLING, CONFIG)
    (directory / NAME).write_text("#!/bin/sh\necho I am no stub >&2\nexit 3\n")
    with pytest.raises(ModelLoadError, match="is not a Python that runs here: I am no stub"):
        lab.server.load("broken")
    (directory / NAME).write_bytes(b"\x7fELF\x02\x01\x01")
    lab.server.load("broken")  # one compiled for Triton is kept for it, and ours runs the model
    lab.server.unload("broken")
