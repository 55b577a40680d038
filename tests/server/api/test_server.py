from __future__ import annotations

import asyncio
import enum
import gc
import inspect
import pickle
import warnings
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.models import ADD_SUB, ADD_SUB_CONFIG, initializes
from tests.serving import DECOUPLED, SCRIPTED_CONFIG, Lab, Script, alive, config, eventually, in_threads, write_model
from tritonlab.core.config.model_config import parse_pbtxt
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.core.status import (
    InternalError,
    InvalidArgumentError,
    ModelError,
    ModelLoadError,
    NotFoundError,
    TritonError,
)
from tritonlab.server.api.model import Model
from tritonlab.server.api.server import Server
from tritonlab.server.models.loaded_model import LoadedModel
from tritonlab.server.models.model_lifecycle import ModelState
from tritonlab.testing import RecordingInstrument

RETURN = "return [answer(OUT=np.float32([{}]))]"


@pytest.fixture(scope="module")
def add_sub(lab: Lab) -> Model:
    return lab.load("add_sub", ADD_SUB, ADD_SUB_CONFIG)


def text(code: str) -> np.ndarray[tuple[int, ...], np.dtype[np.object_]]:
    return np.array([code.encode()], dtype=np.object_)


def f32(values: list[float]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.array(values, np.float32)


# -- the short form


def test_a_call_gives_arrays_by_name(add_sub: Model) -> None:
    out = add_sub(INPUT0=f32([1, 2]), INPUT1=f32([10, 20]))
    assert {name: value.tolist() for name, value in out.items()} == {"OUTPUT0": [11, 22], "OUTPUT1": [-9, -18]}


def test_an_output_that_is_not_there_is_a_key_error_that_says_which_are(add_sub: Model) -> None:
    out = add_sub(INPUT0=f32([1, 2]), INPUT1=f32([10, 20]))
    with pytest.raises(KeyError) as caught:
        out["NOPE"]
    assert str(caught.value) == "the response has no output 'NOPE': it has 'OUTPUT0', 'OUTPUT1'"
    with pytest.raises(KeyError, match=r"did you mean 'OUTPUT[01]'"):
        out["OUTPUT"]
    assert out.get("NOPE") is None and "NOPE" not in out
    assert pickle.loads(pickle.dumps(out)).keys() == out.keys()


@pytest.mark.parametrize(
    "value",
    [[1, 2], (1.0, 2.0), f32([1, 2]), Tensor.from_numpy(f32([1, 2]))],
    ids=["list", "tuple", "array", "Tensor"],
)
def test_whatever_can_be_a_tensor_is_taken(add_sub: Model, value: object) -> None:
    assert add_sub(INPUT0=value, INPUT1=value)["OUTPUT0"].tolist() == [2, 4]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda m: m([[1]]), r"inputs are given by name: add_sub\(INPUT0=…, INPUT1=…\)"),
        (lambda m: m.infer(INPUT0=[1], INPUT1=[2]), "the inputs go into one dict: inputs={'INPUT0': …, 'INPUT1': …}"),
        (lambda m: m.infer(inputs={}, sequence_start=True), "no field 'sequence_start': write flags=1; it has "),
        (lambda m: m.infer({"INPUT0": [1]}), "a dict is not a request: inputs={…} makes one from arrays"),
        (lambda m: m.async_infer({"INPUT0": [1]}), "a dict is not a request"),
        (lambda m: m.create_request(INPUT0=[1]), "the inputs go into one dict"),
    ],
)
def test_inputs_in_the_wrong_place_get_an_error_that_names_theirs(add_sub: Model, call: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        call(add_sub)


def test_torch_tensors_are_taken(add_sub: Model) -> None:
    torch = pytest.importorskip("torch")
    value = torch.tensor([1.0, 2.0])
    assert add_sub(INPUT0=value, INPUT1=value)["OUTPUT0"].tolist() == [2, 4]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"INPUT0": f32([1])}, "expected 2 inputs but got 1 inputs for model 'add_sub'"),
        ({"INPUT0": f32([1]), "NO": f32([1])}, "unexpected inference input 'NO' for model 'add_sub'"),
        (
            {"INPUT0": np.array([1], np.int32), "INPUT1": np.array([1], np.int32)},
            "data-type is 'INT32', but model 'add_sub' expects 'FP32'",
        ),
        ({"INPUT0": f32([1]).reshape(1, 1), "INPUT1": f32([1])}, "unexpected shape for input 'INPUT0'"),
        (
            {"INPUT0": np.array([1], np.complex64), "INPUT1": f32([1])},
            "input 'INPUT0': numpy dtype 'complex64' has no Triton datatype",
        ),
        ({"INPUT0": f32([1]), "INPUT1": "x"}, "input 'INPUT1': text cannot be read as FP32"),
    ],
)
def test_a_wrong_request_is_refused_and_nothing_executes(
    add_sub: Model, inputs: dict[str, object], message: str
) -> None:
    before = add_sub.statistics()["model_stats"][0]["execution_count"]
    with pytest.raises(InvalidArgumentError, match=message):
        add_sub(**inputs)
    assert add_sub.statistics()["model_stats"][0]["execution_count"] == before


