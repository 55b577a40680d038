"""Python-based backends, file names and the parameters that a backend reads: which code runs a model, and how it sees
itself."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.interpreters import pack_environment
from tests.models import answers
from tritonlab.core.status import InvalidArgumentError

from .clients import Client, Failure, Files
from .lab_client import LabClient
from .models import config, model
from .real_client import RealClient
from .reference import VENV, ReferenceServer, backend_directory, missing
from .rules import rule
from .test_load import ANSWERING, ANSWERING_CONFIG, answer_of

#: Answers with all that a model can find out about where it is.
WHERE = ANSWERING.format(
    "added = [p for p in sys.path if 'backends' in p or 'repository' in p or p == '']\n"
    "        config = json.loads(args.pop('model_config'))\n"
    "        keys = ('backend', 'runtime', 'platform', 'default_model_filename')\n"
    "        config = {key: config[key] for key in keys}\n"
    "        self.answer = [args, config, __name__, __file__, sys.argv, added, pb_utils.get_model_dir()]"
)
#: Answers with what the helper module beside it is.
HELPED = "import helper\n" + ANSWERING.format("self.answer = helper.WHERE")
LAZY = "class TritonPythonModel:\n    pass\n"

BACKENDS: dict[str, Files] = {
    "mine": {"model.py": WHERE, "helper.py": "WHERE = 'the backend'\n"},
    "of.mine": {"model.py": WHERE},
    "helped": {"model.py": HELPED, "helper.py": "WHERE = 'the backend'\n"},
    "lazy": {"model.py": LAZY},
    "broken": {"model.py": "def broken(:\n"},
    "raises": {
        "model.py": "class TritonPythonModel:\n    def initialize(self, args):\n        raise ValueError('x')\n"
    },
    "nomodel": {"readme.txt": ""},
    "packed": {"model.py": ANSWERING.format("self.answer = [sys.prefix, open(sys.prefix + '/mark').read()]")},
    # found before the stock one, because the backend's directory comes first on sys.path (rule 2.11.3)
    "utils": {
        "model.py": ANSWERING.format("self.answer = pb_utils.MARK"),
        "triton_python_backend_utils.py": "<the stock module>\nMARK = 'of the backend'\n",
    },
}


def place_backends(directory: Path, stock: Path) -> None:
    for name, files in BACKENDS.items():
        for path, text in files.items():
            assert isinstance(text, str)
            target = directory / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text.replace("<the stock module>", stock.read_text()))


@pytest.fixture(scope="module", params=["real", "lab"])
def side(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Start a server whose backend directory holds BACKENDS, `backends` beside its `repository`."""
    if (why := missing()) is not None:
        pytest.skip(why)  # both sides use the utils module of its wheel
    root = tmp_path_factory.mktemp(request.param)
    repository, backends = root / "repository", root / "backends"
    repository.mkdir()
    place_backends(backends, backend_directory() / "python" / "triton_python_backend_utils.py")
    pack_environment(VENV, backends / "packed" / "pb_exec_env_model.py.tar.gz", mark="of the backend")
    if request.param == "real":
        shutil.copytree(backend_directory() / "python", backends / "python")
        with ReferenceServer(repository, root, [f"--backend-directory={backends}"]) as server:
            real = RealClient(server)
            yield real
            real.close()
    else:
        lab = LabClient(repository, backend_directory=backends)
        yield lab
        lab.close()


def with_named_paths(side: Client, value: Any) -> Any:
    """Return `value` with the paths that differ between the sides named by what they are."""
    text = side.plain(json.dumps(value)).replace(str(side.repository.parent / "backends"), "<backends>")
    return json.loads(text)


def based(backend: str, *rest: str) -> str:
    """Return a config.pbtxt for a model of a Python-based backend."""
    return ANSWERING_CONFIG.replace('"python"', f'"{backend}"') + "\n".join(rest)


def reason(side: Client, name: str, files: Files) -> str:
    """Return why the version could not be loaded: `<Code>: <text>`."""
    failure = side.placed(name, files)
    side.unload(name)
    assert failure is not None
    text: str = with_named_paths(side, failure.text)
    head, tail = f"load failed for model '{name}': version 1 is at UNAVAILABLE state: ", ";\n"
    assert failure.code == "INVALID_ARG" and text.startswith(head) and text.endswith(tail), text
    return text.removeprefix(head).removesuffix(tail)


