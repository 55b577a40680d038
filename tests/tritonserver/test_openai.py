"""An OpenAI-compatible frontend on the in-process API, called by the `openai` client over loopback."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import uvicorn

import tritonlab.tritonserver as tritonserver
from tests.serving import eventually, write_model
from tests.tritonserver.models import PARROT, PARROT_CONFIG
from tests.tritonserver.openai_app import make_app

if TYPE_CHECKING:  # every worker of a run would pay for the import
    import openai

PROMPT = "the quick brown fox"
MESSAGES: list[Any] = [{"role": "system", "content": "Say it again."}, {"role": "user", "content": PROMPT}]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    repository = tmp_path_factory.mktemp("openai")
    write_model(repository, "parrot", PARROT, PARROT_CONFIG)
    server = tritonserver.Server(model_repository=str(repository), log_error=True).start(wait_until_ready=True)
    frontend = uvicorn.Server(uvicorn.Config(make_app(server), host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=frontend.run, name="frontend")
    thread.start()
    eventually(lambda: frontend.started)
    port = frontend.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    frontend.should_exit = True
    thread.join(60)
    server.stop()


@pytest.fixture
def client(address: str) -> Iterator[openai.OpenAI]:
    import openai

    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as found:
        yield found


def test_models(client: openai.OpenAI) -> None:
    import openai

    (model,) = client.models.list().data
    assert (model.id, client.models.retrieve("parrot").owned_by) == ("parrot", "Triton Inference Server")
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("missing")


def test_a_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="parrot", messages=MESSAGES)
    (choice,) = answer.choices
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", PROMPT, "stop")
    short = client.chat.completions.create(model="parrot", messages=MESSAGES, max_tokens=2, stop="quick")
    assert short.choices[0].message.content == "the"


def test_a_chat_as_a_stream(client: openai.OpenAI) -> None:
    chunks = list(client.chat.completions.create(model="parrot", messages=MESSAGES, stream=True))
    assert [chunk.choices[0].delta.content for chunk in chunks] == ["", "the ", "quick ", "brown ", "fox ", ""]
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * 5 + ["stop"]


def test_a_completion(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="parrot", prompt="straße für zwei", max_tokens=3)
    assert answer.choices[0].text == "straße für zwei"
    chunks = list(client.completions.create(model="parrot", prompt=PROMPT, max_tokens=2, stream=True))
    assert [chunk.choices[0].text for chunk in chunks] == ["the ", "quick ", ""]


def test_many_chats_at_once(address: str) -> None:
    import openai

    async def chat(client: openai.AsyncOpenAI, number: int) -> str:
        messages: Any = [{"role": "user", "content": f"number {number}"}]
        stream = await client.chat.completions.create(model="parrot", messages=messages, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def chat_at_once() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="none") as client:
            return await asyncio.gather(*(chat(client, number) for number in range(20)))

    assert asyncio.run(chat_at_once()) == [f"number {number} " for number in range(20)]


def test_what_goes_wrong(client: openai.OpenAI) -> None:
    import openai

    with pytest.raises(openai.NotFoundError) as unknown:
        client.chat.completions.create(model="other", messages=MESSAGES)
    assert unknown.value.response.json() == {"detail": "Unknown model: other"}
    with pytest.raises(openai.InternalServerError) as failed:
        client.chat.completions.create(model="parrot", messages=[{"role": "user", "content": "fail"}])
    assert "RuntimeError: asked to fail" in failed.value.response.json()["detail"]


def test_readiness_and_metrics(address: str) -> None:
    assert httpx.get(f"{address}/health/ready").status_code == 200
    assert 'nv_inference_request_success{model="parrot"' in httpx.get(f"{address}/metrics").text
