"""OpenAI's API in front of models of several schemas, used through the package `openai`."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import httpx
import pytest

from tests.serving import eventually, write_model
from tritonlab import Server
from tritonlab.frontends.shared.access import AccessRules
from tritonlab.tools.openai.generation import Piece
from tritonlab.tools.openai.openai_app import TextAnswer
from tritonlab.tools.openai.openai_errors import OpenAIError
from tritonlab.tools.openai.openai_requests import TextRequest
from tritonlab.tools.openai.openai_server import OpenAIServer

if TYPE_CHECKING:  # every worker of a run would pay for the import
    import openai

#: Says the words of its prompt again, up to `max_tokens`, a response for each, with its parameters first if asked to.
PARROT = """
import json
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            prompt = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy().ravel()[0].decode()
            most = pb_utils.get_input_tensor_by_name(request, "max_tokens")
            if prompt == "fail":
                error = pb_utils.TritonError("it fails")
                sender.send(pb_utils.InferenceResponse(error=error), pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
                continue
            words = prompt.split(" ")
            if prompt == "parameters":
                words = [request.parameters()]
            if prompt in ("for ever", "flood"):
                words = iter(lambda: "on" if prompt == "for ever" else "on" * 32_768, None)
            for number, word in enumerate(words):
                if most is not None and number >= most.as_numpy().ravel()[0] or request.is_cancelled():
                    break
                for part in [word[:1], word[1:] + " "] if prompt == "pärts" else [word + " "]:
                    data = part.encode()
                    for piece in [data[:2], data[2:]] if prompt == "pärts" else [data]:
                        text = pb_utils.Tensor("text_output", np.array([[piece]], dtype=object))
                        sender.send(pb_utils.InferenceResponse([text]))
                if prompt == "for ever":
                    time.sleep(0.005)
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
PARROT_CONFIG = """
backend: "python"
max_batch_size: 4
model_transaction_policy { decoupled: true }
input [
  { name: "text_input" data_type: TYPE_STRING dims: [1] },
  { name: "max_tokens" data_type: TYPE_INT32 dims: [1] optional: true }
]
output [ { name: "text_output" data_type: TYPE_STRING dims: [1] } ]
parameters { key: "openai.tokens" value { string_value: "words" } }
"""
#: One response with all that a model can give, under names of its own.
FULL = """
import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            read = lambda name: pb_utils.get_input_tensor_by_name(request, name)
            text = read("QUESTION").as_numpy()[0].decode()
            seed, tools = read("seed").as_numpy()[0], read("tools")
            found = {"ANSWER": f"{text}|{seed}", "finish_reason": "length"}
            if tools is not None:
                name = json.loads(tools.as_numpy()[0])[0]["function"]["name"]
                call = {"id": "1", "type": "function", "function": {"name": name, "arguments": "{}"}}
                found = {"ANSWER": "", "tool_calls": json.dumps([call])}
            outputs = [pb_utils.Tensor(name, np.array([value], dtype=object)) for name, value in found.items()]
            outputs += [pb_utils.Tensor("logprobs", np.array([-0.5], np.float32))]
            outputs += [pb_utils.Tensor(name, np.array([n], np.int32)) for name, n in
                        [("num_input_tokens", 7), ("num_output_tokens", 3)]]
            responses.append(pb_utils.InferenceResponse(outputs))
        return responses
"""
FULL_CONFIG = """
backend: "python"
input [
  { name: "QUESTION" data_type: TYPE_STRING dims: [1] },
  { name: "seed" data_type: TYPE_INT64 dims: [1] },
  { name: "tools" data_type: TYPE_STRING dims: [1] optional: true }
]
output [
  { name: "ANSWER" data_type: TYPE_STRING dims: [1] },
  { name: "finish_reason" data_type: TYPE_STRING dims: [1] },
  { name: "tool_calls" data_type: TYPE_STRING dims: [1] },
  { name: "logprobs" data_type: TYPE_FP32 dims: [-1] },
  { name: "num_input_tokens" data_type: TYPE_INT32 dims: [1] },
  { name: "num_output_tokens" data_type: TYPE_INT32 dims: [1] }
]
parameters { key: "openai.text" value { string_value: "ANSWER" } }
"""
LENGTHS = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy().ravel()
            vectors = np.array([[len(text), 0.5] for text in texts], np.float32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("VECTOR", vectors)]))
        return responses
