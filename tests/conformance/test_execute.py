"""What `execute` may return, raise and send, and what the client reads then."""

from __future__ import annotations

import numpy as np
import pytest

from .clients import Answer, Client
from .models import CPU, SCRIPTED, config, model
from .rules import rule

MODELS = {
    "run": model(SCRIPTED, config("CODE STRING 1", "OUT INT32 -1;TEXT STRING -1")),
    "run_batch": model(
        SCRIPTED,
        config(
            "CODE STRING 1",
            "OUT INT32 -1",
            "max_batch_size: 4",
            "dynamic_batching { max_queue_delay_microseconds: 5000000 }",
            CPU,
        ),
    ),
    "flow": model(
        SCRIPTED, config("CODE STRING 1", "OUT INT32 -1", "model_transaction_policy { decoupled: true }", CPU)
    ),
    "no_execute": model("class TritonPythonModel:\n    pass\n", config("CODE STRING 1", "OUT INT32 -1")),
}

FAILED = "Failed to process the request(s) for model 'run_0_0', message: "

#: Snippets all scripts may use.
OK = 'ok = pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([7], dtype=np.int32))])\n'


def script(body: str) -> dict[str, np.ndarray]:
    return {"CODE": np.array([(OK + body).encode()], dtype=np.object_)}


def run(client: Client, body: str, model: str = "run") -> Answer:
    return client.infer(model, script(body))


def usable(client: Client, model: str = "run") -> bool:
    """Return whether the next request works (rule 3.5.3)."""
    return bool(run(client, "return [ok]", model).outputs["OUT"].tolist() == [7])


#: rules, script, what follows the usual beginning
BAD_RETURNS = {
    "tuple": ("return (ok,)", "Expected a list in the execute return, found type '<class 'tuple'>'."),
    "response": (
        "return ok",
        "Expected a list in the execute return, found type '<class 'c_python_backend_utils.InferenceResponse'>'.",
    ),
    "dict": ("return {}", "Expected a list in the execute return, found type '<class 'dict'>'."),
    "too many": (
        "return [ok, ok]",
        "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
        "InferenceRequest(s) size is:1, and InferenceResponse(s) size is:2\n",
    ),
    "none of one": (
        "return []",
        "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
        "InferenceRequest(s) size is:1, and InferenceResponse(s) size is:0\n",
    ),
    "number": (
        "return [5]",
        "Expected an 'InferenceResponse' object in the execute function return list, found type '<class 'int'>'.",
    ),
    "text": (
        "return ['x']",
        "Expected an 'InferenceResponse' object in the execute function return list, found type '<class 'str'>'.",
    ),
    "the length counts before the elements": (
        "return [5, 5]",
        "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
        "InferenceRequest(s) size is:1, and InferenceResponse(s) size is:2\n",
    ),
}


@rule("3.2", "3.2.4", "3.5.3")
@pytest.mark.parametrize("case", BAD_RETURNS)
def test_a_wrong_return_value_fails_the_request_and_the_next_one_works(client: Client, case: str) -> None:
    body, message = BAD_RETURNS[case]
    answer = run(client, body)
    assert (answer.code, answer.error) == ("INTERNAL", FAILED + message)
    assert usable(client)


@rule("3.2")
def test_a_subclass_of_list_passes(client: Client) -> None:
    answer = run(client, "class L(list):\n    pass\nreturn L([ok])")
    assert answer.outputs["OUT"].tolist() == [7]


@rule("3.2", "3.1.1", "5.5.3")
def test_one_bad_element_fails_all_requests_of_the_call(client: Client) -> None:
    pending = [
        client.submit("run_batch", {"CODE": script(b)["CODE"].reshape(1, 1)}) for b in ["return [ok] * 3 + [5]"] * 4
    ]
    answers = [p.answer.result(30) for p in pending]
    message = "Expected an 'InferenceResponse' object in the execute function return list, found type '<class 'int'>'."
    assert {(a.code, a.error) for a in answers} == {
        ("INTERNAL", f"Failed to process the request(s) for model 'run_batch_0_0', message: {message}")
    }


