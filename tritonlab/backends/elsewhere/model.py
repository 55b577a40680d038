"""Answers from elsewhere: from the same model on a running server, over gRPC, and from its recorded answers (rules
2.17.2 and 2.17.3)."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import triton_python_backend_utils as pb_utils
from tritonlab_backend import BackendError, choice_settings
from tritonlab_exchange import Exchange
from tritonlab_recordings import NUMPY, NotCarriedError, RawTensor, Recordings, Response, key_of

if TYPE_CHECKING:
    from tritonlab_borrowed_server import BorrowedServer

_START, _END = pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START, pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END


class TritonPythonModel:
    """One instance. `execute` hands each request on and returns; each answer is sent when it arrives, so that requests
    overlap as on the server."""

    @staticmethod
    def auto_complete_config(auto_complete_model_config: Any) -> Any:
        config = auto_complete_model_config.as_dict()
        found = _config_elsewhere(config["name"], choice_settings(config))
        _complete(config, found)
        return auto_complete_model_config

    def initialize(self, args: Mapping[str, str]) -> None:
        config = json.loads(args["model_config"])
        settings = choice_settings(config)
        self._name, self._settings = config["name"], settings
        self._decoupled = pb_utils.using_decoupled_model_transaction_policy(config)
        self._recordings = Recordings(settings["directory"], self._name) if "directory" in settings else None
        self._server = _borrowed_server(settings, self._name) if settings["use"] == "borrow" else None
        #: the key of the last request of each sequence
        self._sequences: dict[Any, str] = {}

    def execute(self, requests: Sequence[Any]) -> list[None] | None:
        for request in requests:
            exchange = Exchange(request)
            try:
                self._begin(exchange)
            except NotCarriedError as error:
                exchange.fail(str(error), "INVALID_ARG")
        return None if self._decoupled else [None] * len(requests)

    def finalize(self) -> None:
        if self._server is not None:
            self._server.close()

    def _begin(self, exchange: Exchange) -> None:
        inputs = [_raw(tensor) for tensor in exchange.request.inputs()]
        key, after = self._key(exchange.request, inputs)
        if self._server is None:
            self._repeat(exchange, inputs, key)
            return

        def done(responses: Sequence[Response]) -> None:
            if self._settings.get("record") and self._recordings is not None:
                more = {"after": after} if after else {}
                when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                self._recordings.write(key, inputs, responses, **more, server=self._settings["server"], recorded=when)

        def away(text: str) -> None:
            if self._settings.get("otherwise") != "recorded" or exchange.sent:
                exchange.fail(text, "UNAVAILABLE")
            else:
                self._repeat(exchange, inputs, key, f"{text}; ")

        self._server.send(exchange, inputs, stream=self._decoupled, done=done, away=away)

    def _key(self, request: Any, inputs: Sequence[RawTensor]) -> tuple[str, str]:
        """Return the key of a request, and the key of the request before it in its sequence."""
        sequence, flags = request.correlation_id(), request.flags()
        if not sequence:
            return key_of(inputs), ""
        after = "start" if flags & _START else self._sequences.get(sequence, "start")
        key = key_of(inputs, after)
        if flags & _END:
            self._sequences.pop(sequence, None)
        else:
            self._sequences[sequence] = key
        return key, after

    def _repeat(self, exchange: Exchange, inputs: Sequence[RawTensor], key: str, why: str = "") -> None:
        """Send the recorded responses of the key."""
        assert self._recordings is not None
        try:
            responses = self._recordings.find(key)
        except ValueError as error:
            exchange.fail(f"{why}{error}", "INTERNAL")
            return
        if responses is None:
            nearest = self._recordings.nearest(inputs)
            exchange.fail(f"{why}no answer of '{self._name}' is recorded for this input; {nearest}", "NOT_FOUND")
            return
        for response in responses:
            exchange.send(response)
        exchange.end()


def _borrowed_server(settings: Mapping[str, Any], model: str) -> BorrowedServer:
    from tritonlab_borrowed_server import BorrowedServer  # gRPC; recorded answers do not require it

    return BorrowedServer(settings, model)


# -- the configuration


def _config_elsewhere(model: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config that the model has elsewhere. Raises BackendError."""
    recordings = Recordings(settings["directory"], model) if "directory" in settings else None
    recorded = recordings.config() if recordings is not None else None
    if settings["use"] == "borrow":
        server = _borrowed_server(settings, model)
        try:
            found: dict[str, Any] = server.config()
            if settings.get("record") and recordings is not None:
                recordings.write_config(found)
            return found
        except BackendError:
            if settings.get("otherwise") != "recorded" or recorded is None:
                raise
        finally:
            server.close()
    return recorded or {}


def _complete(config: dict[str, Any], found: Mapping[str, Any]) -> None:
    """Fill in the missing parts of the config. Raises BackendError if both contradict each other, or lack a part."""
    for role in ("input", "output"):
        described = [_describe(each) for each in found.get(role, ())]
        if not config[role]:
            config[role] = described
        elif described:
            _compare(config["name"], role, config[role], described)
    config["max_batch_size"] = config["max_batch_size"] or found.get("max_batch_size", 0)
    if found.get("model_transaction_policy", {}).get("decoupled"):
        config["model_transaction_policy"] = {"decoupled": True}
    if not config["output"]:
        text = f"'{config['name']}' has no outputs in its config.pbtxt, and its recordings have no config.json"
        raise BackendError(text)


def _describe(tensor: Mapping[str, Any]) -> dict[str, Any]:
    dims = [int(dim) for dim in tensor.get("dims", ())]
    found = {"name": tensor["name"], "data_type": tensor["data_type"], "dims": dims}
    return {**found, "optional": True} if tensor.get("optional") else found


def _compare(model: str, role: str, ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]) -> None:
    there = {each["name"]: each for each in theirs}
    for each in ours:
        other = there.get(each["name"])
        here = f"config.pbtxt of '{model}' has the {role} {_words(each)}"
        if other is None:
            raise BackendError(f"{here}, and where it is borrowed from there is none of that name")
        if _words(each) != _words(other):
            raise BackendError(f"{here}, and where it is borrowed from it is {_words(other)}")


def _words(tensor: Mapping[str, Any]) -> str:
    dims = ",".join(str(int(dim)) for dim in tensor["dims"])
    return f"'{tensor['name']}' {tensor['data_type']} [{dims}]"


# -- tensors


def _raw(tensor: Any) -> RawTensor:
    try:
        array = tensor.as_numpy()
    except pb_utils.TritonModelException:
        text = f"input '{tensor.name()}' is BF16 or on a GPU, which is not carried to another server"
        raise NotCarriedError(text) from None
    if array.dtype == object:
        data = pb_utils.serialize_byte_tensor(array)
        return RawTensor(tensor.name(), "BYTES", tuple(array.shape), bytes(data or b""))
    datatype = next(name for name, kind in NUMPY.items() if array.dtype == kind)
    return RawTensor(tensor.name(), datatype, tuple(array.shape), np.ascontiguousarray(array).tobytes())
