"""A small OpenAI-compatible frontend, for the tests: it uses of `tritonserver` what NVIDIA's own uses.

It finds the models by `server.models()` and `model.config()`, sends with `create_request` and `async_infer`, takes
texts from where `data_ptr` points, and ends a stream at the response that is final, which may be empty.
"""

from __future__ import annotations

import ctypes
import json
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import PlainTextResponse, Response, StreamingResponse

import tritonlab.tritonserver as tritonserver

DEFAULT_MAX_TOKENS = 16


class Engine:
    """Chats and completions of the models of a started server."""

    def __init__(self, server: tritonserver.Server) -> None:
        self.server = server
        self.created = int(time.time())
        #: model by name, of those that there were when it started
        self.models: dict[str, tritonserver.Model] = {}
        for name, _ in server.models():
            model = server.model(name)
            if model.config()["backend"]:
                self.models[name] = model

    def responses(self, body: dict[str, Any], prompt: str) -> tritonserver.AsyncResponseIterator:
        """Send a request and return its responses. Raises HTTPException for one that cannot be sent."""
        model = self.models.get(body["model"])
        if model is None:
            raise HTTPException(404, f"Unknown model: {body['model']}")
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or DEFAULT_MAX_TOKENS
        inputs = {
            "text_input": [[prompt]],
            "stream": np.bool_([[bool(body.get("stream"))]]),
            "max_tokens": np.int32([[limit]]),
        }
        if body.get("stop"):
            inputs["stop_words"] = [[body["stop"]]]
        return model.async_infer(model.create_request(inputs=inputs))


def text_of(response: tritonserver.InferenceResponse) -> str:
    """Return the only text of an answer, read from its memory; none for the empty final one."""
    tensor = response.outputs.get("text_output")
    if tensor is None:
        return ""
    assert int(np.prod(tensor.shape)) == 1 and tensor.size >= 4
    return ctypes.string_at(tensor.data_ptr + 4, tensor.size - 4).decode()


def make_app(server: tritonserver.Server) -> FastAPI:
    app = FastAPI()
    engine = Engine(server)

    @app.get("/health/ready")
    def ready() -> Response:
        return Response(status_code=200 if server.live() and server.ready() else 400)

    @app.get("/metrics", response_class=PlainTextResponse)
    def metrics() -> str:
        return server.metrics()

    @app.get("/v1/models")
    def models() -> dict[str, Any]:
        return {"object": "list", "data": [_model(engine, name) for name in engine.models]}

    @app.get("/v1/models/{name}")
    def model(name: str) -> dict[str, Any]:
        if name not in engine.models:
            raise HTTPException(404, f"Unknown model: {name}")
        return _model(engine, name)

    @app.post("/v1/chat/completions", response_model=None)
    async def chat(request: Request) -> dict[str, Any] | StreamingResponse:
        body = await request.json()
        prompt = "\n".join(f"{message['role']}: {message['content']}" for message in body["messages"])
        return await _answer(engine, body, prompt, "chat.completion")

    @app.post("/v1/completions", response_model=None)
    async def complete(request: Request) -> dict[str, Any] | StreamingResponse:
        body = await request.json()
        return await _answer(engine, body, body["prompt"], "text_completion")

    return app


async def _answer(engine: Engine, body: dict[str, Any], prompt: str, kind: str) -> dict[str, Any] | StreamingResponse:
    try:
        responses = engine.responses(body, prompt)
        if body.get("stream"):
            return StreamingResponse(_events(responses, body, kind), media_type="text/event-stream")
        came = [response async for response in responses]
    except tritonserver.TritonError as error:
        raise HTTPException(500, str(error)) from error
    if not came[-1].final or len(came) > 2:
        raise HTTPException(500, f"Unexpected number of responses: {len(came)}, expected 1.")
    content = {"role": "assistant", "content": text_of(came[0])} if kind == "chat.completion" else text_of(came[0])
    return _document(body, kind, content, "stop")


async def _events(responses: tritonserver.AsyncResponseIterator, body: dict[str, Any], kind: str) -> AsyncIterator[str]:
    if kind == "chat.completion":
        yield _event(_document(body, kind, {"role": "assistant", "content": ""}, None, streams=True))
    async for response in responses:
        text = text_of(response)
        content = {"content": text} if kind == "chat.completion" else text
        yield _event(_document(body, kind, content, "stop" if response.final else None, streams=True))
    yield "data: [DONE]\n\n"


def _event(document: dict[str, Any]) -> str:
    return f"data: {json.dumps(document)}\n\n"


def _document(
    body: dict[str, Any], kind: str, content: Any, finish_reason: str | None, streams: bool = False
) -> dict[str, Any]:
    where = "text" if kind == "text_completion" else "delta" if streams else "message"
    return {
        "id": f"cmpl-{uuid.uuid4()}",
        "object": f"{kind}.chunk" if streams and kind == "chat.completion" else kind,
        "created": int(time.time()),
        "model": body["model"],
        "choices": [{"index": 0, where: content, "finish_reason": finish_reason}],
    }


def _model(engine: Engine, name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": engine.created, "owned_by": "Triton Inference Server"}