#: script, the exception as the client reads it
EXCEPTIONS = {
    "plain": ("raise ValueError('boom')", "ValueError: boom\n\nAt:\n  <string>(3): script\n"),
    "TritonModelException": (
        "raise pb_utils.TritonModelException('tme')",
        "TritonModelException: tme\n\nAt:\n  <string>(3): script\n",
    ),
    "of a package": (
        "import json\njson.loads('{')",
        "JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    ),
    "without text": ("raise KeyError", "KeyError: <EMPTY MESSAGE>\n\nAt:\n  <string>(3): script\n"),
    "KeyError shows its key's repr": ("{}['k']", "KeyError: 'k'\n\nAt:\n  <string>(3): script\n"),
    "innermost frame first": (
        "def inner():\n    1 / 0\ninner()",
        "ZeroDivisionError: division by zero\n\nAt:\n  <string>(4): inner\n  <string>(5): script\n",
    ),
    "text of many lines": ("raise RuntimeError('a\\nb')", "RuntimeError: a\nb\n\nAt:\n  <string>(3): script\n"),
    "own class": (
        "class Mine(Exception):\n    pass\nraise Mine('x', 1)",
        "Mine: ('x', 1)\n\nAt:\n  <string>(5): script\n",
    ),
    "SystemExit": ("raise SystemExit(3)", "SystemExit: 3\n\nAt:\n  <string>(3): script\n"),
    "KeyboardInterrupt": (
        "raise KeyboardInterrupt",
        "KeyboardInterrupt: <EMPTY MESSAGE>\n\nAt:\n  <string>(3): script\n",
    ),
    "notes are not told": (
        "e = ValueError('v')\ne.add_note('first')\ne.add_note('second')\nraise e",
        "ValueError: v\n\nAt:\n  <string>(6): script\n",
    ),
    "a text that cannot be had": (
        "class Bad(Exception):\n    def __str__(self):\n        1 / 0\nraise Bad",
        "Bad: <MESSAGE UNAVAILABLE DUE TO ANOTHER EXCEPTION>\n\nAt:\n  <string>(6): script\n",
    ),
    "a cause is not told": (
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('v') from e",
        "ValueError: v\n\nAt:\n  <string>(6): script\n",
    ),
}


@rule("3.5.1", "2.5.2", "3.5.3")
@pytest.mark.parametrize("case", EXCEPTIONS)
def test_an_exception_is_reported_with_its_frames_and_the_next_request_works(client: Client, case: str) -> None:
    body, message = EXCEPTIONS[case]
    answer = run(client, body)
    assert answer.code == "INTERNAL"
    assert answer.error.startswith(FAILED + message)
    assert ": script\n  <repository>/run/1/model.py(16): execute\n" in answer.error
    assert usable(client)


@rule("2.5.2", "3.5.1")
def test_why_a_text_cannot_be_had_is_reported_after_the_frames(client: Client) -> None:
    answer = run(client, "class Bad(Exception):\n    def __str__(self):\n        1 / 0\nraise Bad")
    why = "ZeroDivisionError: division by zero\n\nAt:\n  <string>(5): __str__\n"
    assert answer.error.endswith(f"execute\n\nMESSAGE UNAVAILABLE DUE TO EXCEPTION: {why}")


#: the code a response's error carries
CODES = ["UNKNOWN", "INTERNAL", "NOT_FOUND", "INVALID_ARG", "UNAVAILABLE", "UNSUPPORTED", "ALREADY_EXISTS", "CANCELLED"]


@rule("3.4.6", "3.6", "1.3.1", "1.8.4", "3.11.1")
@pytest.mark.parametrize("code", CODES)
def test_a_responses_error_goes_out_with_its_own_code_and_text(client: Client, code: str) -> None:
    body = f"return [pb_utils.InferenceResponse(error=pb_utils.TritonError('my words', pb_utils.TritonError.{code}))]"
    answer = run(client, body)
    assert (answer.code, answer.error, answer.outputs) == (code, "my words", {})


@rule("1.3.1", "1.8.4")
def test_an_errors_code_is_internal_by_default_and_outputs_are_not_sent(client: Client) -> None:
    body = "return [pb_utils.InferenceResponse(ok.output_tensors(), pb_utils.TritonError('e'))]"
    answer = run(client, body)
    assert (answer.code, answer.error, answer.outputs) == ("INTERNAL", "e", {})


@rule("3.4.1", "3.4.2", "3.4.3")
@pytest.mark.parametrize(
    ("tensors", "outputs"),
    {
        "none": ("", {}),
        "unknown name": ("T('NOPE', np.zeros(1, np.int32))", {}),
        "another dtype": ("T('OUT', np.array([1.5]))", {"OUT": ("FP64", (1,), [1.5])}),
        "another rank": ("T('OUT', np.zeros((1, 2, 1), np.int32))", {"OUT": ("INT32", (1, 2, 1), [[[0], [0]]])}),
        "scalar": ("T('OUT', np.array(3, np.int32))", {"OUT": ("INT32", (), 3)}),
        "empty": ("T('OUT', np.zeros(0, np.int32))", {"OUT": ("INT32", (0,), [])}),
        "strings": ("T('TEXT', np.array([None, b'\\xff'], object))", {"TEXT": ("BYTES", (2,), [b"None", b"\xff"])}),
        "S dtype": ("T('TEXT', np.array([b'ab', b'c']))", {"TEXT": ("BYTES", (2,), [b"ab", b"c"])}),
        "strided": ("T('OUT', np.arange(6, dtype=np.int32)[::2])", {"OUT": ("INT32", (3,), [0, 2, 4])}),
        "transposed": ("T('OUT', np.array([[1, 2]], np.int32).T)", {"OUT": ("INT32", (2, 1), [[1], [2]])}),
    }.items(),
)  # fmt: skip
def test_outputs_come_as_the_model_made_them(
    client: Client, tensors: str, outputs: tuple[str, dict[str, object]]
) -> None:
    answer = run(client, f"T = pb_utils.Tensor\nreturn [pb_utils.InferenceResponse([{outputs[0]}])]")
    assert answer.error == ""
    assert answer.plain()["outputs"] == outputs[1]


@rule("1.4.5")
def test_an_output_may_alias_an_array_until_it_is_sent(client: Client) -> None:
    body = (
        "a = np.zeros(2, np.int32)\nt = pb_utils.Tensor('OUT', a)\na[1] = 9\nreturn [pb_utils.InferenceResponse([t])]"
    )
    assert run(client, body).outputs["OUT"].tolist() == [0, 9]


@rule("1.8.5")
def test_a_response_may_be_returned_again_in_a_later_call(client: Client) -> None:
    assert run(client, "self.kept = ok\nreturn [ok]").error == ""
    assert run(client, "return [self.kept]").outputs["OUT"].tolist() == [7]


@rule("2.1.7")
def test_a_model_without_execute_says_so_at_the_first_request(client: Client) -> None:
    answer = run(client, "", "no_execute")
    assert answer.code == "INTERNAL"
    assert "Python model <repository>/no_execute/1/model.py does not implement `execute` method." in answer.error


# the response sender


@rule("1.9.1", "1.9.4", "3.1.3", "3.2.2", "1.7.9")
@pytest.mark.parametrize(
    "body",
    [
        "s = requests[0].get_response_sender()\ns.send(ok, 1)\nreturn [None]",
        "s = requests[0].get_response_sender()\ns.send(ok)\ns.send(flags=1)\nreturn [None]",
        "assert requests[0].get_response_sender() is requests[0].get_response_sender()\nreturn [ok]",
        "import threading\ns = requests[0].get_response_sender()\nt = threading.Thread(target=s.send, args=(ok, 1))\n"
        "t.start()\nt.join()\nreturn [None]",
    ],
    ids=["final on it", "final after it", "not used", "from a thread"],
)
def test_a_default_model_may_answer_through_its_sender(client: Client, body: str) -> None:
    assert run(client, body).outputs["OUT"].tolist() == [7]


#: what the sender raises; `s` is the sender
SENDER_ERRORS = {
    "flag": ("s.send(ok, 2)", "Unable to send response. Unsupported flag provided."),
    "nothing": (
        "s.send()",
        "Inference Response object must be provided when the response flags is set to zero.",
    ),
    "twice": (
        "s.send(ok, 1)\ns.send(ok, 1)",
        "Unable to send response. Non-decoupled model cannot send more than one response.",
    ),
    "final first": (
        "s.send(flags=1)",
        "Unable to send response. Non-decoupled model cannot send complete final before sending a response.",
    ),
    "closed": ("s.send(ok, 1)\ns.send(flags=1)", "Unable to send response. Response sender has been closed."),
}


@rule("1.9.2", "1.9.3", "0.5")
@pytest.mark.parametrize("case", SENDER_ERRORS)
def test_a_sender_refuses_in_default_mode(client: Client, case: str) -> None:
    body, message = SENDER_ERRORS[case]
    body = body.replace("\n", "\n    ")
    caught = f"s = requests[0].get_response_sender()\ntry:\n    {body}\nexcept pb_utils.TritonModelException as e:\n"
    caught += "    self.seen = str(e)\n"
    answered = "s.send" in body and "ok, 1" in body
    assert run(client, caught + ("return [None]" if answered else "return [ok]")).outputs["OUT"].tolist() == [7]
    read = "return [pb_utils.InferenceResponse([pb_utils.Tensor('TEXT', np.array([self.seen], object))])]"
    assert run(client, read).outputs["TEXT"].tolist() == [message.encode()]


@rule("3.2.3")
def test_an_answer_in_the_list_after_the_senders_final_is_ignored(client: Client) -> None:
    other = "pb_utils.InferenceResponse([pb_utils.Tensor('OUT', np.array([8], np.int32))])"
    assert run(client, f"requests[0].get_response_sender().send(ok, 1)\nreturn [{other}]").outputs["OUT"].tolist() == [
        7
    ]
    assert usable(client)


# decoupled

SEND = "s = requests[0].get_response_sender()\n"


def flow(client: Client, body: str) -> list[tuple[object, str, bool]]:
    """Return (value or None, error, final) of each message of the stream."""
    return [
        (a.outputs["OUT"].tolist() if "OUT" in a.outputs else None, a.error, a.final)
        for a in client.stream("flow", script(body))
    ]


@rule("3.7.1", "3.7.2", "3.7.5", "1.9.4")
@pytest.mark.parametrize(
    ("body", "messages"),
    [
        (SEND + "s.send(flags=1)", [(None, "", True)]),
        (SEND + "s.send(ok, 1)", [([7], "", True)]),
        (SEND + "s.send(ok)\ns.send(flags=1)", [([7], "", False), (None, "", True)]),
        (SEND + "for _ in range(3): s.send(ok)\ns.send(ok, 1)", [([7], "", False)] * 3 + [([7], "", True)]),
    ],
    ids=["none", "one", "one and final", "four"],
)
def test_a_decoupled_model_answers_any_number_of_times(
    client: Client, body: str, messages: list[tuple[object, str, bool]]
) -> None:
    assert flow(client, body) == messages


@rule("3.7.1", "3.1.2", "1.4.13", "1.9.1")
def test_a_decoupled_model_may_answer_from_a_thread_after_execute_returned(client: Client) -> None:
    body = (
        SEND + "import threading, time\n"
        "def later():\n"
        "    time.sleep(0.05)\n"
        "    for n in range(3):\n"
        "        s.send(pb_utils.InferenceResponse([pb_utils.Tensor('OUT', np.array([n], np.int32))]))\n"
        "    s.send(flags=1)\n"
        "threading.Thread(target=later).start()"
    )
    assert flow(client, body) == [([0], "", False), ([1], "", False), ([2], "", False), (None, "", True)]


@rule("3.7.3")
def test_an_error_response_does_not_end_a_decoupled_request(client: Client) -> None:
    error = "pb_utils.InferenceResponse(error=pb_utils.TritonError('e'))"
    body = SEND + f"s.send(ok)\ns.send({error})\ns.send(ok, 1)"
    # What an error message says of `final` is the protocol's, not the model's: compared without it.
    assert [(v, e) for v, e, _ in flow(client, body)] == [([7], ""), (None, "e"), ([7], "")]


@rule("3.3.1", "3.3.2")
@pytest.mark.parametrize("value", ["[]", "[ok]", "5"])
def test_a_decoupled_model_must_return_none(client: Client, value: str) -> None:
    message = (
        "Failed to process the request(s) for model 'flow_0_0', message: Python model 'flow_0_0' is using the decoupled"
        " mode and the execute function must return None."
    )
    assert [(v, e) for v, e, _ in flow(client, f"return {value}")] == [(None, message)]


@rule("3.5.2", "3.3.2")
def test_an_exception_after_a_response_ends_the_stream_with_an_error(client: Client) -> None:
    messages = [(v, e) for v, e, _ in flow(client, SEND + "s.send(ok)\nraise ValueError('late')")]
    assert messages[0] == ([7], "")
    text = "Failed to process the request(s) for model 'flow_0_0', message: ValueError: late\n\nAt:\n"
    assert messages[1][1].startswith(text + "  <string>(5): script\n")
    assert len(messages) == 2


@rule("3.5.2")
def test_an_exception_after_the_final_is_not_seen(client: Client) -> None:
    assert flow(client, SEND + "s.send(ok, 1)\nraise ValueError('late')") == [([7], "", True)]
    assert flow(client, SEND + "s.send(flags=1)") == [(None, "", True)]


@rule("3.7.5")
def test_a_default_model_over_a_stream_says_whether_the_final_came_with_the_response(client: Client) -> None:
    def finals(body: str) -> list[tuple[bool, bool]]:
        return [(bool(a.outputs), a.final) for a in client.stream("run", script(body))]

    assert finals("return [ok]") == [(True, True)]
    assert finals(SEND + "s.send(ok)\ns.send(flags=1)\nreturn [None]")[0] == (True, False)


# the end of a stub


@rule("2.6.1", "2.5.5")
def test_a_stub_that_ends_itself_fails_its_request(side: Client) -> None:
    assert side.placed("dies", MODELS["run"]) is None
    answer = run(side, "import os\nos._exit(1)", "dies")
    assert (answer.code, answer.error) == ("INTERNAL", "Stub process 'dies_0_0' is not healthy.")
    side.unload("dies")


@rule("2.6.1")
def test_a_stub_that_is_killed_fails_its_request(side: Client) -> None:
    assert side.placed("killed", MODELS["run"]) is None
    answer = run(side, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\nimport time\ntime.sleep(5)", "killed")
    assert (answer.code, answer.error) == ("INTERNAL", "Stub process 'killed_0_0' is not healthy.")
    side.unload("killed")


@rule("1.7.5")
def test_doubles_among_a_request_s_parameters_are_written_as_triton_does(client: Client) -> None:
    numbers = [0.5, 3.0, 1e15, 1e16, 1.5e17, 1e20, 1e21, 1e22, -2.5e300, 1e-5, 1.25e-6, 1e-7, -0.0]
    parameters = {f"p{index:02}": number for index, number in enumerate(numbers)}
    body = (
        "text = pb_utils.Tensor('TEXT', np.array([requests[0].parameters()], dtype=object))\n"
        "return [pb_utils.InferenceResponse([text])]"
    )
    text = client.infer("run", script(body), parameters=parameters).outputs["TEXT"][0].decode()
    written = [pair.partition(":")[2] for pair in sorted(text.strip("{}").split(","))]  # Triton's order is a hash's
    assert written == [
        *("0.5", "3.0", "1000000000000000.0", "10000000000000000.0", "150000000000000000.0", "100000000000000000000.0"),
        *("1e21", "1e22", "-2.5e300", "0.00001", "0.00000125", "1e-7", "-0.0"),
    ]