def test_a_model_that_raises(script: Script) -> None:
    with pytest.raises(ModelError) as raised:
        script("raise ValueError('boom')")
    assert raised.value.exception is not None
    assert raised.value.exception.text == "boom"


# -- requests


def test_a_request_may_be_made_first(script: Script) -> None:
    request = script.model.create_request(inputs={"CODE": text(RETURN.format(3))}, request_id="mine")
    (response,) = script.model.infer(request)
    assert (response.request_id, response.model_name, response.model_version) == ("mine", "script", 1)
    assert response.outputs["OUT"].numpy() == [3]
    assert response.final


def test_a_request_goes_once(script: Script) -> None:
    request = script.model.create_request(inputs={"CODE": text(RETURN.format(3))})
    list(script.model.infer(request))
    with pytest.raises(InvalidArgumentError, match="the request was sent before; create another one"):
        script.model.infer(request)
    assert script.value("4") == 4


@pytest.mark.parametrize("kind", [str, np.str_])  # numpy's is a str, and memory that could be sent instead
def test_every_field_reaches_the_model(script: Script, kind: type[str]) -> None:
    code = """
    fields = [request.request_id(), request.correlation_id(), request.flags(), request.timeout(),
              request.parameters(), sorted(request.requested_output_names())]
    return [answer(TEXT=np.array([repr(fields)], dtype=object))]"""
    (response,) = script.model.infer(
        inputs={kind("CODE"): text(inspect.cleandoc(code))},
        request_id=kind("r"),
        correlation_id=kind("seq"),
        flags=3,
        priority=1,
        timeout=5_000_000,
        parameters={kind("s"): kind("v"), "i": 5, "b": True, "f": 1.5},
        requested_outputs=np.array(["TEXT"]) if kind is np.str_ else ["TEXT"],
    )
    fields = response.outputs["TEXT"].numpy()[0].decode()
    assert fields == """['r', 'seq', 3, 5000000, '{"s":"v","i":5,"b":true,"f":1.5}', ['TEXT']]"""


def test_parameters_of_a_response(script: Script) -> None:  # rule 3.4.5
    (response,) = script.infer("return [pb_utils.InferenceResponse([], parameters={'a': 1, 'b': 'x', 'c': True})]")
    assert response.parameters == {"a": 1, "b": "x", "c": True}


def test_large_parameters(script: Script) -> None:
    """More than the socket takes at once: the caller that sends is also the one that waits for the answer."""
    long = "x" * (2 << 20)
    (response,) = script.model.infer(
        inputs={"CODE": text("return [answer(OUT=np.float32([len(request.parameters())]))]")}, parameters={"p": long}
    )
    assert response.outputs["OUT"].numpy() == [len(long) + len('{"p":""}')]


@pytest.mark.parametrize("read", [True, False])
def test_inputs_and_outputs_are_gone_with_their_last_user(add_sub: Model, read: bool) -> None:
    """Not only when the collector runs: a loop over large arrays would fill the memory first."""
    gc.collect()
    gc.disable()
    try:
        sent = np.ones(1 << 16, np.float32)
        gone = weakref.ref(sent)
        iterator = add_sub.infer(inputs={"INPUT0": sent, "INPUT1": sent})
        del sent
        if read:
            response = next(iterator)
            memory = weakref.ref(response.outputs["OUTPUT0"].data)
            del response
            assert memory() is None
        else:
            arrived = iterator._responses
            eventually(lambda: arrived)
            del arrived
        del iterator
        assert gone() is None
    finally:
        gc.enable()


# -- iterators


def test_errors_are_raised_or_yielded(script: Script) -> None:
    with pytest.raises(ModelError):
        next(script.infer("raise ValueError"))
    (response,) = script.infer("raise ValueError", raise_on_error=False)
    assert isinstance(response.error, ModelError)
    assert response.outputs == {}


def test_an_iterator_that_raised_is_over(script: Script) -> None:
    iterator = script.infer("raise ValueError")
    with pytest.raises(ModelError):
        next(iterator)
    assert list(iterator) == []


