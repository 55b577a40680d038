"""The origin of every line that a model prints or logs: model, version, instance and, while it executes, request."""

from __future__ import annotations

import time

from tests.serving import DECOUPLED, SCRIPTED_CONFIG, Lab, Script, config, eventually, in_threads
from tritonlab.ipc.processes.stub_log import LogRecord
from tritonlab.testing import RecordingInstrument

PRINTING = """
import sys
import triton_python_backend_utils as pb_utils

print("imported")

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        print("completed")
        return config

    def initialize(self, args):
        print("initialized")
        pb_utils.Logger.log_warn("logged")

    def execute(self, requests):
        print("executing", file=sys.stderr)
        return [pb_utils.InferenceResponse([]) for _ in requests]

    def finalize(self):
        print("finalized")
"""


def test_a_models_lines_from_import_to_finalize(lab: Lab) -> None:
    before = time.time_ns()
    model = lab.load("printing", PRINTING, config())
    next(model.infer(request_id="r1"))
    lab.server.unload(model)
    records = model.logs()
    lines = [(r.instance, r.stream, r.level, r.text, r.request_ids) for r in records]
    assert sorted(lines[:3]) == [
        ("printing_0_0", "stdout", "INFO", "imported", ()),
        ("printing_auto_complete", "stdout", "INFO", "completed", ()),
        ("printing_auto_complete", "stdout", "INFO", "imported", ()),
    ]
    assert lines[3:] == [
        ("printing_0_0", "stdout", "INFO", "initialized", ()),
        ("printing_0_0", "log", "WARNING", "logged", ()),
        ("printing_0_0", "stderr", "WARNING", "executing", ("r1",)),
        ("printing_0_0", "stdout", "INFO", "finalized", ()),
    ]
    assert all((r.model, r.version) == ("printing", 1) for r in records)
    assert all(before <= r.time_ns <= time.time_ns() for r in records)


def test_a_log_record_knows_its_line(script: Script) -> None:
    script(
        "pb_utils.Logger.log_error('wrong')\npb_utils.Logger.log_verbose('much')\nreturn [answer()]", request_id="id"
    )
    error, verbose = script.model.logs()[-2:]
    assert (error.level, error.text, error.line, error.request_ids) == ("ERROR", "wrong", 2, ("id",))
    assert (verbose.level, verbose.text, verbose.line) == ("VERBOSE", "much", 3)
    assert error.stream == "log"
    assert error.file == "<string>"


def test_lines_belong_to_the_request_that_printed_them(script: Script) -> None:
    for number in range(30):
        script(f"print('line {number}'); return [answer()]", request_id=f"r{number}")
    printed = [r for r in script.model.logs() if r.text.startswith("line ")][-30:]
    assert [(r.text, r.request_ids) for r in printed] == [(f"line {n}", (f"r{n}",)) for n in range(30)]


def test_lines_are_there_before_the_answer_is(script: Script) -> None:
    for number in range(50):
        script(f"print('at once {number}'); return [answer()]")
        assert script.lines()[-1] == f"at once {number}"


def test_a_line_without_a_newline_is_there_before_the_answer_is(script: Script) -> None:
    for number in range(20):
        script(f"print('half a line {number}', end=''); return [answer()]", request_id=f"h{number}")
        last = script.model.logs()[-1]
        assert (last.text, last.request_ids) == (f"half a line {number}", (f"h{number}",))
    script("print('whole'); return [answer()]")
    assert script.lines()[-2:] == ["half a line 19", "whole"]


def test_a_line_of_a_stream_is_not_broken_when_execute_returns(lab: Lab) -> None:
    script = lab.script("words", SCRIPTED_CONFIG + DECOUPLED)
    go = lab.repository / "words.go"
    slow = f"""
    sender, exists, sleep, say = request.get_response_sender(), os.path.exists, time.sleep, print
    def later():
        while not exists({str(go)!r}): sleep(0.005)
        say("word by word")
        sender.send(flags=1)
    print("a line, ", end="")
    threading.Thread(target=later).start()
    """
    stream = script.infer(slow)
    list(script.infer("request.get_response_sender().send(flags=1)"))  # another `execute` returns meanwhile
    go.touch()
    list(stream)
    assert script.lines()[-1] == "a line, word by word"


def test_what_was_printed_before_a_log_record_comes_before_it(script: Script) -> None:
    for number in range(50):
        script(f"print('printed {number}'); pb_utils.Logger.log_info('logged {number}'); return [answer()]")
        assert script.lines()[-2:] == [f"printed {number}", f"logged {number}"]


