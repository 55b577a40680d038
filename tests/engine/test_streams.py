"""Responses through senders: order, numbers, threads, and which of them share a message."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.serving import DECOUPLED, Lab, Script, config, eventually, in_threads
from tritonlab.core.inference.infer_response import InferenceResponse
from tritonlab.core.status import TritonError

CONFIG = config("CODE STRING 1; X? FP32 -1", "OUT FP32 -1; TEXT STRING -1", DECOUPLED)
REGION = "sys.modules['_pb_stub.api.bridge'].current().region"


@pytest.fixture(scope="module")
def stream_server(lab: Lab) -> Lab:
    lab.script("stream", CONFIG)
    return lab


@pytest.fixture
def stream(stream_server: Lab) -> Iterator[Script]:
    script = stream_server.script("stream", CONFIG)
    yield script
    eventually(lambda: script.instance.inflight == {})


def numbers(responses: list[InferenceResponse]) -> list[float]:
    return [float(response.outputs["OUT"].numpy()[0]) for response in responses]


SEND = "s = request.get_response_sender()\n"


@pytest.mark.parametrize("count", [0, 1, 2, 100, 3000])
def test_any_number_of_responses_in_order(stream: Script, count: int) -> None:  # rule 3.7.1
    code = SEND + f"for n in range({count}): s.send(answer(OUT=np.float32([n])))\ns.send(flags=1)"
    assert numbers(stream.responses(code)) == list(range(count))


def test_the_last_response_may_carry_the_final_flag(stream: Script) -> None:  # rule 1.9.4
    (response,) = stream.responses(SEND + "s.send(answer(OUT=np.float32([1])), flags=1)")
    assert response.final
    first, second = stream.infer(SEND + "s.send(answer(OUT=np.float32([1])))\ns.send(flags=1)"), None
    second = next(first)
    assert not second.final
    with pytest.raises(StopIteration):
        next(first)


def test_a_final_that_comes_with_the_end_of_execute_a_thousand_times(stream: Script) -> None:
    """RESPONSE and EXECUTED often arrive in one read; who waits for the first must not leave the second behind."""
    for number in range(1000):
        (response,) = stream.responses(SEND + f"s.send(answer(OUT=np.float32([{number}])), flags=1)")
        assert response.outputs["OUT"].numpy() == [number]


def test_responses_of_several_requests_at_once(stream: Script) -> None:
    code = SEND + "for n in range(200): s.send(answer(OUT=np.float32([n])))\ns.send(flags=1)"
    results = in_threads(8, lambda index: numbers(stream.responses(code)))
    assert results == [list(range(200))] * 8


def test_threads_of_the_model_answer_while_others_execute(stream: Script) -> None:  # rule 3.1.2
    code = """
    def work(sender, first, answer=answer, np=np):
        for n in range(50): sender.send(answer(OUT=np.float32([first + n])))
        sender.send(flags=1)
    threading.Thread(target=work, args=(request.get_response_sender(), int(tensor(request, "X").as_numpy()[0]))).start()
    """
    results = in_threads(12, lambda index: numbers(stream.responses(code, X=np.full(1, index * 100, np.float32))))
    assert results == [[index * 100 + n for n in range(50)] for index in range(12)]


def test_large_responses_are_views_that_go_back(stream: Script) -> None:
    code = SEND + "for n in range(20): s.send(answer(OUT=np.full(1 << 18, n, np.float32)))\ns.send(flags=1)"
    kept = [response.outputs["OUT"].numpy() for response in stream.infer(code)]
    assert [(array == n).all() for n, array in enumerate(kept)] == [True] * 20
    used = SEND + f"s.send(answer(OUT=np.float32([{REGION}.used])), flags=1)"
    assert numbers(stream.responses(used)) == [20 << 20]
    kept.clear()
    gc.collect()
    assert numbers(stream.responses(used)) == [0]


def test_a_stream_of_large_responses_needs_room_for_few(stream: Script, tmp_path: Path) -> None:
    """Nothing else is sent to the stub meanwhile, which is busy with `execute` and reads nothing."""
    turn = tmp_path / "turn"
    os.mkfifo(turn)
    code = f"""
    s = request.get_response_sender()
    with open({str(turn)!r}, "rb", buffering=0) as turn:
        for n in range(100):
            s.send(answer(OUT=np.full(1 << 18, n, np.float32)))
            turn.read(1)
    s.send(answer(OUT=np.float32([{REGION}.size >> 20])), flags=1)
    """
    before = numbers(stream.responses(SEND + f"s.send(answer(OUT=np.float32([{REGION}.size >> 20])), flags=1)"))
    iterator = stream.infer(code)
    with turn.open("wb", buffering=0) as file:
        for n in range(100):
            assert next(iterator).outputs["OUT"].numpy()[-1] == n
            file.write(b"x")
    assert numbers(list(iterator))[0] <= max(before[0], 8)


def test_a_response_nobody_reads_goes_back_too(stream: Script) -> None:
    iterator = stream.infer(
        SEND + "for n in range(10): s.send(answer(OUT=np.ones(1 << 18, np.float32)))\ns.send(flags=1)"
    )
    assert next(iterator).outputs["OUT"].numpy()[0] == 1
    del iterator
    eventually(lambda: stream.instance.inflight == {})
    gc.collect()
    assert numbers(stream.responses(SEND + f"s.send(answer(OUT=np.float32([{REGION}.used])), flags=1)")) == [0]


def test_errors_are_responses_like_others(stream: Script) -> None:  # rule 3.7.3
    code = (
        SEND
        + """
