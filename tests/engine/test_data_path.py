"""Tensors on their way through both regions: every datatype and size, and who may keep what for how long."""

from __future__ import annotations

import gc
import os
import random
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from tests.interrupting import Interrupter
from tests.models import ADD_SUB, ADD_SUB_CONFIG, ECHO, executes
from tests.serving import Lab, Script, config, eventually, in_threads, instances, open_descriptors
from tritonlab.core.inference.infer_request import InferenceRequest
from tritonlab.server.api.model import Model
from tritonlab.server.api.response_iterator import RequestInterrupted

#: Hands its input on without looking at it.
FORWARD = ECHO.replace("pb_utils.Tensor(t.name(), t.as_numpy()) for t in request.inputs()", "*request.inputs()")

TYPES = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
}
#: The stub's region as its writer sees it, and how much of it is out.
STUB_REGION = "sys.modules['_pb_stub.api.bridge'].current().region"


def echo(lab: Lab, name: str, datatype: str, dims: str = "-1", source: str = ECHO) -> Model:
    model = lab.server.model(name)
    if model.state == "UNKNOWN":
        model = lab.load(name, source, config(f"T {datatype} {dims}", f"T {datatype} {dims}"))
    return model


@pytest.mark.parametrize("datatype", TYPES)
@pytest.mark.parametrize("count", [0, 1, 3, 5000, 400_000])
def test_numbers_of_every_type_and_size(lab: Lab, datatype: str, count: int) -> None:
    dtype = np.dtype(TYPES[datatype])
    sent = (np.arange(count) % 200).astype(dtype)
    received = echo(lab, f"echo_{datatype.lower()}", datatype)(T=sent)["T"]
    assert received.dtype == dtype
    assert (received == sent).all()
    assert received.shape == sent.shape


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0, 3), (1, 1, 1, 1), (3, 4, 5), (2,) * 12])
def test_shapes(script: Script, shape: tuple[int, ...]) -> None:
    """A model may answer in any shape, whatever its configuration says (rule 3.4.3); scalars and nothing included."""
    out = script(f"return [answer(OUT=np.arange({int(np.prod(shape))}, dtype=np.float32).reshape({shape}))]")["OUT"]
    assert out.shape == shape
    assert out.ravel().tolist() == list(range(int(np.prod(shape))))


@pytest.mark.parametrize(
    "elements",
    [
        [],
        [b""],
        [b"", b"a", b""],
        [b"\0", b"a\0b\0", b"\0\0\0"],
        ["text", "\u00e9\u4f60\U0001f600", ""],
        [b"x" * 100_000, b""],
        [b"%d" % number for number in range(5000)],
    ],
)
def test_text_and_bytes(lab: Lab, elements: list[Any]) -> None:
    sent = np.empty(len(elements), dtype=np.object_)
    sent[:] = elements
    received = echo(lab, "echo_string", "STRING")(T=sent)["T"]
    assert received.tolist() == [e if isinstance(e, bytes) else e.encode() for e in elements]


@pytest.mark.parametrize("count", [1, 5000, 1_000_000])
def test_bfloat16_by_dlpack(lab: Lab, count: int) -> None:
    torch = pytest.importorskip("torch")
    source = ECHO.replace("pb_utils.Tensor(t.name(), t.as_numpy())", "pb_utils.Tensor.from_dlpack('T', double(t))")
    source = "import torch\n\ndef double(t):\n    return torch.from_dlpack(t.to_dlpack()) * 2\n" + source
    sent = torch.arange(count).to(torch.bfloat16)
    (response,) = echo(lab, "double_bf16", "BF16", source=source).infer(inputs={"T": sent})
    assert torch.equal(torch.from_dlpack(response.outputs["T"]), sent * 2)


def test_layouts_that_are_not_contiguous(lab: Lab) -> None:
    model = echo(lab, "echo_matrix", "FP32", "-1, -1")
    base = np.arange(2000 * 30, dtype=np.float32).reshape(2000, 30)
    for sent in (base.T, base[::2, ::-1], np.asfortranarray(base), base[:, 3:4], base.astype(">f4")):
        assert (model(T=sent)["T"] == sent).all()


def test_sixty_four_megabytes_go_through_and_come_back(lab: Lab) -> None:
    model = echo(lab, "echo_fp32", "FP32")
    sent = np.random.default_rng(0).random(16 << 20, dtype=np.float32)
    for _ in range(3):
        assert (model(T=sent)["T"] == sent).all()
    (instance,) = instances(model)
    assert instance.stub is not None
    assert instance.stub.link.region.size < 80 << 20  # it grew once and is used again


