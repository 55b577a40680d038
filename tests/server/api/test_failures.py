"""The record of a failure of the author's code: enough to understand it, and to send the same again."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
from typing import Any

import numpy as np
import psutil
import pytest

from tests.serving import DECOUPLED, Lab, Script, config, eventually
from tritonlab import Model
from tritonlab.core.observe.failure_capsule import MOST_CAPSULE, MOST_TENSOR
from tritonlab.core.status import ModelError, ModelLoadError, TritonError, UnsupportedError
from tritonlab.notebook.model import ShownFailure
from tritonlab.server.api.failures import KeptFailure

FAILING = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.scale = 2.5

    def execute(self, requests):
        found = []
        for number, request in enumerate(requests):
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            if x.min() < 0:
                raise ValueError("negative: " + str(x.min()))
            found.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x * self.scale)]))
        return found
"""
FIXED = FAILING.replace("if x.min() < 0:", "if False:")
SHAPES = config("X FP32 -1", "Y FP32 -1")


def fail(model: Model, **inputs: Any) -> ModelError:
    """Return the error of a request that the model's code fails."""
    with pytest.raises(ModelError) as caught:
        model(**inputs)
    return caught.value


@pytest.fixture
def failing(lab: Lab) -> Model:
    return lab.load("failing", FAILING, SHAPES)


def test_a_failure_is_kept_while_the_model_serves(failing: Model) -> None:
    pid = failing.instances()[0]["pid"]
    (before, *_), total = [len(failing.failures)], failing.failures.total
    sent = np.float32([3, -1, 2])
    with pytest.raises(ModelError) as caught:
        next(failing.infer(inputs={"X": sent}, request_id="one", parameters={"p": 7}))
    sent[:] = 0  # what is kept is what was sent
    failure = failing.failures[-1]
    capsule = failure.capsule
    assert caught.value.capsule is capsule
    assert failing.failures.total == total + 1 and len(failing.failures) == min(before + 1, 10)
    assert failure.text == caught.value.message
    assert (capsule.model, capsule.version, capsule.phase, capsule.pid) == ("failing", 1, "execute", pid)
    assert capsule.instance == "failing_0_0" and capsule.batch_id > 0
    assert capsule.exception == caught.value.exception
    assert failure.request_ids == ["one"]
    (request,) = capsule.requests
    assert request.parameters == {"p": 7}
    assert request.inputs["X"].tensor is not None
    assert request.inputs["X"].tensor.numpy().tolist() == [3, -1, 2]
    (frame,) = capsule.frames
    assert (frame.file, frame.line, frame.function) == (str(failing.directory / "1" / "model.py"), 14, "execute")
    assert frame.start == 12 and "raise ValueError" in frame.source[2]
    variables = {name: text for name, text in frame.variables}
    assert variables["self"] == "<TritonPythonModel scale=2.5>"
    assert variables["x"] == "float32[3] [3, -1, 2]"
    assert variables["requests"] == "[InferenceRequest id='one' inputs=[X]]"
    assert variables["number"] == "0"
    assert failing(X=np.float32([1]))["Y"].tolist() == [2.5]
    assert failing.instances()[0]["pid"] == pid


def test_the_facts_in_words_and_for_programs(failing: Model) -> None:
    fail(failing, X=np.float32([-1]))
    failure = failing.failures[-1]
    lines = repr(failure).split("\n")
    assert lines[0] == "ValueError: negative: -1.0"
    assert any("line 14, in execute" in line for line in lines)
    assert "    x = float32[1] [-1]" in lines
    assert lines[-1].startswith("  request ") and lines[-1].endswith("X FP32 [1] [-1.]")
    assert len(lines) <= 40 and "object at 0x" not in repr(failure)
    facts = json.loads(json.dumps(failing.failures.to_dict()))
    last = facts["failures"][-1]
    assert last["exception"]["type"] == "ValueError"
    assert last["requests"][0]["inputs"]["X"]["shape"] == [1]
    assert last["frames"][-1]["variables"]["x"] == "float32[1] [-1]"
    assert "[-1] " in repr(failing.failures) and "ValueError: negative: -1.0" in repr(failing.failures)


def test_the_text_names_cells_where_there_are_some(failing: Model) -> None:
    fail(failing, X=np.float32([-1]))
    displayed = ShownFailure(
        failing, failing.failures[-1].capsule, lambda text: re.sub(r'File ".*?", line 14', "Cell In[2], line 15", text)
    )
    lines = repr(displayed).split("\n")
    place = lines.index("  Cell In[2], line 15, in execute")
    assert lines[place + 1] == '    raise ValueError("negative: " + str(x.min()))'


