"""Processes that the model forked, and what they can do, in real stubs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.serving import DECOUPLED, SCRIPTED, SCRIPTED_CONFIG, Lab, Script, alive, eventually

#: `in_child(code)` runs the body of a function in a forked process and gives what it returned, or its exception.
FORKER = (
    SCRIPTED
    + """
import json, multiprocessing, textwrap


def work(code):
    scope = dict(globals())
    exec("def script():\\n" + textwrap.indent(textwrap.dedent(code).strip(), "    "), scope)
    try:
        return scope["script"]()
    except BaseException as error:
        return "!%s: %s" % (type(error).__name__, error)


def run_in(count, code):
    with multiprocessing.get_context("fork").Pool(count) as pool:
        return pool.map_async(work, [code] * count).get(20)


def in_child(code):
    return run_in(1, code)[0]


def call(model, code, decoupled=False):
    inputs = [pb_utils.Tensor("CODE", np.array([code.encode()], dtype=object))]
    request = pb_utils.InferenceRequest(model_name=model, requested_output_names=[], inputs=inputs)
    found = request.exec(decoupled)
    return [value_of(response) for response in found] if decoupled else value_of(found)


def value_of(response):
    if response.has_error():
        return "!" + response.error().message()
    return {tensor.name(): tensor.as_numpy().tolist() for tensor in response.output_tensors()}


def say(value):
    return [answer(TEXT=np.array([json.dumps(value)], dtype=object))]
"""
)
NINE = "return [answer(OUT=np.float32([9]))]"
CALL = f"return call('callee', {NINE!r})"


@pytest.fixture(scope="module")
def forker(lab: Lab) -> Script:
    lab.load("callee", SCRIPTED, SCRIPTED_CONFIG)
    lab.load("callee_flow", SCRIPTED, SCRIPTED_CONFIG + DECOUPLED)
    return Script(lab.load("forker", FORKER, SCRIPTED_CONFIG))


def run(script: Script, code: str) -> Any:
    return json.loads(script(code)["TEXT"][0])


def in_children(script: Script, code: str, count: int = 1) -> list[Any]:
    """Return the result of a function's body in each of `count` forked processes, or the exception it ends with."""
    return list(run(script, f"return say(run_in({count}, {code!r}))"))


def links(script: Script) -> int:
    stub = script.instance.stub
    assert stub is not None
    return stub.process.forks.count


def test_bls_from_a_pool(forker: Script) -> None:
    assert in_children(forker, CALL) == [{"OUT": [9.0]}]
    assert in_children(forker, CALL, 4) == [{"OUT": [9.0]}] * 4
    eventually(lambda: links(forker) == 0)


def test_bls_from_parent_and_children_at_once(forker: Script) -> None:
    code = f"""
    with multiprocessing.get_context("fork").Pool(3) as pool:
        pending = pool.map_async(work, [{f"return [call('callee', {NINE!r}) for _ in range(30)]"!r}] * 3)
        own = [call("callee", {NINE!r}) for _ in range(60)]
        return say([own, pending.get(20)])
    """
    own, others = run(forker, code)
    assert own == [{"OUT": [9.0]}] * 60
    assert others == [[{"OUT": [9.0]}] * 30] * 3


def test_large_tensors_cross_from_a_child(forker: Script) -> None:
    echo = "return [answer(OUT=tensor(request, 'X').as_numpy()[::-1])]"
    code = f"""
    x = np.arange(700_000, dtype=np.float32)
    inputs = [pb_utils.Tensor("CODE", np.array([{echo.encode()!r}], dtype=object)), pb_utils.Tensor("X", x)]
    for _ in range(3):
        r = pb_utils.InferenceRequest(model_name="callee", requested_output_names=["OUT"], inputs=inputs).exec()
        if not np.array_equal(r.output_tensors()[0].as_numpy(), x[::-1]):
            return "differs"
    return "same"
    """
    assert in_children(forker, code) == ["same"]


def test_an_iterator_in_a_child(forker: Script) -> None:
    """With Triton (2.51) it hangs."""
    flow = "s = request.get_response_sender()\nfor n in range(3): s.send(answer(OUT=np.float32([n])))\ns.send(flags=1)"
    (found,) = in_children(forker, f"return call('callee_flow', {flow!r}, True)")
    assert found == [{"OUT": [0.0]}, {"OUT": [1.0]}, {"OUT": [2.0]}, {}]


def test_metrics_log_and_model_control_in_a_child(lab: Lab, forker: Script) -> None:
    code = """
    family = pb_utils.MetricFamily("from_a_child", "d", pb_utils.MetricFamily.COUNTER)
    metric = family.Metric({"pid": "x"})
    metric.increment(2)
    pb_utils.Logger.log_warn("hello from a child")
    return [metric.value(), pb_utils.is_model_ready("callee")]
    """
    assert in_children(forker, code) == [[2.0, True]]
    (record,) = [r for r in forker.model.logs() if r.text == "hello from a child"]
    assert (record.stream, record.level, record.file) == ("log", "WARNING", "<string>")
    eventually(lambda: "from_a_child" not in lab.server.metrics())  # its family ended with it


def test_a_childs_copy_of_a_family_is_not_the_family(lab: Lab, forker: Script) -> None:
    run(forker, "self.kept['f'] = pb_utils.MetricFamily('parents', 'd', pb_utils.MetricFamily.GAUGE)\nreturn say(0)")
    code = """
    self.kept["m"] = self.kept["f"].Metric({"of": "parent"})
    pid = os.fork()
    if pid == 0:
        self.kept["m"].set(5)
        self.kept.clear()
        pb_utils.MetricFamily("another", "d", pb_utils.MetricFamily.GAUGE)
        os._exit(0)
    os.waitpid(pid, 0)
    return say(self.kept["m"].value())
    """
    assert run(forker, code) == 5.0
    assert 'parents{of="parent"} 5' in lab.server.metrics()
    run(forker, "self.kept.clear()\nreturn say(0)")


