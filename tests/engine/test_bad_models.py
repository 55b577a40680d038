"""What a model can do wrong while it executes: its request fails with a clear reason, the next one works."""

from __future__ import annotations

import numpy as np
import psutil
import pytest

from tests.serving import DECOUPLED, Lab, Script, config, eventually, instances
from tritonlab.core.status import Code, ModelError, TritonError

PREFIX = "Failed to process the request(s) for model 'script_0_0', message: "


@pytest.fixture(autouse=True)
def the_next_request_works(script: Script) -> None:
    """Check that the model still answers, before each test and so after each other one."""
    assert script.value("6 * 7") == 42


# -- what execute raises


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("raise ValueError('boom')", "ValueError: boom\n\nAt:\n"),
        ("raise pb_utils.TritonModelException('tme')", "TritonModelException: tme\n\nAt:\n"),
        ("sys.exit(3)", "SystemExit: 3\n\nAt:\n"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt: "),
        ("raise GeneratorExit", "GeneratorExit: "),
        ("raise MemoryError('mine')", "MemoryError: mine"),
        ("np.zeros(1 << 60, np.uint8)", "MemoryError: Unable to allocate"),
        ("def f(): f()\nf()", "RecursionError: maximum recursion depth exceeded"),
        ("raise BaseExceptionGroup('many', [ValueError(1)])", "ExceptionGroup: many (1 sub-exception)"),
        ("raise Exception('x' * (4 << 20))", "Exception: xxxx"),
    ],
)
def test_an_exception(script: Script, code: str, text: str) -> None:  # rule 3.5.1
    pid = script.pid
    error = script.fails(f"print('printed')\n{code}")
    assert error.message.startswith(PREFIX + text)
    assert isinstance(error, ModelError)
    assert error.code is Code.INTERNAL
    assert error.exception is not None
    assert error.exception.type_name.endswith(text.split(":")[0])
    assert error.exception.frames[0].file.endswith("/script/1/model.py")
    assert error.exception.frames[0].function == "execute"
    assert "printed" in error.log
    assert script.pid == pid


def test_a_cause_crosses(script: Script) -> None:
    error = script.fails("try: 1 / 0\nexcept Exception as e: raise ValueError('outer') from e")
    assert isinstance(error, ModelError)
    assert error.exception is not None
    assert error.exception.cause is not None
    assert error.exception.cause.type_name == "ZeroDivisionError"


# -- what execute returns


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("return (answer(),)", "Expected a list in the execute return, found type '<class 'tuple'>'."),
        ("return answer()", "Expected a list in the execute return, found type '<class 'c_python_backend_utils.Inf"),
        ("return {}", "Expected a list in the execute return, found type '<class 'dict'>'."),
        ("return 0", "Expected a list in the execute return, found type '<class 'int'>'."),
        (
            "return [answer(), answer()]",
            "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
            "InferenceRequest(s) size is:1, and InferenceResponse(s) size is:2\n",
        ),
        ("return []", "Number of InferenceResponse objects do not match"),
        (
            "return [5]",
            "Expected an 'InferenceResponse' object in the execute function return list, found type '<class",
        ),
        ("return [pb_utils.Tensor('OUT', np.zeros(1))]", "Expected an 'InferenceResponse' object"),
        ("return None", "The execute function returned None for a request whose response sender was never used"),
        ("return [None]", "The execute function returned None for a request whose response sender was never used"),
        (
            "request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)\nreturn [answer()]",
            "Expected a None object in the execute function return list for reschduled request, found type '<class",
        ),
    ],
)
def test_a_wrong_return(script: Script, code: str, text: str) -> None:  # rule 3.2
    error = script.fails(code)
    assert error.message.startswith(PREFIX + text)
    assert error.code is Code.INTERNAL


def test_an_error_response_goes_out_unprefixed(script: Script) -> None:  # rules 3.4.6, 3.6
    error = script.fails(
        "return [pb_utils.InferenceResponse(error=pb_utils.TritonError('no', pb_utils.TritonError.NOT_FOUND))]"
    )
    assert (error.message, error.code) == ("no", Code.NOT_FOUND)


def test_an_answer_that_does_not_fit_the_region(lab: Lab) -> None:  # rule 2.9.1
    small = Lab(lab.repository, backend_config={"shm-limit-byte-size": str(4 << 20)}, warm=0)
    try:
        script = small.script()
        error = script.fails("return [answer(OUT=np.zeros(8 << 20, np.float32))]")
        assert error.message.startswith(PREFIX + "Failed to increase the shared memory pool size to ")
        with pytest.raises(TritonError, match="Failed to increase the shared memory pool size to "):
            script("return [answer()]", X=np.zeros(8 << 20, np.float32))
        assert script.value("1") == 1
        assert script.instance.replacement.count == 0
    finally:
        small.server.stop()


# -- memory


