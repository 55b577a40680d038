"""The platform, backend and file name that a configuration gets for backends that Triton knows by name. Here they
are Python-based backends, so that both sides can serve them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from .clients import Client, Failure, Files
from .lab_client import LabClient
from .real_client import RealClient
from .reference import ReferenceServer, backend_directory, missing
from .rules import rule

#: of every backend, and of the models for which a model.py tells it
SOURCE = "class TritonPythonModel:\n    def execute(self, requests):\n        pass\n"
BACKENDS = ("dali", "mine", "onnxruntime", "openvino", "pytorch", "tensorflow", "tensorflow1", "tensorrt")


class Case(NamedTuple):
    """A model directory and what is served of it: config.pbtxt, the files beside it, and the platform, backend and
    default_model_filename that are served; or the text of the refusal. `name`: the model's, where it matters."""

    config: str
    files: tuple[str, ...]
    found: tuple[str, str, str] | str
    name: str = ""


NO_PAIR = "unexpected 'platform' and 'backend' pair, got:{}, {}"
NO_BACKEND = (
    "Invalid model name: Could not determine backend for model '{m}' with no backend in model configuration. Expected "
    "model name of the form 'model.<backend_name>'."
)
NO_PLATFORM = "unexpected platform type '' for {m}"
ONNX = ("onnxruntime_onnx", "onnxruntime", "model.onnx")
TORCH = ("pytorch_libtorch", "pytorch", "model.pt")
PLAN = ("tensorrt_plan", "tensorrt", "model.plan")
XML = ("", "openvino", "model.xml")
GRAPH = ("tensorflow_graphdef", "tensorflow", "model.graphdef")
SAVED = ("tensorflow_savedmodel", "tensorflow", "model.savedmodel")

CASES = [
    # a backend that knows one platform
    Case('backend: "onnxruntime"', (), ONNX),
    Case('backend: "onnxruntime"', ("1/model.plan",), ONNX),
    Case('backend: "onnxruntime" default_model_filename: "foo"', (), (*ONNX[:2], "foo")),
    Case('backend: "pytorch"', (), TORCH),
    Case('backend: "pytorch"', ("1/model.py",), TORCH),
    Case('backend: "pytorch" default_model_filename: "model.py"', (), (*TORCH[:2], "model.py")),
    Case('backend: "pytorch" runtime: "model.py"', (), (*TORCH[:2], "")),
    Case('platform: "pytorch_libtorch" runtime: "model.py"', (), (*TORCH[:2], "")),
    Case('backend: "onnxruntime" runtime: "model.py"', (), ONNX),
    Case('backend: "tensorrt"', ("1/model.onnx",), PLAN),
    Case('backend: "openvino"', (), XML),
    Case('backend: "openvino" default_model_filename: "foo"', (), ("", "openvino", "foo")),
    # the one that knows two is chosen by its file
    Case('backend: "tensorflow"', (), NO_PAIR.format("", "tensorflow")),
    Case('backend: "tensorflow"', ("1/model.graphdef",), GRAPH),
    Case('backend: "tensorflow"', ("1/model.graphdef/x",), NO_PAIR.format("", "tensorflow")),
    Case('backend: "tensorflow"', ("1/model.savedmodel/x",), SAVED),
    Case('backend: "tensorflow"', ("1/model.savedmodel",), NO_PAIR.format("", "tensorflow")),
    Case('backend: "tensorflow"', ("1/model.graphdef", "1/model.savedmodel/x"), GRAPH),
    Case('backend: "tensorflow"', ("1/empty", "2/model.graphdef"), NO_PAIR.format("", "tensorflow")),
    Case('backend: "tensorflow" default_model_filename: "model.savedmodel"', ("1/model.graphdef",), SAVED),
    Case('backend: "tensorflow" default_model_filename: "model.graphdef"', (), GRAPH),
    Case('backend: "tensorflow" default_model_filename: "x"', ("1/model.graphdef",), NO_PAIR.format("", "tensorflow")),
    # backends that have no platform
    Case('backend: "dali"', ("1/model.dali",), ("", "dali", "")),
    Case('backend: "dali" default_model_filename: "model.onnx"', (), ("", "dali", "model.onnx")),
    Case('backend: "tensorflow1"', ("1/model.graphdef",), ("", "tensorflow1", "")),
    # the platform alone
    Case('platform: "onnxruntime_onnx"', (), ONNX),
    Case('platform: "pytorch_libtorch"', (), TORCH),
    Case('platform: "tensorrt_plan"', (), PLAN),
    Case('platform: "tensorflow_graphdef"', (), GRAPH),
    Case('platform: "tensorflow_savedmodel"', ("1/model.graphdef",), SAVED),
    Case('platform: "tensorflow_savedmodel" default_model_filename: "foo"', (), (*SAVED[:2], "foo")),
    Case('platform: "openvino"', (), "unexpected platform type 'openvino' for {m}"),
    Case('platform: "onnxruntime"', (), "unexpected platform type 'onnxruntime' for {m}"),
    # both
    Case('platform: "onnxruntime_onnx" backend: "onnxruntime"', (), ONNX),
    Case('platform: "onnxruntime_onnx" backend: "pytorch"', (), NO_PAIR.format("onnxruntime_onnx", "pytorch")),
    Case('platform: "onnxruntime" backend: "onnxruntime"', (), NO_PAIR.format("onnxruntime", "onnxruntime")),
    Case('platform: "foo" backend: "tensorflow"', (), NO_PAIR.format("foo", "tensorflow")),
    Case('platform: "foo" backend: "openvino"', (), ("foo", "openvino", "model.xml")),
    Case('platform: "onnxruntime_onnx" backend: "mine"', (), ("onnxruntime_onnx", "mine", "")),
    Case('platform: "tensorflow_graphdef" backend: "mine"', (), ("tensorflow_graphdef", "mine", "model.graphdef")),
    Case('platform: "tensorflow_foo" backend: "mine"', (), ("tensorflow_foo", "mine", "")),
    # neither: the file name that is given, whatever lies there
    Case('default_model_filename: "model.onnx"', ("1/model.graphdef",), ONNX),
    Case('default_model_filename: "model.pt"', (), TORCH),
    Case('default_model_filename: "model.pt" runtime: "model.py"', (), TORCH),
    Case('default_model_filename: "model.savedmodel"', ("1/model.savedmodel",), SAVED),
    Case('default_model_filename: "foo.onnx"', ("1/foo.onnx",), NO_PLATFORM),
    Case('default_model_filename: "model.mine"', (), NO_PLATFORM),
    # or what lies there
    Case("", ("1/model.graphdef", "1/model.savedmodel/x", "1/model.plan"), GRAPH),
    Case("", ("1/model.graphdef/x",), NO_BACKEND),
    Case("", ("1/model.savedmodel/x", "1/model.py"), SAVED),
    Case("", ("1/model.savedmodel", "1/model.onnx"), ONNX),
    Case("", ("1/model.onnx", "1/model.plan"), PLAN),
    Case("", ("1/model.plan/x",), NO_BACKEND),
    Case("", ("1/model.onnx/x",), ONNX),
    Case("", ("1/model.onnx", "1/model.xml"), ONNX),
    Case("", ("1/model.xml/x", "1/model.pt"), XML),
    Case("", ("1/model.pt", "1/model.py"), TORCH),
    Case("", ("1/model.pt/x",), NO_BACKEND),
    Case('runtime: "model.py"', ("1/model.pt",), (*TORCH[:2], "")),
    Case("", ("1/model.dali", "1/model.py"), ("", "python", "model.py")),
    # or the model's name, which tells no platform
    Case("", (), NO_PAIR.format("", "onnxruntime"), "m.onnxruntime"),
    Case("", (), ("", "openvino", "model.openvino"), "m.openvino"),
    Case("", ("1/model.pt",), TORCH, "n.onnxruntime"),
]