def test_a_tensor_that_is_handed_on(lab: Lab) -> None:  # rule 1.4.11: what is sent are the bytes that came
    model = echo(lab, "forward", "FP32", source=FORWARD)
    for count in (0, 1, 100, 1_000_000):
        sent = np.arange(count, dtype=np.float32)
        assert (model(T=sent)["T"] == sent).all()


def test_the_authors_writes_stay_the_authors(script: Script) -> None:  # rule 1.4.11
    for count in (4, 1 << 20):
        sent = np.ones(count, np.float32)
        out = script(
            """
            array = tensor(request, "X").as_numpy()
            array += 1
            assert array is tensor(request, "X").as_numpy() and (array == 2).all()
            return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)])]
            """,
            X=sent,
        )["OUT"]
        assert (out == 2).all()
        assert (sent == 1).all()


# -- outputs the caller keeps


@pytest.mark.parametrize("count", [4, 10_000, 1 << 20])
def test_outputs_that_are_kept_never_change(script: Script, count: int) -> None:
    code = "return [answer(OUT=np.full(%d, %d, np.float32))]"
    kept = [script(code % (count, number))["OUT"] for number in range(6)]
    slices = [out[1:2] for out in kept]
    for number in range(6, 30):
        script(code % (count, number))
    assert [out[0] for out in kept] == list(range(6))
    assert all((out == out[0]).all() for out in kept)
    kept.clear()
    assert [out[0] for out in slices] == list(range(6))


def test_blocks_go_back_when_the_last_view_is_gone(script: Script) -> None:
    script.value("0")
    assert script.value(f"{STUB_REGION}.used") == 0
    kept = script("return [answer(OUT=np.zeros(1 << 20, np.float32))]")["OUT"]
    part = kept[5:7]
    del kept
    gc.collect()
    assert script.value(f"{STUB_REGION}.used") == 4 << 20
    del part
    gc.collect()
    assert script.value(f"{STUB_REGION}.used") == 0


def test_small_outputs_hold_no_block(script: Script) -> None:
    kept = [script("return [answer(OUT=np.zeros(1000, np.float32))]")["OUT"] for _ in range(5)]
    assert script.value(f"{STUB_REGION}.used") == 0
    assert len(kept) == 5


def test_a_caller_may_write_to_an_output(script: Script) -> None:
    for count in (4, 1 << 20):
        out = script(f"return [answer(OUT=np.zeros({count}, np.float32))]")["OUT"]
        out += 1
        assert (out == 1).all()


def test_outputs_outlive_their_stub_and_their_model(lab: Lab) -> None:
    script = lab.script("short_lived")
    kept = script("return [answer(OUT=np.arange(1 << 20, dtype=np.float32))]")["OUT"]
    script.fails("os._exit(1)")
    script.value("1")
    lab.server.unload("short_lived")
    gc.collect()
    assert kept[-1] == (1 << 20) - 1
    assert (np.diff(kept[:1000]) == 1).all()


# -- inputs the model keeps


@pytest.mark.parametrize("count", [4, 10_000, 1 << 20])
def test_inputs_that_are_kept_never_change(script: Script, count: int) -> None:
    script("self.kept.clear(); return [answer()]")
    for number in range(4):
        script(
            f"""
            x = tensor(request, "X")
            self.kept[{number}] = x if {number} % 2 else x.as_numpy()
            return [answer()]
            """,
            X=np.full(count, number, np.float32),
        )
    for number in range(4, 20):
        script("return [answer()]", X=np.full(count, number, np.float32))
    checked = script(
        """
        arrays = [k if isinstance(k, np.ndarray) else k.as_numpy() for k in self.kept.values()]
        assert all((a == a[0]).all() for a in arrays)
        return [answer(OUT=np.float32([a[0] for a in arrays]))]
        """
    )["OUT"]
    assert checked.tolist() == [0, 1, 2, 3]
    script("self.kept.clear(); return [answer()]")


def test_an_input_that_is_kept_holds_its_block_until_it_is_dropped(script: Script) -> None:
    stub = script.instance.stub
    assert stub is not None
    region = stub.link.region
    script("self.kept.clear(); return [answer()]")
    assert region.used == 0
    script("self.kept['x'] = tensor(request, 'X'); return [answer()]", X=np.zeros(1 << 20, np.float32))
    assert region.used >= 4 << 20
    script("return [answer()]")
    assert region.used >= 4 << 20
    script("self.kept.clear(); return [answer()]")
    assert region.used == 0