def test_iterators_may_be_read_by_another_thread(script: Script) -> None:
    iterators = [script.infer(RETURN.format(n)) for n in range(8)]
    assert in_threads(8, lambda n: float(next(iterators[n]).outputs["OUT"].numpy()[0])) == list(range(8))


def test_iterators_may_be_read_in_any_order(script: Script) -> None:
    iterators = [script.infer(RETURN.format(n)) for n in range(8)]
    assert [float(next(i).outputs["OUT"].numpy()[0]) for i in reversed(iterators)] == list(range(7, -1, -1))


def test_iterators_that_nobody_reads_do_no_harm(script: Script) -> None:
    for n in range(20):
        script.infer(RETURN.format(n))
    assert script.value("5") == 5
    eventually(lambda: script.instance.inflight == {})


def test_an_empty_final_is_yielded_on_request(lab: Lab) -> None:
    script = lab.script("stream", config("CODE STRING 1", "OUT FP32 -1", DECOUPLED))
    inputs = {"CODE": text("request.get_response_sender().send(flags=1)")}
    assert list(script.model.infer(inputs=inputs)) == []
    (response,) = script.model.infer(inputs=inputs, enable_empty_final_response=True)
    assert (response.final, response.empty, response.outputs) == (True, True, {})
    lab.server.unload("stream")


def test_a_default_model_may_answer_in_two_steps(script: Script) -> None:  # rule 1.9.4
    code = "s = request.get_response_sender(); s.send(answer(OUT=np.float32([1]))); s.send(flags=1); return [None]"
    assert script(code)["OUT"] == [1]
    assert script.model(CODE=text(code))["OUT"] == [1]


# -- asyncio


def test_many_requests_at_once_on_one_loop(script: Script) -> None:
    async def one(n: int) -> float:
        async for response in script.model.async_infer(inputs={"CODE": text(RETURN.format(n))}):
            return float(response.outputs["OUT"].numpy()[0])
        raise AssertionError("no response")

    async def all_of_them() -> list[float]:
        return await asyncio.gather(*(one(n) for n in range(50)))

    assert asyncio.run(all_of_them()) == list(range(50))


def test_errors_of_async_requests(script: Script) -> None:
    async def run() -> None:
        with pytest.raises(ModelError, match="ValueError"):
            async for _ in script.model.async_infer(inputs={"CODE": text("raise ValueError")}):
                pass
        with pytest.raises(InvalidArgumentError):
            script.model.async_infer(inputs={})
        (response,) = [
            r async for r in script.model.async_infer(inputs={"CODE": text("raise ValueError")}, raise_on_error=False)
        ]
        assert response.error is not None

    asyncio.run(run())