"""
LENGTHS_CONFIG = """
backend: "python"
max_batch_size: 8
input [ { name: "TEXT" data_type: TYPE_STRING dims: [1] } ]
output [ { name: "VECTOR" data_type: TYPE_FP32 dims: [2] } ]
parameters { key: "openai.tokens" value { string_value: "characters" } }
"""
NUMBERS_CONFIG = """
backend: "python"
input [ { name: "IN" data_type: TYPE_FP32 dims: [1] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [1] } ]
"""
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    repository = tmp_path_factory.mktemp("openai")
    write_model(repository, "parrot", PARROT, PARROT_CONFIG)
    write_model(repository, "full", FULL, FULL_CONFIG)
    (Path(repository) / "full" / "chat_template.jinja").write_text(TEMPLATE)
    write_model(repository, "lengths", LENGTHS, LENGTHS_CONFIG)
    write_model(repository, "numbers", LENGTHS, NUMBERS_CONFIG)
    with Server(repository, max_unread_size=1 << 20) as server:
        yield server


@pytest.fixture(scope="module")
def address(server: Server) -> Iterator[str]:
    port = OpenAIServer(server.core, AccessRules(token="key"))
    yield f"http://127.0.0.1:{port.start('127.0.0.1', 0)}/v1"
    port.stop()


@pytest.fixture
def client(address: str) -> Iterator[openai.OpenAI]:
    import openai

    with openai.OpenAI(base_url=address, api_key="key", max_retries=0) as found:
        yield found


def say(*texts: str) -> list[Any]:
    roles = ["system", "user"][-len(texts) :]
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]


def test_models_are_those_that_take_a_text(client: openai.OpenAI) -> None:
    import openai

    assert [each.id for each in client.models.list()] == ["full", "lengths", "parrot"]
    parrot = client.models.retrieve("parrot")
    assert parrot.id == "parrot" and abs(parrot.created - time.time()) < 600
    assert parrot.created == client.models.retrieve("parrot").created  # a constant
    with pytest.raises(openai.NotFoundError, match="unknown model: 'missing'"):
        client.models.retrieve("missing")
    with pytest.raises(openai.BadRequestError, match="no required input is a text"):
        client.models.retrieve("numbers")


def test_the_path_of_a_model_is_read_as_a_url(address: str) -> None:
    answer = httpx.get(f"{address}/models/p%61rrot?x=1", headers={"authorization": "Bearer key"})
    assert answer.status_code == 200 and answer.json()["id"] == "parrot"


def test_a_client_without_the_key_is_refused(address: str) -> None:
    import openai

    client = openai.OpenAI(base_url=address, api_key="wrong", max_retries=0)
    with client, pytest.raises(openai.AuthenticationError) as refused:
        client.models.list()
    assert refused.value.code == "invalid_api_key" and "not the one" in refused.value.message


def test_a_completion(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="parrot", prompt="a b c d")
    (choice,) = answer.choices
    assert (choice.text, choice.finish_reason) == ("a b c d ", "stop")
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (4, 4, 8)
    (choice,) = client.completions.create(model="parrot", prompt="a b c d", max_tokens=2, echo=True).choices
    assert (choice.text, choice.finish_reason) == ("a b c da b ", "length")


def test_several_prompts_and_answers(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="parrot", prompt=["a b", "c"], n=2)
    assert [(each.index, each.text) for each in answer.choices] == [(0, "a b "), (1, "a b "), (2, "c "), (3, "c ")]
    assert answer.usage is not None and answer.usage.prompt_tokens == 3 and answer.usage.completion_tokens == 6


@pytest.mark.parametrize("stop", ["d e", ["x", "d e"]])
def test_a_stop_sequence_ends_an_answer(client: openai.OpenAI, stop: Any) -> None:
    (choice,) = client.completions.create(model="parrot", prompt="a d d e f", stop=stop).choices
    assert (choice.text, choice.finish_reason) == ("a d ", "stop")
    stream = client.completions.create(model="parrot", prompt="a d d e f", stop=stop, stream=True)
    chunks = list(stream)
    assert "".join(chunk.choices[0].text for chunk in chunks) == "a d "
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_a_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="parrot", messages=say("what is it"))
    (choice,) = answer.choices
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", "what is it ", "stop")
    answer = client.chat.completions.create(model="parrot", messages=say("be short", "hello"))
    assert answer.choices[0].message.content == "system: be short\nuser: hello\nassistant: "
    parts: Any = [{"role": "user", "content": [{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]}]
    assert client.chat.completions.create(model="parrot", messages=parts).choices[0].message.content == "a b "


def test_a_chat_in_a_stream(client: openai.OpenAI) -> None:
    options: Any = {"model": "parrot", "messages": say("a b c"), "stream_options": {"include_usage": True}}
    *chunks, end, usage = client.chat.completions.create(**options, stream=True)
    assert [chunk.choices[0].delta.role for chunk in chunks] == ["assistant", None, None, None]
    assert [chunk.choices[0].delta.content for chunk in chunks] == ["", "a ", "b ", "c "]
    assert end.choices[0].finish_reason == "stop" and not end.choices[0].delta.content
    assert usage.choices == [] and usage.usage is not None and usage.usage.total_tokens == 6
    assert {chunk.id for chunk in [*chunks, end, usage]} == {usage.id}


def test_characters_split_between_responses_arrive_whole(client: openai.OpenAI) -> None:
    chunks = list(client.completions.create(model="parrot", prompt="pärts", stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == "pärts "
    assert not any("\ufffd" in chunk.choices[0].text for chunk in chunks)


def test_options_without_an_input_are_parameters(client: openai.OpenAI) -> None:
    options: Any = {"temperature": 0.5, "seed": 3, "extra_body": {"top_k": 4, "flag": True}}
    answer = client.completions.create(model="parrot", prompt="parameters", **options)
    assert json.loads(answer.choices[0].text) == {"temperature": 0.5, "seed": 3, "top_k": 4, "flag": True}


def test_all_that_a_model_can_give(client: openai.OpenAI) -> None:
    messages = say("be good", "hi")
    answer = client.chat.completions.create(model="full", messages=messages, seed=5, n=2, logprobs=True)
    assert [each.message.content for each in answer.choices] == [
        f"<system>be good<user>hi<assistant>|{seed}" for seed in (5, 6)
    ]
    first = answer.choices[0]
    assert first.finish_reason == "length" and first.logprobs is not None and first.logprobs.content is not None
    assert [(each.token, each.logprob) for each in first.logprobs.content] == [(first.message.content, -0.5)]
    assert answer.usage is not None and (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (7, 6)
    completion = client.completions.create(model="full", prompt="hi", logprobs=1)
    logs = completion.choices[0].logprobs
    assert logs is not None and (logs.tokens, logs.token_logprobs, logs.text_offset) == (["hi|0"], [-0.5], [0])
    assert client.completions.create(model="full", prompt="hi").choices[0].logprobs is None  # not asked for


@pytest.mark.parametrize("stream", [False, True])
def test_tools_are_passed_through(client: openai.OpenAI, stream: bool) -> None:
    tools: Any = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]
    found: Any = client.chat.completions.create(model="full", messages=say("hi"), tools=tools, stream=stream)
    choice = list(found)[-1].choices[0] if stream else found.choices[0]
    assert choice.finish_reason == "tool_calls"
    (call,) = (choice.delta if stream else choice.message).tool_calls
    assert (call.function.name, call.function.arguments) == ("weather", "{}")


def test_embeddings(client: openai.OpenAI) -> None:
    answer = client.embeddings.create(model="lengths", input=["a", "abc"])  # the client asks for base64
    assert [each.embedding for each in answer.data] == [[1.0, 0.5], [3.0, 0.5]]
    assert answer.usage.prompt_tokens == 4
    answer = client.embeddings.create(model="lengths", input="ab", encoding_format="float")
    assert answer.data[0].embedding == [2.0, 0.5]


def test_of_texts_with_a_wrong_one_none_is_sent(server: Server, address: str) -> None:
    def count() -> Any:
        return server.model("lengths").statistics()["model_stats"][0]["inference_count"]

    before = count()
    body = json.dumps({"model": "lengths", "input": ["a", "\ud800"]})
    answer = httpx.post(f"{address}/embeddings", content=body, headers={"authorization": "Bearer key"})
    assert answer.status_code == 400
    with pytest.raises(AssertionError):
        eventually(lambda: count() > before, 0.5)


@pytest.mark.parametrize(
    ("path", "body", "status", "text", "param"),
    [
        ("completions", {"model": "parrot"}, 400, "Missing required parameter: 'prompt'", "prompt"),
        ("completions", {"prompt": "a"}, 400, "Missing required parameter: 'model'", "model"),
        ("completions", {"model": "parrot", "prompt": [1, 2]}, 400, "tokens are read by no model", "prompt"),
        ("completions", {"model": "parrot", "prompt": "a", "n": 0}, 400, "'n' must be an integer", "n"),
        ("completions", {"model": "parrot", "prompt": "a", "max_tokens": 0}, 400, "'max_tokens' must", "max_tokens"),
        ("completions", {"model": "parrot", "prompt": "a", "stop": [1]}, 400, "'stop' must be", "stop"),
        ("completions", {"model": "parrot", "prompt": "a", "suffix": "b"}, 400, "not supported", "suffix"),
        ("completions", {"model": "parrot", "prompt": "a", "logprobs": 2}, 400, "no output 'logprobs'", "logprobs"),
        ("completions", {"model": "parrot", "prompt": "\ud800"}, 400, "does not fit the input 'text_input'", "prompt"),
        ("completions", {"model": "parrot", "prompt": "fail"}, 500, "it fails", None),
        ("completions", {"model": "parrot", "prompt": "fail", "stream": True}, 500, "it fails", None),
        ("completions", {"model": "lengths", "prompt": "a"}, 400, "gives embeddings, no text", "model"),
        ("chat/completions", {"model": "parrot", "messages": []}, 400, "must be a list of messages", "messages"),
        ("chat/completions", {"model": "parrot", "messages": [{"content": "a"}]}, 400, "messages[0].role", None),
        (
            "chat/completions",
            {"model": "parrot", "messages": [{"role": "user", "content": "a"}], "max_completion_tokens": 0},
            400,
            "must be an integer between 1",
            "max_completion_tokens",
        ),
        ("embeddings", {"model": "parrot", "input": "a"}, 400, "gives text, no embeddings", "model"),
        ("embeddings", {"model": "lengths", "input": "a", "dimensions": 3}, 400, "2 dimensions", "dimensions"),
        ("nothing", {}, 404, "Unknown path", None),
    ],
)
def test_errors_have_openais_form(
    address: str, path: str, body: Any, status: int, text: str, param: str | None
) -> None:
    answer = httpx.post(f"{address}/{path}", content=json.dumps(body), headers={"authorization": "Bearer key"})
    error = answer.json()["error"]
    assert (answer.status_code, text in error["message"]) == (status, True), error
    assert param is None or error["param"] == param
    assert error["type"] in ("invalid_request_error", "server_error")


@pytest.mark.parametrize("pieces", [[], ["a"]])
def test_a_stream_ends_at_an_answer_that_cannot_be_read(pieces: list[str]) -> None:
    class Unreadable:
        async def pieces(self) -> AsyncIterator[Piece]:
            for each in pieces:
                yield Piece(each)
            raise TypeError("a text instead of a number")

        def leave(self) -> None:
            pass

    async def events() -> list[bytes]:
        text_request = TextRequest.from_json({"model": "m", "prompt": "a", "stream": True}, chat=False)
        answer = TextAnswer(text_request, "text_completion", "1", 0, ["a"], [cast(Any, Unreadable())], cast(Any, None))
        return [each async for each in answer.events()]

    if pieces:
        found = asyncio.run(asyncio.wait_for(events(), 10))
        error = json.loads(found[-1].removeprefix(b"data: "))["error"]
        assert error["type"] == "server_error" and "TypeError: a text instead of a number" in error["message"]
    else:
        with pytest.raises(OpenAIError, match="TypeError: a text instead of a number"):
            asyncio.run(asyncio.wait_for(events(), 10))


def open_request(address: str, stream: bool, prompt: str) -> socket.socket:
    """Return a connection with a request for an endless text on it, of which nothing was read yet."""
    body = json.dumps({"model": "parrot", "prompt": prompt, "max_tokens": 1 << 30, "stream": stream}).encode()
    place = urlsplit(address)
    connection = socket.create_connection((str(place.hostname), int(place.port or 0)))
    head = f"POST {place.path}/completions HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer key\r\n"
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return connection


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_cancels_its_request(server: Server, address: str, stream: bool) -> None:
    with open_request(address, stream, "for ever") as connection:
        eventually(server.requests)
        if stream:
            assert connection.recv(4096)
    eventually(lambda: not server.requests())  # within 100 ms: benchmarks/openai_streams.py


def test_a_client_that_does_not_read_is_cut_off(server: Server, address: str) -> None:
    with open_request(address, True, "flood") as connection:
        eventually(server.requests)
        eventually(lambda: not server.requests())
        received = b""
        while data := connection.recv(1 << 20):
            received += data
            if b'"error"' in received[-4096:]:
                break
    assert b"has left more than 1048576 bytes of responses unread" in received[-4096:]


def test_tokens_are_on_metrics_while_the_port_is_open(server: Server, client: openai.OpenAI) -> None:
    def values() -> dict[str, float]:
        lines = [line.rpartition(" ") for line in server.metrics().splitlines() if 'model="parrot"' in line]
        return {name: float(value) for name, _, value in lines if name.startswith("tritonlab:") and "le=" not in name}

    labels = '{model="parrot",version="1"}'
    before = values()
    list(client.completions.create(model="parrot", prompt="a b c", stream=True))
    client.completions.create(model="parrot", prompt="a")
    found = {name: value - before.get(name, 0) for name, value in values().items()}
    assert found[f"tritonlab:time_to_first_token_seconds_count{labels}"] == 2
    assert found[f"tritonlab:request_generation_tokens_sum{labels}"] == 4
    assert found[f"tritonlab:inter_token_latency_seconds_count{labels}"] == 2
    assert found[f"tritonlab:request_time_per_output_token_seconds_count{labels}"] == 1
    whole, first = (f"tritonlab:{name}_seconds_sum{labels}" for name in ("e2e_request_latency", "time_to_first_token"))
    assert found[whole] >= found[first] > 0
    port = OpenAIServer(server.core, AccessRules())
    port.stop()
    assert values()  # of the port that is still open


def test_a_stream_is_a_valid_stream_of_events(address: str) -> None:
    body = {"model": "parrot", "prompt": "a b", "stream": True}
    answer = httpx.post(f"{address}/completions", json=body, headers={"authorization": "Bearer key"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = answer.text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""] and all(line.startswith("data: {") for line in lines[:-2])