def test_an_input_looked_at_after_the_region_has_grown(script: Script) -> None:
    script("self.kept['x'] = tensor(request, 'X'); return [answer()]", X=np.full(1 << 20, 7, np.float32))
    script("return [answer(OUT=tensor(request, 'X').as_numpy()[:1])]", X=np.zeros(24 << 20, np.float32))
    script("assert (self.kept.pop('x').as_numpy() == 7).all(); return [answer()]")


def test_dlpack_of_an_input_keeps_it(script: Script) -> None:
    script(
        "self.kept['d'] = np.from_dlpack(tensor(request, 'X')); return [answer()]", X=np.full(1 << 20, 5, np.float32)
    )
    script("return [answer()]", X=np.zeros(1 << 20, np.float32))
    script("assert (self.kept.pop('d') == 5).all(); return [answer()]")


# -- nothing adds up


def test_two_thousand_requests_leave_everything_as_it_was(lab: Lab) -> None:
    model = lab.load("add_sub", ADD_SUB, ADD_SUB_CONFIG)
    (instance,) = instances(model)
    assert instance.pid is not None
    kernel, stub = psutil.Process(), psutil.Process(instance.pid)
    inputs = [np.ones(size, np.float32) for size in (1, 4, 100, 5000, 50_000)]

    def some(count: int) -> None:
        for number in range(count):
            x = inputs[number % len(inputs)]
            assert model(INPUT0=x, INPUT1=x)["OUTPUT0"][0] == 2

    some(500)
    assert lab.server.core.pool.wait_warm()
    gc.collect()

    def held() -> list[int]:
        return [open_descriptors(), threading.active_count(), stub.num_fds(), stub.num_threads()]

    def grown() -> int:
        before = [kernel.memory_info().rss, stub.memory_info().rss]
        some(2000)
        gc.collect()
        after = [kernel.memory_info().rss, stub.memory_info().rss]
        return max(b - a for a, b in zip(before, after, strict=True))

    counts = held()
    # what leaks does so every time, what others in this process need does not
    assert any(grown() < 5 << 20 for _ in range(3))
    eventually(lambda: all(now <= then for now, then in zip(held(), counts, strict=True)))
    assert instance.inflight == {}
    assert instance.stub is not None
    assert instance.stub.link.region.used == 0


def test_loading_and_unloading_leave_nothing_behind(lab: Lab) -> None:
    def cycle() -> None:
        model = lab.load("cycle", ADD_SUB, ADD_SUB_CONFIG)
        x = np.ones(1 << 18, np.float32)
        assert model(INPUT0=x, INPUT1=x)["OUTPUT0"][0] == 2
        lab.server.unload(model)

    cycle()
    assert lab.server.core.pool.wait_warm()
    eventually(lambda: not any(t.name.startswith(("unload", "end")) for t in threading.enumerate()))
    before = open_descriptors(), threading.active_count()
    for _ in range(3):
        cycle()
    assert lab.server.core.pool.wait_warm()
    eventually(lambda: open_descriptors() <= before[0] and threading.active_count() <= before[1])


# -- at once


@pytest.mark.parametrize("count", [1, 2, 4])
def test_fifty_callers_and_some_instances(lab: Lab, count: int) -> None:
    model = lab.load(f"many_{count}", ADD_SUB, ADD_SUB_CONFIG.replace("KIND_CPU", f"KIND_CPU count: {count}"))

    def call(index: int) -> list[float]:
        results = []
        for number in range(5):
            x = np.full(1 + (index * 37) % 3000, index, np.float32)
            out = model(INPUT0=x, INPUT1=np.full_like(x, number))
            assert out["OUTPUT0"].shape == x.shape
            results += [float(out["OUTPUT0"][-1]), float(out["OUTPUT1"][0])]
        return results

    for index, results in enumerate(in_threads(50, call)):
        assert results == [value for number in range(5) for value in (index + number, index - number)]
    assert all(instance.inflight == {} for instance in instances(model))
    lab.server.unload(model)


