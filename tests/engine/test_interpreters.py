"""The whole link with a stub of every Python that is here: the stub's half must run on all of them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreters import VERSIONS, environment
from tests.serving import DECOUPLED, SCRIPTED, Lab, Script, alive, config
from tritonlab.core.status import ModelError

TENSORS = ("CODE STRING 1; X? FP32 -1; Y? STRING -1", "OUT FP32 -1; TEXT STRING -1")
REGION = "sys.modules['_pb_stub.api.bridge'].current().region"


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    environment(request.param)  # skips where there is none
    return str(request.param)


def in_environment(lab: Lab, version: str, name: str, *rest: str) -> Script:
    parameter = f'parameters {{ key: "EXECUTION_ENV_PATH" value: {{ string_value: "{environment(version)}" }} }}'
    name = f"{name}_{version.replace('.', '_')}"
    model = lab.server.model(name)
    if model.state == "UNKNOWN":
        model = lab.load(name, SCRIPTED, config(*TENSORS, parameter, *rest))
    return Script(model)


@pytest.fixture
def model(lab: Lab, version: str) -> Script:
    return in_environment(lab, version, "model")


def test_it_is_that_python(model: Script, version: str) -> None:
    assert model.text("'%d.%d' % sys.version_info[:2]") == version


@pytest.mark.parametrize("count", [0, 1, 10_000, 1 << 20])
def test_tensors(model: Script, count: int) -> None:
    sent = np.arange(count, dtype=np.float32)
    code = "x = tensor(request, 'X').as_numpy(); x += 1; return [answer(OUT=x)]"
    for _ in range(3):
        assert (model(code, X=sent)["OUT"] == sent + 1).all()
    assert model.value(f"{REGION}.used") == 0
    assert model.instance.stub is not None
    assert model.instance.stub.link.region.used == 0


def test_text(model: Script) -> None:
    sent = np.array(["", "\u00e9", "a\0b"], dtype=object)
    out = model("return [answer(TEXT=tensor(request, 'Y').as_numpy())]", Y=sent)["TEXT"]
    assert out.tolist() == [e.encode() for e in sent]


def test_errors(model: Script) -> None:
    error = model.fails("try: 1 / 0\nexcept Exception as e: raise ValueError('boom') from e")
    assert isinstance(error, ModelError)
    assert "message: ValueError: boom\n\nAt:\n" in error.message
    assert error.exception is not None
    assert error.exception.cause is not None
    assert error.exception.cause.type_name == "ZeroDivisionError"
    error = model.fails("def broken(:")
    assert isinstance(error, ModelError)
    assert error.exception is not None
    assert error.exception.detail["lineno"] == 2


def test_output_and_log(model: Script) -> None:
    model("print('printed \\u00e9'); pb_utils.Logger.log_info('logged'); return [answer()]")
    assert sorted(model.lines()[-2:]) == ["logged", "printed \u00e9"]


def test_calls_to_the_server(model: Script) -> None:
    name = model.model.name
    code = f"""
    assert pb_utils.is_model_ready("{name}")
    assert not request.is_cancelled()
    family = pb_utils.MetricFamily("versions_{name}", "d", pb_utils.MetricFamily.COUNTER)
    metric = family.Metric({{"a": "b"}})
    metric.increment(3)
    return [answer(OUT=np.float32([metric.value()]))]
    """
    assert model(code)["OUT"] == [3]


def test_a_dead_stub_is_replaced_by_one_of_its_kind(model: Script, version: str) -> None:
    pid = model.pid
    assert "exit status 3" in str(getattr(model.fails("os._exit(3)"), "reason", ""))
    assert model.text("'%d.%d' % sys.version_info[:2]") == version
    assert not alive(pid)


def test_many_responses(lab: Lab, version: str) -> None:
    stream = in_environment(lab, version, "stream", DECOUPLED)
    code = "s = request.get_response_sender()\nfor n in range(50): s.send(answer(OUT=np.float32([n])))\ns.send(flags=1)"
    assert [r.outputs["OUT"].numpy()[0] for r in stream.responses(code)] == list(range(50))


def test_coroutines(lab: Lab, version: str) -> None:
    source = """
import asyncio
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    async def execute(self, requests):
        await asyncio.sleep(0.01)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.float32([7]))]) for _ in requests]
"""
    parameter = f'parameters {{ key: "EXECUTION_ENV_PATH" value: {{ string_value: "{environment(version)}" }} }}'
    model = lab.load("awaited", source, config("", "OUT FP32 1", parameter))
    assert model()["OUT"] == [7]
    lab.server.unload(model)