@rule("2.11.1", "2.11.2", "1.1.5", "2.1.5")
@pytest.mark.parametrize(
    "files",
    [
        {"1/empty": "", "config.pbtxt": based("mine")},
        # what the model directory holds is not looked at
        {"1/model.py": "raise ValueError('not imported')", "1/helper.py": "", "config.pbtxt": based("mine")},
        {"1/empty": "", "config.pbtxt": based("mine", 'runtime: "model.py"')},
    ],
    ids=["no model.py", "a model.py that is ignored", "runtime given"],
)
def test_a_backend_runs_a_model_that_has_no_code(side: Client, files: Files) -> None:
    assert side.placed("m", files) is None
    args, known, name, file, argv, added, directory = with_named_paths(side, answer_of(side, "m"))
    assert args == {
        "model_instance_kind": "CPU",
        "model_instance_name": "m_0_0",
        "model_instance_device_id": "0",
        "model_repository": "<repository>/m",
        "model_version": "1",
        "model_name": "m",
    }
    assert known == {"backend": "mine", "runtime": "model.py", "platform": "", "default_model_filename": ""}
    assert (name, file, argv) == ("model", "<backends>/mine/model.py", [""])
    # the last one of the real side is its Python backend's directory; ours lies elsewhere
    assert [p for p in added if p != "<backends>/python"] == ["", "<backends>/mine"]
    assert directory == "<repository>/m/1"
    found = side.config("m")
    assert not isinstance(found, Failure)
    assert {key: found[key] for key in known} == known
    metadata = side.metadata("m")
    assert not isinstance(metadata, Failure)
    assert metadata["platform"] == "mine"
    side.unload("m")


@rule("2.11.1")
@pytest.mark.parametrize("file", ["other.py", "no_python.txt"])
def test_a_backends_models_may_name_any_file(side: Client, file: str) -> None:
    files = {"1/empty": "", "config.pbtxt": based("mine", f'default_model_filename: "{file}"')}
    assert side.placed("m", files) is None
    assert with_named_paths(side, answer_of(side, "m"))[3] == "<backends>/mine/model.py"
    side.unload("m")


@rule("5.1.2", "2.11.1")
@pytest.mark.parametrize(("name", "backend"), [("m.mine", "mine"), ("m.of.mine", "of.mine")])
def test_a_backend_may_be_chosen_by_the_models_name(side: Client, name: str, backend: str) -> None:
    assert (
        side.placed(name, {"1/empty": "", "config.pbtxt": based(backend).replace(f'backend: "{backend}"', "")}) is None
    )
    known = with_named_paths(side, answer_of(side, name))[1]
    assert (known["backend"], known["default_model_filename"]) == (backend, f"model.{backend}")
    side.unload(name)


@rule("2.11.2")
def test_a_backends_helper_modules_stand_beside_its_model(side: Client) -> None:
    files = {"1/helper.py": "WHERE = 'the version'\n", "helper.py": "WHERE = 'the model'\n"}
    assert side.placed("m", {**files, "config.pbtxt": based("helped")}) is None
    assert answer_of(side, "m") == "the backend"
    side.unload("m")


@rule("2.11.3")
def test_a_backends_own_utils_module_is_the_one_it_imports(side: Client) -> None:
    assert side.placed("m", {"1/empty": "", "config.pbtxt": based("utils")}) is None
    assert answer_of(side, "m") == "of the backend"
    side.unload("m")


@rule("2.11.3")
def test_a_backend_may_bring_an_environment(side: Client) -> None:
    assert side.placed("m", {"1/empty": "", "config.pbtxt": based("packed")}) is None
    prefix, mark = answer_of(side, "m")
    assert (Path(prefix).parent.name[:11], mark) == ("python_env_", "of the backend")
    found = side.config("m")
    assert not isinstance(found, Failure)
    path = {"EXECUTION_ENV_PATH": {"string_value": "<backends>/packed/pb_exec_env_model.py.tar.gz"}}
    assert with_named_paths(side, found["parameters"]) == path
    side.unload("m")


@rule("2.1.5")
def test_a_models_own_utils_module_is_the_one_it_imports(side: Client) -> None:
    stock = (backend_directory() / "python" / "triton_python_backend_utils.py").read_text()
    source = ANSWERING.format("self.answer = pb_utils.MARK")
    files = {"triton_python_backend_utils.py": stock + "\nMARK = 'of the model'\n"}
    assert side.placed("m", {**model(source, ANSWERING_CONFIG), **files}) is None
    assert answer_of(side, "m") == "of the model"
    side.unload("m")


