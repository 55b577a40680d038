"""A check of the author's module in a bare interpreter: `python self_check.py STUB_DIRECTORY`; Python 3.8, numpy alone.

test_interpreters.py runs it with every Python that a model may need. Its last line is `ok`.
"""

from __future__ import annotations

import asyncio
import gc
import sys

sys.dont_write_bytecode = True
sys.path.append(sys.argv[1])

import numpy as np  # noqa: E402
import triton_python_backend_utils as pb_utils  # noqa: E402

assert not hasattr(pb_utils, "Tensor")  # rule 1.1.2

import c_python_backend_utils as native  # noqa: E402
from _pb_stub.api import bridge  # noqa: E402
from _pb_stub.api.infer_request import InferenceRequest  # noqa: E402
from _pb_stub.api.infer_response import InferenceResponse  # noqa: E402
from _pb_stub.api.pb_tensor import Tensor  # noqa: E402

native.attach(pb_utils)


class Server(bridge.Bridge):
    phase = "execute"

    def __init__(self):
        self.calls = []

    def call(self, message):
        self.calls.append(type(message).__name__)
        return 1

    def log(self, level, message, file, line):
        self.calls.append((level, message))

    def send_response(self, handle, response, flags):
        self.calls.append((handle, flags))

    def infer(self, request, decoupled):
        return iter([InferenceResponse([Tensor("o", np.arange(2))])])


def raises(kind, function, *arguments):
    try:
        function(*arguments)
    except kind as error:
        return str(error)
    raise AssertionError(kind)


def check_tensors():
    for char in "?bBhHiIqQefd":
        array = np.ones((2, 3), char)
        built = pb_utils.Tensor("a", array)
        assert built.as_numpy() is array and built.shape() == [2, 3]
        datatype, shape, data = built._wire()
        back = Tensor._received("b", datatype, shape, memoryview(bytes(data)), None)
        assert back.as_numpy().dtype == array.dtype and (back.as_numpy() == array).all()
        imported = pb_utils.Tensor.from_dlpack("c", back.to_dlpack())
        assert imported._wire()[:2] == (datatype, shape) and (imported.as_numpy() == array).all()
    strings = np.array([b"a", None, "\xe9"], dtype=object)
    datatype, shape, data = pb_utils.Tensor("s", strings)._wire()
    decoded = Tensor._received("s", datatype, shape, memoryview(data), None).as_numpy()
    assert decoded.tolist() == [b"a", b"None", b"\xc3\xa9"]
    assert "not supported" in raises(pb_utils.TritonModelException, pb_utils.Tensor, "a", np.zeros(1, "c8"))
    raises(TypeError, pb_utils.Tensor, "a", [1])
    half = Tensor._received("h", 14, [2], memoryview(b"\x80\x3f\x00\x40"), None)
    assert pb_utils.Tensor.from_dlpack("h", half)._wire()[0] == 14
    kept = [pb_utils.Tensor("a", np.zeros(4)).to_dlpack() for _ in range(10)]
    del kept
    gc.collect()


def check_requests(server):
    request = InferenceRequest._received(3, "r", "seq", 1, 5, "", frozenset("o"), [], "m", 1, True)
    request.get_response_sender().send(pb_utils.InferenceResponse([]), 1)
    assert (3, 1) in server.calls
    built = pb_utils.InferenceRequest(inputs=[], requested_output_names=["o"], model_name="m", parameters={"a": 1})
    assert built.parameters() == '{"a": 1}'
    response = built.exec()
    assert pb_utils.get_output_tensor_by_name(response, "o").as_numpy().tolist() == [0, 1]
    assert len(list(built.exec(decoupled=True))) == 1

    async def run():
        asyncio.get_running_loop().slow_callback_duration = 60  # of a busy machine nothing is printed
        return await built.async_exec()

    assert not asyncio.run(run()).has_error()


def check_the_rest(server):
    family = pb_utils.MetricFamily("n", "d", pb_utils.MetricFamily.GAUGE)
    family.Metric({"a": "b"}).set(1)
    pb_utils.Logger.log_warn("hello")
    pb_utils.load_model("x", files={})
    assert {"MetricFamilyNew", "MetricNew", "MetricOp", (1, "hello"), "LoadModel"} <= set(server.calls)
    assert repr(pb_utils.TritonError("x").code()) == "<__ErrorCode.INTERNAL: 1>"
    config = pb_utils.ModelConfig('{"name": "m", "max_batch_size": 0, "input": [], "output": []}')
    config.set_max_batch_size(4)
    config.add_input({"name": "i", "data_type": "TYPE_FP32", "dims": [1]})
    assert config.as_dict()["input"][0]["name"] == "i"


server = Server()
bridge.install(server)
check_tensors()
check_requests(server)
check_the_rest(server)
print("ok")