def test_instances_work_at_the_same_time(lab: Lab) -> None:
    """Each execution waits for the others to have begun."""
    meeting = lab.repository / "meeting"
    meeting.mkdir()
    model = lab.load(
        "meet",
        executes(
            f"os.mkdir(os.path.join({str(meeting)!r}, str(os.getpid())))\n"
            f"while len(os.listdir({str(meeting)!r})) < 4:\n"
            "    time.sleep(0.002)\n"
            'return [pb_utils.InferenceResponse([pb_utils.Tensor("PID", np.array([os.getpid()]))])]',
            imports="import os, time",
        ),
        config("", "PID INT64 1", count=4),
    )
    pids = in_threads(4, lambda index: int(model()["PID"][0]))
    assert len(set(pids)) == 4
    assert sorted(pids) == sorted(i["pid"] for i in model.instances())
    assert [i["name"] for i in model.instances()] == ["meet_0_0", "meet_0_1", "meet_0_2", "meet_0_3"]
    lab.server.unload(model)


def test_an_interrupted_caller_leaves_the_model_usable(script: Script, tmp_path: Path) -> None:
    for number in range(3):
        begun, go, waits = tmp_path / f"begun{number}", tmp_path / f"go{number}", threading.Event()
        wait = f"open({str(begun)!r}, 'w')\nwhile not os.path.exists({str(go)!r}): time.sleep(0.005)"
        iterator = script.infer(f"{wait}\nreturn [answer(OUT=np.float32([1]))]")

        def interrupt(begun: Path = begun, waits: threading.Event = waits) -> None:
            waits.wait()
            eventually(begun.exists)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            waits.set()
            next(iterator)
        go.touch()
        assert next(iterator).outputs["OUT"].numpy() == [1]
        assert script.value("2") == 2


#: Goes on until it is cancelled, ten seconds at most.
UNTIL_CANCELLED = """
for _ in range(2000):
    if request.is_cancelled(): break
    time.sleep(0.005)
return [answer()]
"""


def code(text: str) -> Any:
    """Return the input of a SCRIPTED model, for calls of the model itself."""
    return np.array([text.encode()], dtype=np.object_)


@pytest.mark.parametrize("way", ["call", "iterate"])
def test_an_interrupted_request_is_cancelled_and_says_where_the_model_was(
    script: Script, tmp_path: Path, way: str
) -> None:
    def interrupt() -> None:
        eventually((tmp_path / "begun").exists)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(RequestInterrupted, match=r"(?s)waits for \d.*executes it\.\n-- .*, in script"):
        text = f"open({str(tmp_path / 'begun')!r}, 'w')\n{UNTIL_CANCELLED}"
        script.model(CODE=code(text)) if way == "call" else list(script.infer(text))
    eventually(lambda: script.instance.inflight == {}, 5)


def test_a_call_that_is_interrupted_as_it_begins_is_cancelled(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    core = script.model.server.core
    infer = core.infer

    def interrupted(request: InferenceRequest, version: Any = None) -> None:
        infer(request, version)
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(core, "infer", interrupted)
        with pytest.raises(RequestInterrupted):
            script.model(CODE=code(UNTIL_CANCELLED))
        with pytest.raises(RequestInterrupted):
            script.infer(UNTIL_CANCELLED)
    eventually(lambda: script.instance.inflight == {}, 5)


@pytest.mark.parametrize("way", ["call", "iterate"])
def test_an_interrupt_at_each_step_leaves_the_model_usable(script: Script, way: str) -> None:
    answered = "return [answer(OUT=np.float32([1]))]"
    interrupter = Interrupter()
    restarts = script.instance.replacement.count
    without = 0  # shots in a row that found no new place
    while without < 20:
        try:
            with interrupter.shot():
                if way == "call":
                    script.model(CODE=code(answered))
                else:
                    list(script.infer(answered))
        except KeyboardInterrupt:
            pass
        without = 0 if interrupter.hit else without + 1
        assert script.value("3") == 3
    assert len(interrupter.places) > 100
    assert script.instance.replacement.count == restarts
    eventually(lambda: script.instance.inflight == {})


def test_interrupts_at_any_moment_leave_the_model_usable(script: Script) -> None:
    armed = threading.Event()
    over = threading.Event()
    pauses = random.Random(7)

    def interrupt() -> None:
        while armed.wait() and not over.is_set():
            armed.clear()
            over.wait(pauses.uniform(0, 0.0015))
            os.kill(os.getpid(), signal.SIGINT)

    restarts = script.instance.replacement.count
    text = code("return [answer(OUT=np.float32([1]))]")
    shooter = threading.Thread(target=interrupt)
    shooter.start()
    for _ in range(200):
        with pytest.raises(KeyboardInterrupt):
            armed.set()  # for one interrupt, so that none comes outside
            while True:
                script.model(CODE=text)
    over.set()
    armed.set()
    shooter.join()
    assert script.value("3") == 3
    assert script.instance.replacement.count == restarts
    eventually(lambda: script.instance.inflight == {})