@rule("2.11.1", "2.1.6")
def test_many_models_share_a_backend(side: Client) -> None:
    files: Files = {"1/empty": "", "config.pbtxt": based("mine")}
    assert set(side.load_all({"a": files, "b": files}).values()) == {None}
    assert [with_named_paths(side, answer_of(side, name))[0]["model_name"] for name in ("a", "b")] == ["a", "b"]
    for name in ("a", "b"):
        side.unload(name)


@rule("2.1.7", "2.11.2")
def test_a_backend_without_execute_loads_and_is_named_in_the_error(side: Client) -> None:
    assert side.placed("m", {"1/empty": "", "config.pbtxt": based("lazy")}) is None
    answer = side.infer("m", {"IN": np.zeros(1, dtype=np.int32)})
    assert with_named_paths(side, answer.error) == (
        "Failed to process the request(s) for model 'm_0_0', message: "
        "Python model <backends>/lazy/model.py does not implement `execute` method."
    )
    side.unload("m")


#: config.pbtxt of a model with an empty version directory -> why it does not load
NOT_FOUND = {
    "no such backend": (
        based("nope"),
        "Invalid argument: unable to find backend library for backend 'nope', try specifying runtime on the model"
        " configuration.",
    ),
    "a directory without model.py": (
        based("nomodel"),
        "Invalid argument: unable to find backend library for backend 'nomodel', try specifying runtime on the model"
        " configuration.",
    ),
    "the same, runtime given": (
        based("nomodel", 'runtime: "model.py"'),
        "Invalid argument: unable to find Python backend based backend library 'model.py' for model 'm', searched:"
        " '<backends>/nomodel/model.py'",
    ),
    "the python backend is no such backend": (
        based("python", 'runtime: "model.py"'),
        "Invalid argument: unable to find Python backend based backend library 'model.py' for model 'm', searched:"
        " '<backends>/python/model.py'",
    ),
    "a backend of 5,000 letters": (
        based("x" * 5000),
        f"Invalid argument: unable to find backend library for backend '{'x' * 5000}', try specifying runtime on the"
        " model configuration.",
    ),
    "an unknown runtime": (
        based("mine", 'runtime: "other.py"'),
        "Invalid argument: unable to find backend library 'other.py' for model 'm', searched: '<repository>/m/1'"
        " '<repository>/m' '<backends>/mine' ",
    ),
    "an unknown library": (
        based("python", 'runtime: "libtriton_nope.so"'),
        "Invalid argument: unable to find backend library 'libtriton_nope.so' for model 'm', searched:"
        " '<repository>/m/1' '<repository>/m' '<backends>/python' ",
    ),
    "a syntax error": (based("broken"), "Internal: SyntaxError: invalid syntax (model.py, line 1)"),
    "initialize raises": (
        based("raises"),
        "Internal: ValueError: x\n\nAt:\n  <backends>/raises/model.py(3): initialize\n",
    ),
}


@rule("2.5.7", "2.11.4", "2.5.2")
@pytest.mark.parametrize("case", NOT_FOUND)
def test_a_backend_that_cannot_be_used_says_why(side: Client, case: str) -> None:
    text, expected = NOT_FOUND[case]
    assert reason(side, "m", {"1/empty": "", "config.pbtxt": text}) == expected


@rule("2.11.4")
def test_a_runtime_that_leads_out_of_its_directory_is_refused(side: Client) -> None:
    (side.repository.parent / "backends" / "python").mkdir(exist_ok=True)
    files = {"1/empty": "", "config.pbtxt": based("python", 'runtime: "../mine/model.py"')}
    assert reason(side, "m", files) == (
        "Invalid argument: backend library name '../mine/model.py' escapes backend directory '<backends>/python', for"
        " model 'm', check model config runtime field"
    )


@rule("2.11.4")
def test_the_python_backends_library_may_be_named(side: Client) -> None:
    text = ANSWERING_CONFIG + 'runtime: "libtriton_python.so"'
    assert side.placed("m", model(ANSWERING.format("self.answer = __name__"), text)) is None
    assert answer_of(side, "m") == "1.model"
    side.unload("m")