def test_a_model_that_runs_into_its_memory_limit(script: Script) -> None:
    """A soft limit a little above what the stub has: first an array cannot be had, then the input cannot be mapped."""
    pid = script.pid
    limit = "resource.setrlimit(resource.RLIMIT_AS, (%s, resource.RLIM_INFINITY))"
    now = "int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()"
    script(f"import resource\n{limit % (now + ' + (96 << 20)')}\nreturn [answer()]")
    error = script.fails("keep = np.ones(512 << 20, np.uint8)\nreturn [answer()]")
    assert "MemoryError: Unable to allocate" in error.message
    error = script.fails("return [answer(OUT=tensor(request, 'X').as_numpy())]", X=np.ones(64 << 20, np.float32))
    assert "MemoryError" in error.message or "Cannot allocate memory" in error.message
    assert script.value("5") == 5
    script(f"import resource\n{limit % 'resource.RLIM_INFINITY'}\nreturn [answer()]")
    assert script.pid == pid
    assert script("return [answer(OUT=tensor(request, 'X').as_numpy())]", X=np.ones(8 << 20, np.float32))["OUT"].all()


# -- output


def rss() -> int:
    return int(psutil.Process().memory_info().rss)


def test_twenty_megabytes_of_output(script: Script) -> None:
    before = rss()
    lines = "for i in range(20): print((('%d ' % i) + 'x' * 98 + '\\n') * 10_000, end='')"
    assert script(lines + "\nreturn [answer(OUT=np.float32([1]))]")["OUT"] == [1]
    assert script.lines()[-1] == "19 " + "x" * 98
    assert rss() - before < 64 << 20


def test_a_line_of_five_megabytes(script: Script) -> None:
    assert script("print('y' * (5 << 20))\nreturn [answer(OUT=np.float32([2]))]")["OUT"] == [2]
    line = script.lines()[-1]
    assert line.startswith("y" * 65536)
    assert line.endswith(f" … [{(5 << 20) - 65536} bytes cut]")


def test_a_thread_that_prints_for_ever(script: Script) -> None:
    """Taking what a model has printed must end, though there always is more."""
    script(
        """
        def chatter():
            while True: print("noise")
        threading.Thread(target=chatter, daemon=True).start()
        return [answer()]
        """
    )
    for number in range(5):
        assert script.value(str(number)) == number
    script.fails("os._exit(0)")


def test_output_that_was_closed(script: Script) -> None:
    pid = script.pid
    assert script("sys.stdout.close()\nreturn [answer(OUT=np.float32([3]))]")["OUT"] == [3]
    assert script.value("4") == 4
    assert script.pid == pid
    script.fails("os._exit(0)")


def test_bytes_that_are_no_text(script: Script) -> None:
    script("os.write(1, b'\\xff\\xfe raw\\n'); print('\\ud800 surrogate'); return [answer()]")
    assert script.lines()[-2:] == ["\\xff\\xfe raw", "\\ud800 surrogate"]


# -- threads


def test_threads_left_behind(script: Script) -> None:
    script(
        """
        def busy():
            while True: pass
        for _ in range(3): threading.Thread(target=busy, daemon=True).start()
        return [answer()]
        """
    )
    assert [script.value(str(number)) for number in range(3)] == [0, 1, 2]
    script.fails("os._exit(0)")


def test_a_thread_that_is_no_daemon_does_not_keep_the_stub(lab: Lab) -> None:
    script = lab.script("left")
    script("threading.Thread(target=time.sleep, args=(600,)).start(); return [answer()]")
    stub = script.instance.stub
    lab.server.unload("left")
    assert stub is not None
    assert stub.process.child.returncode is not None


def test_a_model_that_closes_every_descriptor(script: Script) -> None:
    error = script.fails("os.closerange(3, 65536); return [answer()]")
    assert isinstance(error, ModelError)
    assert error.message == "Stub process 'script_0_0' is not healthy."


def test_a_model_that_changes_its_process(script: Script) -> None:
    script(
        "os.environ.clear(); os.chdir('/'); sys.path.clear(); sys.argv = None\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); sys.stdout = None\nreturn [answer()]"
    )
    assert script.value("8") == 8
    script.fails("os._exit(0)")


# -- decoupled


def test_an_exception_ends_the_requests_that_are_still_open(lab: Lab) -> None:  # rules 3.3.2, 3.5.2
    script = lab.script("stream", config("CODE STRING 1", "OUT FP32 -1", DECOUPLED))
    responses = script.responses(
        "sender = request.get_response_sender()\nsender.send(answer(OUT=np.float32([1])))\nraise ValueError('later')"
    )
    assert [r.error is None for r in responses] == [True, False]
    assert responses[1].error is not None
    assert "message: ValueError: later" in responses[1].error.message
    responses = script.responses(
        "request.get_response_sender().send(answer(OUT=np.float32([1])), flags=1)\nraise ValueError('after the final')"
    )
    assert [r.error for r in responses] == [None]
    error = script.fails("return []")
    assert error.message == (
        "Failed to process the request(s) for model 'stream_0_0', message: Python model 'stream_0_0' is using the "
        "decoupled mode and the execute function must return None."
    )
    eventually(lambda: instances(script.model)[0].inflight == {})
    lab.server.unload("stream")


def test_a_model_without_execute(lab: Lab) -> None:  # rule 2.1.7
    model = lab.load("no_execute", "class TritonPythonModel: pass\n")
    with pytest.raises(ModelError) as raised:
        next(model.infer())
    path = lab.repository / "no_execute" / "1" / "model.py"
    assert raised.value.message == (
        "Failed to process the request(s) for model 'no_execute_0', message: "
        f"Python model {path} does not implement `execute` method."
    )
    lab.server.unload(model)
