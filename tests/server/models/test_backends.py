from __future__ import annotations

import importlib.util
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.rules import rule
from tritonlab.core.config.model_config import ModelConfig
from tritonlab.core.status import Code, TritonError
from tritonlab.engine.life.model_stub import ModelSource
from tritonlab.ipc.processes.interpreter import Interpreter
from tritonlab.ipc.processes.own_stub import NAME as STUB
from tritonlab.ipc.processes.own_stub import write_own_stub
from tritonlab.ipc.processes.stub_launcher import KERNEL
from tritonlab.server.models.backend_choice import PARAMETER, BackendChoices
from tritonlab.server.models.backends import SHIPPED, Backends, MissingBackend, force_cpu_only

FILE = "model.py"


class Place:
    """A backend directory and one model directory."""

    def __init__(self, directory: Path) -> None:
        self.backends = directory / "backends"
        self.model = directory / "repository" / "m"
        (self.model / "1").mkdir(parents=True)
        self.found = Backends(self.backends)

    def backend(self, name: str, *files: str) -> Path:
        home = self.backends / name
        home.mkdir(parents=True)
        for file in files:
            (home / file).write_text("")
        return home

    def environment(self, path: Path) -> Path:
        (path / "bin").mkdir(parents=True)
        for name in ("activate", "python"):
            (path / "bin" / name).write_text("")
        return path

    def resolve(self, backend: str, parameters: dict[str, str] | None = None, **fields: str) -> ModelSource:
        self.config = ModelConfig(name="m", backend=backend, **fields)
        for key, value in (parameters or {}).items():
            self.config.parameters[key].string_value = value
        self.config, source = self.found.resolve(self.config, self.model, 1)
        return source

    def fails(self, backend: str, parameters: dict[str, str] | None = None, **fields: str) -> tuple[Code, str]:
        with pytest.raises(TritonError) as caught:
            self.resolve(backend, parameters, **fields)
        return caught.value.code, caught.value.message


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.found.close()


@rule("2.1.4", "2.1.5")
def test_the_python_backend_needs_no_directory(place: Place) -> None:
    source = place.resolve("python", default_model_filename=FILE)
    assert source == ModelSource(
        model="m",
        version=1,
        module="1.model",
        path=f"{place.model}/1/model.py",
        paths=(f"{place.model}/1", str(place.model)),
        model_dir=f"{place.model}/1",
        interpreter=KERNEL,
    )
    assert (place.config.runtime, place.config.backend) == ("", "python")


@rule("2.1.2")
def test_another_file_name_names_the_module(place: Place) -> None:
    assert place.resolve("python", default_model_filename="my_model.py").module == "1.my_model"


@rule("2.1.2")
def test_directories_in_the_file_name_move_the_model(place: Place) -> None:
    source = place.resolve("python", default_model_filename="sub/model.py")
    assert (source.module, source.model_dir) == ("sub.model", f"{place.model}/1/sub")
    assert source.paths == (f"{place.model}/1/sub", f"{place.model}/1")


@rule("2.1.2")
@pytest.mark.parametrize("name", ["my_model.txt", "modelpy", ""])
def test_a_file_name_that_is_no_python_is_refused(place: Place, name: str) -> None:
    text = f"Model name must end with '.py'. Model name is \"{name}\"."
    assert place.fails("python", default_model_filename=name) == (Code.INTERNAL, text)


def test_the_models_path_may_be_relative(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.model.parent)
    config = ModelConfig(name="m", backend="python", default_model_filename=FILE)
    source = place.found.resolve(config, Path("m"), 1)[1]
    assert (source.path, source.paths, source.model_dir) == (f"{place.model}/1/model.py", ("m/1", "m"), "m/1")


@rule("2.11.1", "2.11.2")
def test_a_directory_with_a_model_file_is_a_backend(place: Place) -> None:
    home = place.backend("mine", FILE)
    source = place.resolve("mine", default_model_filename="ignored.txt")
    assert (source.module, source.path, source.paths) == ("model", f"{home}/model.py", (str(home),))
    assert source.model_dir == f"{place.model}/1"
    assert place.config.runtime == "model.py"