@rule("2.1.2", "2.1.4")
@pytest.mark.parametrize(
    ("file", "name", "directory", "added"),
    [
        ("my_model.py", "1.my_model", "<repository>/m/1", ["<repository>/m/1", "<repository>/m"]),
        # whatever directory the file is in counts as the version's
        ("sub/model.py", "sub.model", "<repository>/m/1/sub", ["<repository>/m/1/sub", "<repository>/m/1"]),
    ],
)
def test_the_models_file_may_have_another_name(
    side: Client, file: str, name: str, directory: str, added: list[str]
) -> None:
    text = ANSWERING_CONFIG + f'default_model_filename: "{file}"'
    assert side.placed("m", {f"1/{file}": WHERE, "config.pbtxt": text}) is None
    _, _, found_name, found_file, _, found_added, found_directory = with_named_paths(side, answer_of(side, "m"))
    assert (found_name, found_file, found_directory) == (name, f"<repository>/m/1/{file}", directory)
    assert [p for p in found_added if p.startswith("<repository>")] == added
    side.unload("m")


@rule("2.1.2")
def test_a_dot_in_the_file_name_is_a_package_that_is_not_there(side: Client) -> None:
    text = ANSWERING_CONFIG + 'default_model_filename: "my.model.py"'
    found = reason(side, "m", {"1/my.model.py": WHERE, "config.pbtxt": text})
    assert found == "Internal: ModuleNotFoundError: No module named '1.my'"


CPU_ONLY = 'parameters {{ key: "FORCE_CPU_ONLY_INPUT_TENSORS" value: {{ string_value: "{}" }} }}'


@rule("2.12.1")
@pytest.mark.parametrize("value", ["maybe", "", "YES"])
def test_another_word_than_yes_or_no_is_refused(side: Client, value: str) -> None:
    files = model(ANSWERING.format("self.answer = 1"), ANSWERING_CONFIG + CPU_ONLY.format(value))
    assert reason(side, "m", files) == f"Unsupported: Incorrect value for FORCE_CPU_ONLY_INPUT_TENSORS: {value}'"


@rule("2.12.1", "2.12.2")
@pytest.mark.parametrize("value", ["yes", "no"])
def test_without_a_gpu_all_inputs_are_in_cpu_memory(side: Client, value: str) -> None:
    source = answers("np.array([all(tensor.is_cpu() for tensor in request.inputs())])")
    text = config("IN FP32 -1; TEXT STRING -1", "OUT BOOL 1") + CPU_ONLY.format(value)
    assert side.placed("m", model(source, text)) is None
    inputs = {"IN": np.zeros(3, dtype=np.float32), "TEXT": np.array([b"x"], dtype=np.object_)}
    assert side.infer("m", inputs).outputs["OUT"].tolist() == [True]
    side.unload("m")


@rule("2.1.5")
def test_the_working_directory_is_looked_into_first(side: Client) -> None:
    source = ANSWERING.format("self.answer = [sys.path.index(''), os.getcwd()]")
    assert side.placed("m", model(source, ANSWERING_CONFIG)) is None
    assert answer_of(side, "m") == [0, str(Path.cwd())]
    side.unload("m")


#: Settings of the Python backend that are refused, and the text.
SETTINGS = {
    "shm-default-byte-size=1048575": "shm-default-byte-size can't be smaller than 4 MiBs",
    "shm-growth-byte-size=0": "shm-growth-byte-size can't be smaller than or equal to zero.",
    "stub-timeout-seconds=0": "stub-timeout-seconds can't be smaller than or equal to zero.",
    "thread-pool-size=0": "thread-pool-size can't be less than 1.",
}


@rule("2.9")
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_wrong_setting_fails_every_load_of_triton_and_the_server_here(
    real: Client, tmp_path: Path, setting: str
) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    with ReferenceServer(repository, tmp_path, [f"--backend-config=python,{setting}"]) as server:
        real = RealClient(server)
        found = reason(real, "m", model(ANSWERING.format("self.answer = 1"), ANSWERING_CONFIG))
        real.close()
    assert found == f"Invalid argument: {SETTINGS[setting]}"
    key, _, value = setting.partition("=")
    with pytest.raises(InvalidArgumentError) as caught:
        LabClient(repository, backend_config={key: value})
    assert caught.value.message == SETTINGS[setting]