def test_a_request_without_an_id_is_a_request(script: Script) -> None:
    script("print('anonymous'); return [answer()]")
    assert script.model.logs()[-1].request_ids == ("",)


def test_what_threads_print_later_belongs_to_nobody(script: Script) -> None:
    script("threading.Timer(0.05, print, ('later',)).start(); return [answer()]", request_id="gone")
    while script.lines()[-1] != "later":
        time.sleep(0.005)
    assert script.model.logs()[-1].request_ids == ()


def test_what_a_stream_prints_later_belongs_to_its_request(lab: Lab) -> None:
    script = lab.script("streaming", SCRIPTED_CONFIG + DECOUPLED)
    go = lab.repository / "streaming.go"
    code = f"""
    sender, logger, exists, sleep = request.get_response_sender(), pb_utils.Logger, os.path.exists, time.sleep
    def later():  # the globals are gone by then
        while not exists({str(go)!r}): sleep(0.005)
        print("printed later")
        logger.log_info("logged later")
        sender.send(flags=1)
    threading.Thread(target=later).start()
    """
    stream = script.infer(code, request_id="s1")
    eventually(lambda: not script.instance.batch_id)  # `execute` has returned
    go.touch()
    list(stream)
    later = {r.text: r.request_ids for r in script.model.logs() if r.text.endswith("later")}
    assert later == {"printed later": ("s1",), "logged later": ("s1",)}


def test_what_threads_and_tasks_raise_is_in_the_log(script: Script) -> None:
    code = """
    def fails(): raise ValueError("in a thread")
    thread = threading.Thread(target=fails); thread.start(); thread.join()
    import asyncio, logging
    async def main():
        asyncio.get_running_loop().call_soon(fails)
        await asyncio.sleep(0)
    asyncio.run(main())
    logging.getLogger("mine").warning("by logging")
    return [answer()]
    """
    script(code, request_id="raising")
    lines = [record.text for record in script.model.logs(request="raising")]
    assert lines.count("ValueError: in a thread") == 2 and "by logging" in lines
    assert any(line.startswith('  File "<string>", line 2, in fails') for line in lines)


def test_the_lines_of_one_request(script: Script) -> None:
    for name in ("one", "two"):
        script(f"print('of {name}'); return [answer()]", request_id=name)
    (record,) = script.model.logs(request="two")
    assert record.text == "of two"
    assert script.model.logs(request=record.serials[0]) == [record]
    assert script.model.logs(request="nobody") == []


def test_what_finalize_raises_has_its_line(lab: Lab) -> None:
    model = lab.load("last", PRINTING.replace('print("finalized")', 'raise OSError("disk")'), config())
    lab.server.unload(model)
    record = next(r for r in model.logs() if "finalize failed" in r.text)
    assert record.file.endswith("/last/1/model.py") and record.line == PRINTING.count("\n")
    assert "OSError: disk" in record.text


def test_a_batch_is_all_of_its_requests(lab: Lab) -> None:
    batching = "max_batch_size: 4 dynamic_batching { preferred_batch_size: 4 max_queue_delay_microseconds: 5000000 }"
    source = PRINTING.replace('print("executing", file=sys.stderr)', 'print("batch of", len(requests))')
    model = lab.load("batched", source, config("A FP32 1", "", batching))
    in_threads(4, lambda n: next(model.infer(inputs={"A": [[0.0]]}, request_id=f"r{n}")))
    record = next(r for r in model.logs() if r.text == "batch of 4")
    assert sorted(record.request_ids) == ["r0", "r1", "r2", "r3"]
    lab.server.unload(model)


def test_instances_are_distinguished(lab: Lab) -> None:
    model = lab.load("twins", PRINTING, config(count=2))
    lines = {r.instance for r in model.logs() if r.text == "initialized"}
    assert lines == {"twins_0_0", "twins_0_1"}
    lab.server.unload(model)


def test_listeners_hear_lines_as_they_come(lab: Lab, script: Script) -> None:
    events = RecordingInstrument()
    lab.server.instruments.add(events)
    try:
        script("print('heard'); return [answer()]")
        (record,) = [r for (r,) in events.named("log") if isinstance(r, LogRecord) and r.text == "heard"]
        assert record.instance == "script_0_0"
    finally:
        lab.server.instruments.remove(events)