def test_a_model_that_has_not_failed(lab: Lab) -> None:
    model = lab.load("spotless", FAILING, SHAPES)
    assert repr(model.failures) == "0 failures of 'spotless'"
    with pytest.raises(IndexError, match="'spotless' has not failed"):
        model.failures[-1]
    fail(model, X=np.float32([-1]))
    with pytest.raises(IndexError, match="1 of the 1 failures of 'spotless' are kept"):
        model.failures[-2]


def test_a_replay_is_answered_by_the_model_as_it_is_now(lab: Lab, failing: Model) -> None:
    fail(failing, X=np.float32([-2]))
    failure = failing.failures[-1]
    with pytest.raises(ModelError, match=r"negative: -2\.0"):
        failure.replay()
    lab.load("failing", FIXED, SHAPES)
    assert failure.replay()["Y"].tolist() == [-5]
    assert failing.failures[-1].replay()["Y"].tolist() == [-5]  # kept through the reload
    lab.load("failing", FAILING, SHAPES)


def test_a_batch_is_kept_whole(lab: Lab) -> None:
    batching = "max_batch_size: 4\ndynamic_batching { preferred_batch_size: 4 max_queue_delay_microseconds: 9000000 }"
    model = lab.load("batch", FAILING, SHAPES + batching)
    values = [1, -2, 3, 4]
    sent = [model.infer(inputs={"X": np.float32([[v]])}, request_id=f"r{v}", raise_on_error=False) for v in values]
    assert all(next(responses).error is not None for responses in sent)
    assert model.failures.total == 1
    failure = model.failures[-1]
    assert failure.request_ids == ["r1", "r-2", "r3", "r4"]
    assert "request" in repr(failure) and "2 of 4 in the batch" in repr(failure)
    assert ["number", "1"] in failure.capsule.frames[-1].variables  # which of them it was
    lab.load("batch", FIXED, SHAPES + batching)
    assert [answer["Y"].tolist() for answer in failure.replay()] == [[[2.5 * v]] for v in values]


def test_shapes_are_sent_as_clients_send_them(lab: Lab) -> None:
    shapes = """
backend: "python" max_batch_size: 2
input { name: "X" data_type: TYPE_FP32 dims: [ 2, -1 ] reshape { shape: [ 1, 2, -1 ] } }
output { name: "Y" data_type: TYPE_FP32 dims: [ 1, 2, -1 ] }
"""
    model = lab.load("reshaped", FAILING, shapes)
    fail(model, X=-np.ones((1, 2, 3), np.float32))
    assert model.failures[-1].capsule.requests[0].inputs["X"].shape == (1, 1, 2, 3)
    assert model.failures[-1].requests()[0].inputs["X"].shape == (1, 2, 3)
    with pytest.raises(ModelError, match="negative"):
        model.failures[-1].replay()


def test_a_sequence_is_sent_without_what_its_scheduler_adds(lab: Lab) -> None:
    sequences = """
max_batch_size: 2
sequence_batching { control_input { name: "START"
    control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } } }
"""
    model = lab.load("sequential", FAILING, SHAPES + sequences)
    with pytest.raises(ModelError):
        next(model.infer(inputs={"X": -np.ones((1, 1), np.float32)}, correlation_id=5, flags=1))
    failure = model.failures[-1]
    assert set(failure.capsule.requests[0].inputs) == {"X", "START"}
    (request,) = failure.requests()
    assert (set(request.inputs), request.correlation_id, request.flags) == ({"X"}, 5, 1)
    with pytest.raises(ModelError, match="negative"):
        failure.replay()