def test_a_loop_that_is_gone_before_the_answer(script: Script, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        script.model.async_infer(inputs={"CODE": text("time.sleep(0.05); " + RETURN.format(1))})

    asyncio.run(run())
    assert script.value("2") == 2


# -- what a model tells of itself


def test_metadata_and_configuration(add_sub: Model) -> None:
    metadata = add_sub.metadata()
    assert (metadata["name"], metadata["versions"], metadata["platform"]) == ("add_sub", ["1"], "python")
    assert metadata["inputs"][0] == {"name": "INPUT0", "datatype": "FP32", "shape": [-1]}
    assert add_sub.config()["input"][0]["data_type"] == "TYPE_FP32"
    assert add_sub.config()["instance_group"][0]["name"] == "add_sub_0"
    again = parse_pbtxt(add_sub.config_pbtxt(), "again")
    assert again.name == "add_sub"
    assert add_sub.expected_shape("INPUT0") == "[any]"
    assert add_sub.load_ns > 0


def test_state_and_instances(add_sub: Model) -> None:
    assert (add_sub.state, add_sub.reason, add_sub.ready()) == ("READY", "", True)
    (instance,) = add_sub.instances()
    assert alive(instance.pop("pid"))
    assert instance == {
        "name": "add_sub_0_0",
        "kind": "CPU",
        "device_id": 0,
        "state": "ready",
        "restarts": 0,
        "last_death": "",
        "failure": "",
        "simulated": False,
        "gpu_memory": {},
        "imports_again": "",
        "next_try": None,
    }
    assert repr(add_sub) == "<Model add_sub [READY]>"
    assert repr(add_sub.server.model("add_sub", 1)) == "<Model add_sub/1 [READY]>"


def test_a_handle_on_nothing(lab: Lab) -> None:
    model = lab.server.model("nothing")
    assert (model.state, model.ready()) == ("UNKNOWN", False)
    for call in (model.metadata, model.config, model.instances, model):
        with pytest.raises(NotFoundError, match="Request for unknown model: 'nothing' is not found"):
            call()
    with pytest.raises(InvalidArgumentError, match=r"^requested model 'nothing' is not available$"):
        model.statistics()


def test_a_handle_follows_reloads(lab: Lab) -> None:
    model = lab.load("renewed", ADD_SUB, ADD_SUB_CONFIG)
    lab.load("renewed", ADD_SUB.replace("a + b", "a * b"), ADD_SUB_CONFIG)
    assert model(INPUT0=[3.0], INPUT1=[4.0])["OUTPUT0"] == [12]
    lab.server.unload(model)


# -- the server


def test_a_server_is_a_context(tmp_path: Path) -> None:
    write_model(tmp_path, "add_sub", ADD_SUB, ADD_SUB_CONFIG)
    with Server(tmp_path) as server:
        assert repr(server) == "<Server [add_sub READY]>"
        pid = server.model("add_sub").instances()[0]["pid"]
        assert server.metadata()["name"] == "triton"
        assert list(server.models()) == [("add_sub", 1)]
    assert not alive(pid)
    assert not server.live()


def test_servers_do_not_know_of_each_other(tmp_path: Path) -> None:
    write_model(tmp_path, "add_sub", ADD_SUB, ADD_SUB_CONFIG)
    with Server(tmp_path) as one, Server(tmp_path, warm=0) as other:
        assert one.model("add_sub").instances()[0]["pid"] != other.model("add_sub").instances()[0]["pid"]
        one.stop()
        assert other.model("add_sub")(INPUT0=[1.0], INPUT1=[1.0])["OUTPUT0"] == [2]


def test_hooks_tell_the_way_of_a_request(lab: Lab, script: Script) -> None:
    events = RecordingInstrument()
    lab.server.instruments.add(events)
    try:
        script(RETURN.format(1), request_id="followed")
    finally:
        lab.server.instruments.remove(events)
    hooks = [event[0] for event in events.events if event[0] != "shm"]
    assert hooks == [
        "request_queued",
        "batch_formed",
        "execute_started",
        "batch_executed",
        "execute_finished",
        "response_sent",
        "request_released",
    ]
    times = [event[-1] for event in events.events if event[0] != "shm"]
    assert times == sorted(times)
    (_, batch_id, requests, _) = events.named("execute_started")[0]
    assert [r.request_id for r in requests] == ["followed"]
    assert events.named("execute_finished")[0][1] == batch_id


def test_a_hook_that_raises_is_dropped_and_the_request_answered(
    lab: Lab, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(RecordingInstrument):
        def execute_finished(self, *arguments: object) -> None:
            raise ValueError("broken view")

    broken = Broken()
    lab.server.instruments.add(broken)
    assert script.value("1") == 1
    assert broken not in list(lab.server.instruments)
    assert script.value("2") == 2


def test_a_callback_that_raises_harms_nobody(script: Script, caplog: pytest.LogCaptureFixture) -> None:
    request = script.model.create_request(inputs={"CODE": text(RETURN.format(1))})

    def broken(request: object, response: object) -> None:
        raise ValueError("broken callback")

    request.on_response = broken
    script.model.server.core.infer(request)
    eventually(lambda: "broken callback" in caplog.text)
    assert script.value("2") == 2
    assert script.instance.inflight == {}


def test_a_region_that_grows_is_reported(lab: Lab) -> None:
    events = RecordingInstrument()
    script = lab.script("grows", SCRIPTED_CONFIG)
    lab.server.instruments.add(events)
    try:
        script("return [answer()]", X=np.zeros(4 << 20, np.float32))
        script("return [answer(OUT=np.zeros(1 << 20, np.float32))]")
    finally:
        lab.server.instruments.remove(events)
        lab.server.unload("grows")
    (kernel, stub) = events.named("shm")
    assert (kernel[:2], stub[:2]) == (("grows_0_0", "kernel"), ("grows_0_0", "stub"))
    assert kernel[2] >= kernel[3] >= 16 << 20
    assert (stub[2] >= 4 << 20, stub[3]) == (True, -1)


def test_an_answer_that_never_comes_is_an_error(lab: Lab) -> None:
    """Not for a model that keeps to the rules; a stub that sends an empty final in default mode."""
    script = lab.script("odd")
    code = "sys.modules['_pb_stub.api.bridge'].current().send_response(request._handle, None, 1)\nreturn [None]"
    with pytest.raises((InternalError, TritonError)):
        script.model(CODE=text(code))
    lab.server.unload("odd")


# -- repositories


def test_a_server_on_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InternalError, match=r"^failed to stat file no/such/dir$"):
        Server("no/such/dir")
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgumentError, match=r"^repository path is not a valid directory$"):
        Server([tmp_path, tmp_path / "file"])


