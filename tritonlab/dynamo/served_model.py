"""One model of a worker, and its answers to the requests of Dynamo's frontend."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from ..core.config.model_config import parse_pbtxt
from ..core.inference.infer_request import InferenceRequest
from ..core.inference.infer_response import InferenceResponse
from ..core.inference.tensor import Tensor
from ..core.status import InvalidArgumentError, TritonError
from ..frontends.shared.classification import classify
from ..server.api.model import Model
from ..server.api.response_iterator import AsyncResponseIterator
from . import wire

#: The key of requests by which workers query each other's models; no frontend sends it.
ASK = "_tritonlab_worker"


class WorkerError(Exception):
    """An error for a client of Dynamo, whose frontend shows any exception as its type's name and text. The code can be
    in the text only: gRPC's is INTERNAL there for every error."""


class ServedModel:
    """A model that a worker serves. `probe`: the key of Dynamo's readiness requests.

    Raises InvalidArgumentError for a model with several versions: Dynamo drops the client's version.
    """

    def __init__(self, model: Model, probe: str) -> None:
        self.name = model.name
        #: requests in progress, and the time of the last request or answer
        self.busy = 0
        self.last_request = 0.0
        self._model = model
        self._probe = probe
        self.config = model.config()
        config = parse_pbtxt(model.config_pbtxt(), "the served config")
        #: two workers with the same one are interchangeable
        self.digest = hashlib.sha256(config.SerializeToString(deterministic=True)).hexdigest()
        self.keeps_sequences = config.HasField("sequence_batching")
        self._batched = config.max_batch_size > 0
        self._labels = model.server.core.find(model.name).labels
        versions = model.metadata()["versions"]
        if len(versions) > 1:
            raise InvalidArgumentError(
                f"the model '{self.name}' serves the versions {', '.join(versions)}, and Dynamo tells a worker none: "
                "serve one (version_policy), or give each a name of its own"
            )

    async def generate(self, sent: Mapping[str, Any], context: Any) -> AsyncIterator[dict[str, Any]]:
        """Answer a request of the frontend, of Dynamo's health check, or of another worker. `context` is Dynamo's, with
        the end of the request. Raises WorkerError.
        """
        if sent.get(self._probe) is True:
            yield self._ready()
        elif ASK in sent:
            yield {"id": "", "model": self.name, "tensors": [], "parameters": {ASK: {"string": self.digest}}}
        else:
            self.busy += 1
            self.last_request = time.monotonic()
            try:
                async for answer in self._answer(sent, context):
                    yield answer
            except TritonError as error:
                raise WorkerError(f"{error.code.text}: {error.message}") from None
            finally:
                self.busy -= 1
                self.last_request = time.monotonic()

    async def _answer(self, sent: Mapping[str, Any], context: Any) -> AsyncIterator[dict[str, Any]]:
        classes = wire.read_classes(sent)
        request = wire.read_request(sent, self.name)
        responses = self._model.async_infer(request)
        watching = asyncio.ensure_future(_cancel_with(context, responses))
        try:
            async for response in responses:
                yield wire.write_response(response, self._outputs(response, request, classes))
        except BaseException:
            responses.cancel()  # the remaining responses have no reader
            raise
        finally:
            watching.cancel()

    def _outputs(
        self, response: InferenceResponse, request: InferenceRequest, classes: Mapping[str, int]
    ) -> dict[str, Tensor]:
        """Return the outputs that the client has requested, on the host."""
        found = {}
        for name, tensor in response.outputs.items():
            if request.requested_outputs and name not in request.requested_outputs:
                continue
            on_host, count = tensor.to_host(), classes.get(name)
            labels = self._labels.get(name, ())
            found[name] = classify(on_host, count, labels, batched=self._batched) if count else on_host
        return found

    def _ready(self) -> dict[str, Any]:
        if not self._model.ready():
            raise WorkerError(f"model {self.name} is not ready")
        return {"id": "", "model": self.name, "tensors": []}


async def _cancel_with(context: Any, responses: AsyncResponseIterator) -> None:
    """Cancel a request when its client goes or its deadline has passed."""
    await context.async_killed_or_stopped()
    responses.cancel()