@pytest.fixture(scope="module", params=["real", "lab"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[object]]:
    """Return for each case, in order, its platform, backend, file name and the platform of its metadata, or its
    Failure."""
    if (why := missing()) is not None:
        pytest.skip(why)  # the real server's backend directory holds its Python backend
    root = tmp_path_factory.mktemp(request.param)
    repository, backends = root / "repository", root / "backends"
    repository.mkdir()
    for backend in BACKENDS:
        (backends / backend).mkdir(parents=True)
        (backends / backend / "model.py").write_text(SOURCE)
    if request.param == "real":
        shutil.copytree(backend_directory() / "python", backends / "python")
        with ReferenceServer(repository, root, [f"--backend-directory={backends}"]) as server:
            real = RealClient(server)
            yield outcomes(real)
            real.close()
    else:
        lab = LabClient(repository, backend_directory=backends)
        yield outcomes(lab)
        lab.close()


def name_of(number: int) -> str:
    return CASES[number].name or f"m{number}"


def outcomes(side: Client) -> list[object]:
    models: dict[str, Files] = {}
    for number, case in enumerate(CASES):
        files = dict.fromkeys(case.files or ("1/empty",), SOURCE)
        models[name_of(number)] = {**files, "config.pbtxt": case.config}
    failures = side.load_all(models)
    return [failures[name] or document(side, name) for name in models]


def document(side: Client, name: str) -> tuple[str, ...]:
    config, metadata = side.config(name), side.metadata(name)
    assert not isinstance(config, Failure) and not isinstance(metadata, Failure)
    fields = ("platform", "backend", "default_model_filename")
    return (*(str(config[field]) for field in fields), str(metadata["platform"]))


def case_id(number: int) -> str:
    case = CASES[number]
    return " ".join([case.name, case.config, *case.files]).strip()


@rule("5.1.1", "5.1.2", "5.3.1", "2.11.1", "5.2.5")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", range(len(CASES)), ids=case_id)
def test_platform_backend_and_file_name_are_filled_in(served: list[object], number: int) -> None:
    outcome, expected = served[number], CASES[number].found
    if isinstance(expected, str):
        assert isinstance(outcome, Failure)
        name = name_of(number)
        assert outcome.text == f"failed to load '{name}', failed to poll from model repository"
        assert outcome.reason == expected.replace("{m}", name)
    else:
        platform, backend, _ = expected
        assert outcome == (*expected, platform or backend)