def test_large_tensors_are_cut(failing: Model) -> None:
    fail(failing, X=np.full(MOST_TENSOR // 4 + 1, -1, np.float32))
    (request,) = failing.failures[-1].capsule.requests
    assert request.cut == ["X"] and request.inputs["X"].tensor is None
    assert request.inputs["X"].text.startswith("FP32 [262145] [-1., -1., ")
    assert "[cut]" in repr(failing.failures[-1])
    with pytest.raises(UnsupportedError, match=r"'X' \(1,048,580 bytes\) was too large to be kept"):
        failing.failures[-1].replay()


def test_a_failure_takes_only_so_much(lab: Lab) -> None:
    inputs = "; ".join(f"X{i} UINT8 -1" for i in range(6))
    model = lab.load("wide", "class TritonPythonModel:\n    def execute(self, requests): 1 / 0", config(inputs))
    fail(model, **{f"X{i}": np.zeros(MOST_TENSOR, np.uint8) for i in range(6)})
    inputs = model.failures[-1].capsule.requests[0].inputs.values()
    assert sum(each.byte_size for each in inputs if each.tensor is not None) == MOST_CAPSULE
    assert sum(each.tensor is None for each in inputs) == 2


# -- whatever the author's code is doing


def test_async_execute(lab: Lab) -> None:
    source = FAILING.replace("def execute", "async def execute").replace(
        "raise ", "await self.no(x)\n                raise "
    )
    source += "\n    async def no(self, tensor):\n        raise KeyError('inner')\n"
    model = lab.load("asynchronous", source, SHAPES)
    fail(model, X=np.float32([-1]))
    frames = model.failures[-1].capsule.frames
    assert [frame.function for frame in frames] == ["execute", "no"]
    assert dict(map(tuple, frames[1].variables))["tensor"] == "float32[1] [-1]"


def test_a_decoupled_coroutine(lab: Lab) -> None:
    source = """
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    async def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            sender.send(pb_utils.InferenceResponse([]))
            raise KeyError("late")
"""
    model = lab.load("late", source, config("", "", DECOUPLED))
    responses = list(model.infer(request_id="d", raise_on_error=False))
    assert isinstance(responses[-1].error, ModelError)
    failure = model.failures[-1]
    assert responses[-1].error.capsule is failure.capsule
    assert (failure.request_ids, failure.capsule.headline) == (["d"], "KeyError: 'late'")


def test_both_ends_of_a_bls_call(lab: Lab, failing: Model) -> None:
    source = """
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        tensor = pb_utils.get_input_tensor_by_name(requests[0], "X")
        call = pb_utils.InferenceRequest(
            model_name="failing", requested_output_names=["Y"], inputs=[tensor], request_id="inner")
        answer = call.exec()
        if answer.has_error():
            raise pb_utils.TritonModelException(answer.error().message())
        return [answer]
"""
    model = lab.load("calling", source, SHAPES)
    fail(model, X=np.float32([-4]))
    assert failing.failures[-1].request_ids == ["inner"]
    assert model.failures[-1].capsule.headline.startswith("c_python_backend_utils.TritonModelException: Failed to proc")
    assert model.failures[-1].capsule.requests[0].inputs["X"].tensor is not None


def test_a_rule_that_was_broken(lab: Lab) -> None:
    model = lab.load("odd", FAILING.replace("return found", "return found[1:]"), SHAPES)
    fail(model, X=np.float32([1]))
    failure = model.failures[-1]
    assert failure.capsule.headline.startswith("Number of InferenceResponse objects do not match")
    assert failure.capsule.frames == ()
    with pytest.raises(ModelError, match="do not match"):
        failure.replay()


def test_initialize_and_finalize(lab: Lab) -> None:
    source = FAILING.replace("self.scale = 2.5", "threshold = 3; assert 0, 'no weights'")
    with pytest.raises(ModelLoadError):
        lab.load("unborn", source, SHAPES)
    model = lab.server.model("unborn")
    failure = model.failures[-1]
    assert (failure.capsule.phase, failure.capsule.requests) == ("initialize", ())
    assert ["threshold", "3"] in failure.capsule.frames[-1].variables
    with pytest.raises(UnsupportedError, match="failed in initialize, without a request"):
        failure.replay()
    lab.load("unborn", FAILING + "\n    def finalize(self):\n        raise OSError('disk')\n", SHAPES)
    lab.server.unload("unborn")
    assert model.failures[-1].capsule.headline == "OSError: disk"
    assert model.failures[-1].capsule.phase == "finalize"


def test_a_process_that_dies(script: Script) -> None:
    before = script.model.failures.total
    error = script.fails("os.kill(os.getpid(), signal.SIGKILL)", X=np.float32([5]))
    assert isinstance(error, ModelError)
    failure = script.model.failures[-1]
    assert error.capsule is failure.capsule and script.model.failures.total == before + 1
    assert f"signal {signal.SIGKILL.value}" in failure.text or "SIGKILL" in failure.text
    assert failure.capsule.requests[0].inputs["X"].text == "FP32 [1] [5.]"
    eventually(script.model.ready)


def test_an_error_of_the_authors_making_is_an_answer(script: Script) -> None:
    before = script.model.failures
    error = script.fails("return [pb_utils.InferenceResponse(error=pb_utils.TritonError('busy'))]")
    assert not isinstance(error, ModelError)
    after = script.model.failures
    assert after.total == before.total
    assert after.answered_with_error == before.answered_with_error + 1
    assert "with an error of the model's own making" in repr(after)


def test_a_request_that_the_server_refuses_is_no_failure(failing: Model) -> None:
    before = failing.failures.total
    with pytest.raises(TritonError):
        failing(X=np.int64([1]))
    assert failing.failures.total == before


def test_no_object_of_the_authors_is_kept_alive(script: Script) -> None:
    code = """
    import weakref
    class Large: pass
    large = Large()
    self.watched = weakref.ref(large)
    tensor(request, "X").as_numpy()
    raise ValueError("x")
    """
    free = script.instance.stub.link.region.used if script.instance.stub is not None else 0
    script.fails(code, X=np.zeros(100_000, np.float32))
    assert script.text("self.watched()") == "None"
    assert script.instance.stub is not None and script.instance.stub.link.region.used <= free


def test_none_are_kept_if_none_are_wanted(tmp_path: Any) -> None:
    lab = Lab(tmp_path, kept_failures=0)
    with lab.server:
        model = lab.load("failing", FAILING, SHAPES)
        error = fail(model, X=np.float32([-1]))
        assert error.capsule is None and error.exception is not None
        assert (len(model.failures), model.failures.total) == (0, 0)


def test_the_test_of_it(tmp_path: Any, failing: Model) -> None:
    fail(failing, X=np.float32([-7]))
    directory = tmp_path / "tests" / "of failures"
    snippet = failing.failures[-1].to_pytest(directory)
    assert sorted(os.listdir(directory)) == ["test_failing_failure.npz", "test_failing_failure.py"]
    assert "# it failed with 'ValueError: negative: -7.0'" in str(snippet)
    assert np.load(directory / "test_failing_failure.npz")["input.X"].tolist() == [-7]


def test_a_thousand_failures_leave_ten(lab: Lab, failing: Model) -> None:
    def burst(count: int) -> None:
        for number in range(count):
            fail(failing, X=np.full(1000, -1 - number, np.float32))
        gc.collect()

    stub = psutil.Process(failing.instances()[0]["pid"])
    burst(200)
    kernel_before, stub_before, total = (
        psutil.Process().memory_info().rss,
        stub.memory_info().rss,
        failing.failures.total,
    )
    burst(1000)
    assert psutil.Process().memory_info().rss - kernel_before < 8 << 20
    assert stub.memory_info().rss - stub_before < 4 << 20
    assert failing.failures.total == total + 1000
    assert len(failing.failures) == 10
    lab.load("failing", FAILING + "\n# edited\n", SHAPES)
    for offset, failure in enumerate(failing.failures[:]):
        with pytest.raises(ModelError, match=f"negative: -{991.0 + offset}") as caught:
            failure.replay()
        assert caught.value.exception == failure.capsule.exception
    assert isinstance(failing.failures[-1], KeptFailure)


SENDER = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            x = request.inputs()[0].as_numpy()
            sender = request.get_response_sender()
            for number in range(int(x[0])):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x + number)]))
            if x[0] == 1:
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            if x[1]:
                raise ValueError("too late")
"""


def test_a_model_that_answers_before_it_fails(lab: Lab) -> None:
    """Its one answer used to be returned as if nothing had happened."""
    model = lab.load("sender", SENDER, SHAPES)
    assert model(X=np.float32([1, 0]))["Y"].tolist() == [1, 0]  # an answer, then the final flag alone
    error = fail(model, X=np.float32([3, 0]))
    assert str(error) == "expected a single response, got 2"  # what a client gets (rule 6.7.4)
    assert "Non-decoupled model cannot send more than one response." in error.reason
    assert error.exception is not None and [frame.line for frame in error.exception.frames] == [10]
    assert error.capsule is not None


def test_what_no_client_hears_of_is_marked_in_the_log(lab: Lab) -> None:
    model = lab.load("sender", SENDER, SHAPES + DECOUPLED)
    answers = list(model.infer(inputs={"X": np.float32([1, 1])}))
    assert len(answers) == 1
    eventually(lambda: any(record.unheard and "too late" in record.text for record in model.logs()))
    responses = list(model.infer(inputs={"X": np.float32([0, 1])}, raise_on_error=False))
    assert "too late" in str(responses[0].error)
    assert [record.unheard for record in model.logs() if "too late" in record.text] == [True, False]