s.send(answer(OUT=np.float32([1])))
s.send(pb_utils.InferenceResponse(error=pb_utils.TritonError("half way", pb_utils.TritonError.UNAVAILABLE)))
s.send(answer(OUT=np.float32([3])), flags=1)"""
    )
    responses = stream.responses(code)
    assert [r.error.message if r.error else None for r in responses] == [None, "half way", None]
    iterator = stream.infer(code)
    assert numbers([next(iterator)]) == [1]
    with pytest.raises(TritonError, match="half way"):
        next(iterator)
    assert numbers([next(iterator)]) == [3]
    assert list(iterator) == []


def test_outputs_that_were_not_requested_stay(stream: Script) -> None:  # rule 1.9.5
    code = (
        SEND + "s.send(answer(OUT=np.ones(1 << 18, np.float32), TEXT=np.array(['t'], dtype=object), NO=np.ones(3)), 1)"
    )
    text = np.array([code.encode()], dtype=np.object_)
    (response,) = stream.model.infer(inputs={"CODE": text}, requested_outputs=["TEXT"])
    assert list(response.outputs) == ["TEXT"]
    (response,) = stream.model.infer(inputs={"CODE": text})
    assert sorted(response.outputs) == ["OUT", "TEXT"]


def test_the_short_form_is_for_models_that_answer_once(stream: Script) -> None:  # rule 3.7.4
    with pytest.raises(TritonError, match="ModelInfer RPC doesn't support models with decoupled transaction policy"):
        stream.model(CODE=[b"pass"])


def test_cancellation_is_seen_by_the_model(stream: Script) -> None:  # rule 3.10.3
    iterator = stream.infer(
        SEND + "s.send(answer(OUT=np.float32([0])))\n"
        "while not (request.is_cancelled() and s.is_cancelled()): time.sleep(0.002)\n"
        "s.send(answer(OUT=np.float32([1])))\ns.send(flags=1)"
    )
    assert numbers([next(iterator)]) == [0]
    iterator.cancel()
    assert numbers(list(iterator)) == [1]


def test_async_iterators(stream: Script) -> None:
    text = np.array([(SEND + "for n in range(5): s.send(answer(OUT=np.float32([n])))\ns.send(flags=1)").encode()])

    async def one() -> list[float]:
        return [float(r.outputs["OUT"].numpy()[0]) async for r in stream.model.async_infer(inputs={"CODE": text})]

    async def several() -> list[list[float]]:
        return await asyncio.gather(*(one() for _ in range(10)))

    assert asyncio.run(several()) == [list(range(5))] * 10


# -- default mode


@pytest.mark.parametrize(
    "code",
    [
        "s.send(answer(OUT=np.float32([4])), flags=1)\nreturn [None]",
        "s.send(answer(OUT=np.float32([4])))\ns.send(flags=1)\nreturn [None]",
        "s.send(answer(OUT=np.float32([4])), flags=1)\nreturn None",
        "s.send(answer(OUT=np.float32([4])), flags=1)\nreturn [answer(OUT=np.float32([5]))]",  # rule 3.2.3
        "threading.Timer(0.01, s.send, (answer(OUT=np.float32([4])), 1)).start()\nreturn [None]",
    ],
)
def test_senders_in_default_mode(script: Script, code: str) -> None:
    assert script(SEND + code)["OUT"] == [4]
    assert script.value("1") == 1
    eventually(lambda: script.instance.inflight == {})


# -- coroutines


COROUTINES = """
import asyncio
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.open = 0

    async def execute(self, requests):
        {body}
"""


def test_coroutines_of_a_decoupled_model_interleave(lab: Lab) -> None:  # rule 3.8.2
    body = """
        self.open += 1
        while self.open < 3:
            await asyncio.sleep(0.002)
        requests[0].get_response_sender().send(
            pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.float32([self.open]))]), 1)
    """
    model = lab.load("gather", COROUTINES.format(body=body.strip()), config("", "OUT FP32 1", DECOUPLED))
    results = in_threads(3, lambda index: [float(r.outputs["OUT"].numpy()[0]) for r in model.infer()])
    assert results == [[3.0]] * 3
    lab.server.unload(model)


def test_coroutines_of_a_default_model_are_awaited(lab: Lab) -> None:  # rule 3.8.1
    body = """
        await asyncio.sleep(0.01)
        if requests[0].request_id() == "fail":
            raise ValueError("in a coroutine")
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.float32([7]))]) for _ in requests]
    """
    model = lab.load("awaited", COROUTINES.format(body=body.strip()), config("", "OUT FP32 1"))
    assert model()["OUT"] == [7]
    with pytest.raises(TritonError, match="message: ValueError: in a coroutine"):
        next(model.infer(request_id="fail"))
    assert model()["OUT"] == [7]
    lab.server.unload(model)


def test_an_exception_in_a_background_coroutine_ends_its_request(lab: Lab) -> None:
    """Triton logs it and leaves the client waiting (rule 3.8.2)."""
    body = 'await asyncio.sleep(0.01); raise ValueError("nobody awaits this")'
    model = lab.load("lost", COROUTINES.format(body=body), config("", "OUT FP32 1", DECOUPLED))
    (response,) = model.infer(raise_on_error=False)
    assert response.error is not None
    assert "ValueError: nobody awaits this" in response.error.message
    lab.server.unload(model)