def test_the_callers_configuration_is_not_changed(place: Place) -> None:
    place.backend("mine", FILE, "pb_exec_env_model.py.tar.gz")
    config = ModelConfig(name="m", backend="mine")
    with pytest.raises(TritonError):
        place.found.resolve(config, place.model, 1)
    assert config == ModelConfig(name="m", backend="mine")


@rule("2.5.7")
def test_no_backend_of_the_name(place: Place) -> None:
    assert place.fails("nope") == (
        Code.INVALID_ARG,
        "unable to find backend library for backend 'nope', try specifying runtime on the model configuration.",
    )


@rule("2.11.4")
def test_an_unknown_runtime_says_where_it_was_looked_for(place: Place) -> None:
    home = place.backend("mine", FILE)
    assert place.fails("mine", runtime="other.py") == (
        Code.INVALID_ARG,
        f"unable to find backend library 'other.py' for model 'm', searched: '{place.model}/1' '{place.model}' "
        f"'{home}' ",
    )


@rule("2.11.4")
@pytest.mark.parametrize("backend", ["nomodel", "python"])
def test_the_runtime_of_a_backend_without_a_model_file(place: Place, backend: str) -> None:
    home = place.backend(backend)
    assert place.fails(backend, runtime="model.py") == (
        Code.INVALID_ARG,
        f"unable to find Python backend based backend library 'model.py' for model 'm', searched: '{home}/model.py'",
    )


def test_the_python_backends_own_library_may_be_named(place: Place) -> None:
    source = place.resolve("python", runtime="libtriton_python.so", default_model_filename=FILE)
    assert source.module == "1.model"


@rule("2.11.4")
def test_a_runtime_may_not_lead_elsewhere(place: Place) -> None:
    place.backend("mine", FILE)
    python = place.backend("python")
    assert place.fails("python", runtime="../mine/model.py") == (
        Code.INVALID_ARG,
        f"backend library name '../mine/model.py' escapes backend directory '{python}', for model 'm', check model "
        "config runtime field",
    )


@rule("2.11.5")
def test_a_compiled_backend_comes_first_and_cannot_be_run(place: Place) -> None:
    home = place.backend("onnxruntime", FILE, "libtriton_onnxruntime.so")
    code, text = place.fails("onnxruntime")
    assert code is Code.UNSUPPORTED
    assert text.startswith(f"model 'm' is run by the compiled backend '{home}/libtriton_onnxruntime.so'")


@rule("2.11.3")
def test_a_backend_may_bring_an_environment_for_models_that_have_none(place: Place) -> None:
    home = place.backend("mine", FILE)
    with tarfile.open(home / "pb_exec_env_model.py.tar.gz", "w:gz") as tar:
        tar.add(place.environment(place.backends.parent / "env") / "bin", "bin")
    packed = place.resolve("mine").interpreter.environment
    assert "python_env_" in packed
    assert place.config.parameters["EXECUTION_ENV_PATH"].string_value == f"{home}/pb_exec_env_model.py.tar.gz"
    own = place.environment(place.model / "env")
    source = place.resolve("mine", {"EXECUTION_ENV_PATH": "$$TRITON_MODEL_DIRECTORY/env"})
    assert source.interpreter == Interpreter(f"{own}/bin/python", str(own))
    assert place.resolve("mine", {"EXECUTION_ENV_PATH": ""}).interpreter == KERNEL


@rule("2.10.3")
def test_an_environment_that_cannot_be_used_fails_the_load(place: Place) -> None:
    code, text = place.fails("python", {"EXECUTION_ENV_PATH": "/nowhere"}, default_model_filename=FILE)
    assert (code, text) == (Code.INTERNAL, "Failed to get the canonical path for /nowhere.")


@rule("2.10.6")
def test_the_models_own_stub_is_the_interpreter(place: Place) -> None:
    own = write_own_stub(place.model, "/usr/bin/python3.9")
    assert place.resolve("python", default_model_filename=FILE).interpreter == Interpreter(str(own))
    environment = place.environment(place.model / "env")
    (environment / "bin" / "python").unlink()  # not needed then
    source = place.resolve("python", {"EXECUTION_ENV_PATH": str(environment)}, default_model_filename=FILE)
    assert source.interpreter == Interpreter(str(own), str(environment))