def test_a_child_sees_cancellation_and_may_answer(forker: Script) -> None:
    """With Triton (2.51) the question hangs, and the answer ends the server."""
    code = """
    sender = request.get_response_sender()
    pid = os.fork()
    if pid == 0:
        sender.send(say([request.is_cancelled(), os.getpid() != self.kept.get("pid")])[0], 1)
        os._exit(0)
    os.waitpid(pid, 0)
    return [None]
    """
    assert run(forker, code) == [False, True]
    assert run(forker, "return say(1)") == 1


def test_a_sender_dropped_by_one_process_is_not_forgotten_by_the_other(forker: Script) -> None:
    code = """
    pid = os.fork()
    if pid == 0:
        time.sleep(0.1)
        request.get_response_sender().send(say("from the child")[0], 1)
        os._exit(0)
    self.kept["child"] = pid
    request.get_response_sender()
    return [None]
    """
    assert run(forker, code) == "from the child"
    run(forker, "os.waitpid(self.kept['child'], 0)\nreturn say(0)")


def test_the_other_way_round(forker: Script) -> None:
    code = """
    sender = request.get_response_sender()
    pid = os.fork()
    if pid == 0:
        del sender
        requests.clear()
        os._exit(0)
    os.waitpid(pid, 0)
    sender.send(say("from the parent")[0], 1)
    return [None]
    """
    assert run(forker, code) == "from the parent"


@pytest.mark.parametrize(
    ("ending", "status"),
    [("return say(1)", 0), ("sys.exit(3)", 3), ("raise ValueError('in a child')", 1), ("os._exit(7)", 7)],
    ids=["return", "sys.exit", "exception", "_exit"],
)
def test_a_child_that_comes_back_into_the_stub_ends_there(forker: Script, ending: str, status: int) -> None:
    code = f"""
    pid = os.fork()
    if pid == 0:
        {ending}
    return say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """
    assert run(forker, code) == status
    assert run(forker, "return say('still here')") == "still here"


def test_a_grandchild_has_a_link_of_its_own(forker: Script) -> None:
    code = f"""
    pid = os.fork()
    if pid == 0:
        first = call("callee", {NINE!r})
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.write(writer, json.dumps(call("callee", {NINE!r})).encode())
            os._exit(0)
        os.wait()
        second = json.loads(os.read(reader, 999))
        os._exit(0 if first == second == call("callee", {NINE!r}) else 1)
    return say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """
    assert run(forker, code) == 0


def test_a_child_that_dies_in_a_call_harms_nobody(forker: Script) -> None:
    slow = "time.sleep(0.2)\n" + NINE
    code = f"""
    pid = os.fork()
    if pid == 0:
        threading.Timer(0.05, os._exit, (1,)).start()
        call("callee", {slow!r})
    os.waitpid(pid, 0)
    return say(call("callee", {NINE!r}))
    """
    assert run(forker, code) == {"OUT": [9.0]}
    eventually(lambda: links(forker) == 0)


def test_a_program_that_the_model_starts_inherits_nothing_of_the_link(forker: Script) -> None:
    code = """
    import subprocess
    seen = subprocess.run(["ls", "-l", "/proc/self/fd"], stdout=subprocess.PIPE, close_fds=False, text=True).stdout
    return say([line.rsplit("-> ", 1)[1] for line in seen.splitlines() if "socket:" in line or "memfd" in line])
    """
    assert run(forker, code) == []


POOLED = FORKER.replace(
    "    def initialize(self, args):\n",
    "    def initialize(self, args):\n"
    "        self.pool = multiprocessing.get_context('fork').Pool(2)\n"
    "        self.early = self.pool.apply_async(work, (\"return call('callee', 'return [answer()]')\",)).get(20)\n",
)


def test_a_pool_of_initialize_may_use_bls_once_the_model_is_ready(lab: Lab, forker: Script) -> None:
    """With Triton it never may: there the copy of a stub that has not initialized its model stays one."""
    pooled = Script(lab.load("pooled", POOLED, SCRIPTED_CONFIG))
    assert run(pooled, "return say(self.early)") == "!BLS is only supported during the 'execute' function."
    assert run(pooled, f"return say(self.pool.map_async(work, [{CALL!r}] * 4).get(20))") == [{"OUT": [9.0]}] * 4
    (first, second) = run(pooled, "return say([process.pid for process in self.pool._pool])")
    lab.server.unload("pooled")
    assert not alive(first)
    assert not alive(second)


def test_what_a_child_may_not_do_in_other_phases(lab: Lab, forker: Script) -> None:
    finalize = f"    def finalize(self):\n        print('in finalize:', in_child({CALL!r}))\n\n"
    lab.load("finalizer", FORKER.replace("    def execute(", finalize + "    def execute("), SCRIPTED_CONFIG)
    lab.server.unload("finalizer")
    (line,) = [r.text for r in lab.server.logs("finalizer") if r.text.startswith("in finalize:")]
    assert line == "in finalize: !TritonModelException: BLS is only supported during the 'execute' function."


def test_numpy_views_of_inputs_are_readable_in_a_child(lab: Lab, forker: Script) -> None:
    x = np.arange(300_000, dtype=np.float32)
    code = """
    total = []
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, str(float(tensor(request, "X").as_numpy().sum(dtype=np.float64))).encode())
        os._exit(0)
    os.wait()
    return say(float(os.read(reader, 99)))
    """
    (response,) = forker.infer(code, X=x)
    assert json.loads(response.outputs["TEXT"].numpy()[0]) == float(x.sum(dtype=np.float64))
