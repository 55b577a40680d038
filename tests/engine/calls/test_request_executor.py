"""BLS on the link: blocks that must go back, callees and callers that die, calls from many threads."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from tests.serving import DECOUPLED, SCRIPTED, SCRIPTED_CONFIG, Lab, Script, config, eventually, in_threads
from tritonlab.core.status import ModelError

BLS = """
def call(code, model="callee", decoupled=False, **arrays):
    inputs = [pb_utils.Tensor("CODE", np.array([code.encode()], dtype=object))]
    inputs += [pb_utils.Tensor(name, array) for name, array in arrays.items()]
    return pb_utils.InferenceRequest(inputs=inputs, requested_output_names=[], model_name=model).exec(decoupled)

def out(response):
    assert not response.has_error(), response.error().message()
    return pb_utils.get_output_tensor_by_name(response, "OUT").as_numpy()
"""
CALLER = SCRIPTED.replace("\n\nclass TritonPythonModel:", BLS + "\n\nclass TritonPythonModel:")


@pytest.fixture(scope="module")
def models(lab: Lab) -> Lab:
    lab.load("caller", CALLER, SCRIPTED_CONFIG)
    lab.load("callee", SCRIPTED, SCRIPTED_CONFIG)
    lab.load("stream", SCRIPTED, config("CODE STRING 1; X? FP32 -1", "OUT FP32 -1; TEXT STRING -1", DECOUPLED))
    return lab


@pytest.fixture
def caller(models: Lab) -> Script:
    return models.script("caller")


@pytest.fixture
def callee(models: Lab) -> Script:
    return models.script("callee")


ONE = "return [answer(OUT=np.float32([1]))]"
USED = "sys.modules['_pb_stub.api.bridge'].current().region.used"


def used(script: Script) -> list[int]:
    """Return the bytes in use in both regions of a stub, after a request that returns what it could."""
    script.value("0")
    stub = script.instance.stub
    assert stub is not None
    return [stub.link.region.used, int(script.value(USED))]


@pytest.mark.parametrize("count", [1, 10_000, 1 << 20])
def test_tensors_cross_both_ways_and_every_block_goes_back(caller: Script, callee: Script, count: int) -> None:
    code = f"""
    sent = np.arange({count}, dtype=np.float32)
    for n in range(4):
        got = out(call("return [answer(OUT=tensor(request, 'X').as_numpy() + 1)]", X=sent))
        assert np.array_equal(got, sent + 1)
        got += 1  # a copy of the caller's own
    del got
    {ONE}
    """
    for _ in range(3):
        assert caller(code)["OUT"] == [1]
    assert used(caller) == [0, 0]
    assert used(callee) == [0, 0]


@pytest.mark.parametrize("waits", ["infer.exec({})", "asyncio.run(later(infer))"])
@pytest.mark.parametrize("model", ["callee", "stream"])
def test_a_loop_of_calls_keeps_the_tensors_of_one(models: Lab, model: str, waits: str) -> None:
    caller = models.script("caller")
    reply = {"callee": "return [%s]", "stream": "request.get_response_sender().send(%s, flags=1)"}[model]
    decoupled = "decoupled=True" if model == "stream" else ""
    kept = caller(f"""
    import asyncio
    async def later(infer):
        return await infer.async_exec({decoupled})
    kept = []
    for _ in range(6):
        sent = [
            pb_utils.Tensor("CODE", np.array([b"{reply % "answer(OUT=np.ones(1 << 20, np.float32))"}"], object)),
            pb_utils.Tensor("X", np.ones(1 << 20, np.float32)),
        ]
        infer = pb_utils.InferenceRequest(model_name="{model}", requested_output_names=["OUT"], inputs=sent)
        response = {waits.format(decoupled)}
        assert out(next(response) if {model == "stream"} else response).all()
        kept.append({USED})
    return [answer(OUT=np.float32(kept))]
    """)["OUT"]
    assert len(set(kept)) == 1, kept
    assert used(caller) == [0, 0]
    stub, callee = caller.instance.stub, models.script(model).instance.stub
    assert stub is not None and callee is not None
    for link in (stub.link, callee.link):  # a region never shrinks: its size has the most that it held
        assert link.region.size < 3 * (4 << 20), link.region.size
        assert link.stub_region.size < 3 * (4 << 20), link.stub_region.size


def test_a_response_that_is_kept_keeps_its_tensors(caller: Script, callee: Script) -> None:
    caller(
        f"""
        self.kept["r"] = call("return [answer(OUT=np.full(1 << 20, 7, np.float32))]")
        for n in range(5): call("return [answer(OUT=np.zeros(1 << 20, np.float32))]")
        {ONE}
        """
    )
    assert caller(f"assert (out(self.kept.pop('r')) == 7).all()\n{ONE}")["OUT"] == [1]
    assert used(caller) == [0, 0]


@pytest.mark.parametrize("taken", [0, 1, 5])
def test_an_iterator_that_is_dropped_gives_everything_back(caller: Script, models: Lab, taken: int) -> None:
    stream = models.script("stream")
    caller(
        f"""
        code = "s = request.get_response_sender()\\n" \\
            "for n in range(5): s.send(answer(OUT=np.full(1 << 18, n, np.float32)))\\ns.send(flags=1)"
        responses = call(code, "stream", decoupled=True)
        for n in range({taken}): assert out(next(responses))[0] == n
        del responses
        {ONE}
        """
    )
    eventually(lambda: stream.instance.inflight == {})
    eventually(lambda: used(caller) == [0, 0])


def test_a_callee_that_dies_is_an_error_response(caller: Script, callee: Script) -> None:
    text = caller(
        """
        response = call("os._exit(3)")
        return [answer(TEXT=np.array([response.error().message()], dtype=object))]
        """
    )["TEXT"][0]
    assert text == b"Stub process 'callee_0_0' is not healthy."
    assert caller(f"assert out(call({ONE!r}))[0] == 1\n{ONE}")["OUT"] == [1]


def test_a_caller_that_dies_leaves_the_callee_alone(caller: Script, callee: Script) -> None:
    restarts = callee.instance.replacement.count
    slow = "time.sleep(0.1); return [answer(OUT=np.zeros(1 << 20, np.float32))]"
    with pytest.raises(ModelError):
        caller(f"threading.Timer(0.03, os._exit, (1,)).start(); call({slow!r})")
    assert callee.value("5") == 5
    assert callee.instance.replacement.count == restarts
    assert used(callee) == [0, 0]
    assert caller.value("6") == 6


def test_calls_of_many_threads_of_one_model(caller: Script, callee: Script) -> None:
    got = caller(
        """
        from concurrent.futures import ThreadPoolExecutor
        def one(n, out=out, call=call, np=np):
            return out(call("return [answer(OUT=tensor(request, 'X').as_numpy() * 2)]", X=np.full(2000, n, np.float32)))
        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(one, range(40)))
        assert all((r == 2 * n).all() for n, r in enumerate(results))
        return [answer(OUT=np.float32([len(results)]))]
        """
    )
    assert got["OUT"] == [40]


def test_many_clients_of_a_calling_model(caller: Script, callee: Script) -> None:
    def client(index: int) -> float:
        echo = "return [answer(OUT=tensor(request, 'X').as_numpy())]"
        code = f"return [answer(OUT=out(call({echo!r}, X=tensor(request, 'X').as_numpy())))]"
        return float(caller(code, X=np.full(3, index, np.float32))["OUT"][2])

    assert in_threads(16, client) == list(range(16))


def test_nobody_reads_for_a_caller_that_waits_for_another_model(caller: Script, callee: Script, tmp_path: Path) -> None:
    """The link reader carries the messages of both then."""
    hold = tmp_path / "hold"
    hold.touch()
    waiting = f"import os, time\nwhile os.path.exists({str(hold)!r}): time.sleep(0.005)\n{ONE}"
    held = threading.Thread(target=lambda: caller(f"out(call({waiting!r}))\n{ONE}"))
    held.start()
    eventually(lambda: callee.instance.batch_id)
    (request,) = caller.instance.inflight.values()
    leader = request.executor
    assert leader is not None
    assert not leader.lead(lambda: True)
    hold.unlink()
    held.join()
    assert leader.lead(lambda: True)


def test_a_request_that_does_not_fit_is_an_error_response(lab: Lab, tmp_path: object) -> None:
    small = Lab(lab.repository, backend_config={"shm-limit-byte-size": str(4 << 20)}, warm=0)
    try:
        small.load("small", CALLER, SCRIPTED_CONFIG)
        script = small.script("small")
        text = script(
            """
            response = call("return []", "small", X=np.zeros(8 << 20, np.float32))
            return [answer(TEXT=np.array([response.error().message()], dtype=object))]
            """
        )["TEXT"][0].decode()
        assert "Failed to increase the shared memory pool size to " in text
        assert script.value("1") == 1
    finally:
        small.server.stop()