def test_a_failed_load_is_caught_by_its_code(lab: Lab) -> None:
    lab.write("fails", initializes("raise ValueError('no')"))
    with pytest.raises(InvalidArgumentError, match="load failed for model 'fails'") as caught:
        lab.server.load("fails")
    assert isinstance(caught.value, ModelLoadError) and not isinstance(caught.value, InternalError)
    assert caught.value.exception is not None and caught.value.exception.text == "no"
    with pytest.raises(InternalError, match="failed to load 'nowhere'") as caught:
        lab.server.load("nowhere")
    assert isinstance(caught.value, ModelLoadError) and "there is no directory 'nowhere'" in caught.value.reason


# -- what no client can say


@pytest.mark.parametrize(
    "fields",
    [
        {"request_id": 5},
        {"request_id": "\udc80"},
        {"timeout": -1},
        {"timeout": 1.5},
        {"timeout": 2**64},
        {"priority": -1},
        {"priority": "1"},
        {"flags": 4},
        {"flags": None},
        {"correlation_id": -1},
        {"correlation_id": 1.5},
        {"requested_outputs": "OUT"},
        {"requested_outputs": [1]},
        {"parameters": "x"},
        {"parameters": {1: "x"}},
        {"parameters": {"a": [1]}},
        {"parameters": {"a": None}},
        {"parameters": {"a": 2**63}},
        {"parameters": {"a": "\udc80"}},
        {"parameters": {"triton_a": 1}},
        {"parameters": {"priority": 1}},
    ],
    ids=str,
)
def test_a_request_is_held_to_what_a_client_can_say(script: Script, fields: dict[str, Any]) -> None:
    inputs = {"CODE": text(RETURN.format(1))}
    with pytest.raises(InvalidArgumentError):
        script.model.create_request(inputs=inputs, **fields)
    with pytest.raises(InvalidArgumentError):
        script.model.infer(inputs=inputs, **fields)
    made = InferenceRequest("script", {"CODE": Tensor.from_numpy(inputs["CODE"])}, **fields)
    with pytest.raises(InvalidArgumentError):
        script.model.infer(made)


def test_numbers_of_numpy_and_enums_are_parameters(script: Script) -> None:
    parameters = {"f": np.float64(1.5), "flag": True, "code": enum.IntEnum("Kind", "FIRST SECOND").FIRST}
    code = "return [answer(TEXT=np.array([request.parameters()], dtype=object))]"
    (response,) = script.model.infer(inputs={"CODE": text(code)}, parameters=parameters)
    assert response.outputs["TEXT"].numpy()[0] == b'{"f":1.5,"flag":true,"code":1}'


def test_a_list_that_is_cast_is_warned_of_once(add_sub: Model) -> None:
    server = add_sub.server
    server.core.casts.clear()
    with pytest.warns(UserWarning, match=r"'INPUT0' of model 'add_sub': a list is cast to FP32 here, .* INT64"):
        add_sub.infer(inputs={"INPUT0": [1], "INPUT1": f32([1])})
    with pytest.warns(UserWarning, match=r"'INPUT1' .*a tuple is cast to FP32 here, .*FP64") as warned:
        add_sub.create_request(inputs={"INPUT0": [1], "INPUT1": (1.0,)})
    assert [each.filename for each in warned] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(add_sub.infer(inputs={"INPUT0": [2], "INPUT1": [2.0]}))
        server.core.casts.clear()
        add_sub(INPUT0=[1], INPUT1=[2])  # the notebook's own form
    assert server.core.casts == set()


def test_a_list_that_is_as_triton_reads_it(script: Script) -> None:
    script.model.server.core.casts.clear()
    list(script.model.infer(inputs={"CODE": [RETURN.format(1)]}))
    assert script.model.server.core.casts == set()


def test_the_state_of_a_model_that_is_unloaded_meanwhile() -> None:
    class Unloading(LoadedModel):
        """A model whose last version leaves once somebody has read it."""

        reads = 0

        @property
        def versions(self) -> dict[int, Any]:
            self.reads += 1
            return {1: SimpleNamespace(state=ModelState.READY, reason="")} if self.reads == 1 else {}

        @versions.setter
        def versions(self, versions: dict[int, Any]) -> None: ...

    loaded = Unloading("m")
    host: Any = SimpleNamespace(core=SimpleNamespace(model=lambda name: loaded))
    assert Model(host, "m").state == "READY"