@rule("2.11.3")
def test_a_backends_own_stub_counts_only_with_its_own_utils(place: Place) -> None:
    home = place.backend("mine", FILE)
    own = write_own_stub(home, "/usr/bin/python3.9")
    assert place.resolve("mine").interpreter == KERNEL
    (home / "triton_python_backend_utils.py").write_text("")
    assert place.resolve("mine").interpreter == Interpreter(str(own))
    models = write_own_stub(place.model, "/usr/bin/python3.10")
    assert place.resolve("mine").interpreter == Interpreter(str(models))


def test_a_compiled_stub_is_passed_over(place: Place) -> None:
    (place.model / STUB).write_bytes(b"\x7fELF")
    assert place.resolve("python", default_model_filename=FILE).interpreter == KERNEL


@rule("2.12.1")
@pytest.mark.parametrize(("value", "expected"), [(None, True), ("yes", True), ("no", False)])
def test_inputs_are_forced_to_the_cpu_unless_no(value: str | None, expected: bool) -> None:
    config = ModelConfig()
    if value is not None:
        config.parameters["FORCE_CPU_ONLY_INPUT_TENSORS"].string_value = value
    assert force_cpu_only(config) is expected
    assert len(config.parameters) == (value is not None)


@rule("2.12.1")
@pytest.mark.parametrize("value", ["maybe", "", "YES"])
def test_another_value_is_refused_with_tritons_stray_quote(place: Place, value: str) -> None:
    found = place.fails("python", {"FORCE_CPU_ONLY_INPUT_TENSORS": value}, default_model_filename=FILE)
    assert found == (Code.UNSUPPORTED, f"Incorrect value for FORCE_CPU_ONLY_INPUT_TENSORS: {value}'")


@rule("2.13.1")
def test_a_backend_of_this_package_answers_unless_the_directory_has_one(place: Place) -> None:
    source = place.resolve("identity")
    assert source.path == str(SHIPPED / "identity" / FILE) and source.model_dir == f"{place.model}/1"
    assert (place.config.runtime, dict(place.config.parameters)) == ("", {})
    (place.backend("identity") / "libtriton_identity.so").write_text("")
    assert place.resolve("identity").path == str(SHIPPED / "identity" / FILE)
    (place.backends / "identity" / FILE).write_text("")
    (place.backends / "identity" / "libtriton_identity.so").unlink()
    assert place.resolve("identity").path == f"{place.backends}/identity/{FILE}"
    assert place.config.runtime == FILE


@rule("2.13.1")
def test_a_missing_backend_says_what_can_be_chosen(place: Place) -> None:
    with pytest.raises(MissingBackend) as caught:
        place.resolve("tensorrt")
    assert str(caught.value) == (
        "unable to find backend library for backend 'tensorrt', try specifying runtime on the model configuration."
    )
    assert 'tritonlab.reset(backends={"m": "stand-in"})' in caught.value.offer


def test_a_backend_whose_package_is_not_installed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingBackend) as caught:
        place.resolve("onnxruntime")
    assert caught.value.offer.startswith("pip install 'tritonlab[onnx]' runs it here. Choose what answers for 'm': ")


@rule("2.13.4")
def test_what_answers_in_the_place_of_a_backend_runs_here(place: Place) -> None:
    place.found = Backends(place.backends, choices=BackendChoices({"tensorrt": "stand-in", "m": "borrow:h:1"}))
    config = ModelConfig(name="other", backend="tensorrt", runtime="libtriton_tensorrt.so")
    config.instance_group.add(kind="KIND_GPU", count=2, gpus=[3])
    config.dynamic_batching.max_queue_delay_microseconds = 5
    filled, source = place.found.resolve(config, place.model, 1)
    assert source.path == str(SHIPPED / "stand_in" / FILE) and source.interpreter == KERNEL
    assert [(group.kind, group.count, list(group.gpus)) for group in filled.instance_group] == [(2, 2, [])]
    assert filled.HasField("dynamic_batching") and PARAMETER in filled.parameters and not filled.runtime
    config.name = "m"
    filled, source = place.found.resolve(config, place.model, 1)
    assert source.path == str(SHIPPED / "elsewhere" / FILE)
    assert not filled.HasField("dynamic_batching") and PARAMETER not in config.parameters
