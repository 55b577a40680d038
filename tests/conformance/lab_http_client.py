"""The client of tritonlab over its HTTP frontend, so that cases written for both servers can be sent to that, too."""

from __future__ import annotations

import json
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from tritonlab.frontends.http.http_server import HTTPOptions, HTTPServer
from tritonlab.frontends.shared.shared_memory_manager import SharedMemoryManager

from .clients import PLAIN, Answer, Failure, Inputs, Options, Pending, Raw, as_raw, to_array
from .lab_client import LabClient
from .raw_http import JSON_SIZE, RawHTTP, Reply

#: What a status says of the code of an error; 400 stands for several (rule 3.6).
_CODES = {400: "INVALID_ARG", 404: "NOT_FOUND", 500: "INTERNAL", 501: "UNSUPPORTED", 503: "UNAVAILABLE"}


class LabHTTPClient(LabClient):
    """A client whose requests with one response go over HTTP, where documents are read, too; models are controlled,
    and streams made, through the API a notebook uses."""

    def __init__(self, repository: Path, http: HTTPOptions | None = None, **options: Any) -> None:
        super().__init__(repository, **options)
        self._frontend = HTTPServer(self.server.core, SharedMemoryManager(allowed=True), http or HTTPOptions())
        self.http = RawHTTP("lab", f"127.0.0.1:{self._frontend.start('127.0.0.1', 0)}")

    def close(self) -> None:
        self._frontend.stop()
        super().close()

    def submit(self, model: str, inputs: Inputs, options: Options = PLAIN) -> Pending:
        answer: Future[Answer] = Future()
        path = f"/v2/models/{model}{_version(options.version)}/infer"
        head, blobs = _body(inputs, options)

        def send() -> None:
            try:
                reply = self.http.request("POST", path, head + blobs, {JSON_SIZE: str(len(head))})
                answer.set_result(self._answer(reply))
            except BaseException as error:
                answer.set_exception(error)

        threading.Thread(target=send, daemon=True).start()
        return Pending(answer, lambda: None)  # going away cancels nothing over HTTP (rule 3.10.1)

    def _answer(self, reply: Reply) -> Answer:
        if reply.status != 200:
            return Answer(error=self.plain(reply.error), code=_CODES[reply.status])
        size = int(reply.headers.get(JSON_SIZE.lower(), len(reply.body)))
        document, rest = json.loads(reply.body[:size]), reply.body[size:]
        answer = Answer(
            request_id=document.get("id", ""), model=document["model_name"], version=document["model_version"]
        )
        answer.parameters = document.get("parameters", {})
        for output in document["outputs"]:
            taken = output["parameters"]["binary_data_size"]
            answer.outputs[output["name"]] = to_array(output["datatype"], tuple(output["shape"]), rest[:taken])
            answer.datatypes[output["name"]] = output["datatype"]
            rest = rest[taken:]
        assert not rest
        return answer

    # documents

    def ready(self, name: str = "", version: int = -1) -> bool:
        path = f"/v2/models/{name}{_version(version)}/ready" if name else "/v2/health/ready"
        return self.http.get(path).status == 200

    def index(self, ready: bool = False) -> list[dict[str, Any]]:
        return list(self.http.post("/v2/repository/index", b'{"ready": true}' if ready else b"").document)

    def config(self, name: str, version: int = -1) -> dict[str, Any] | Failure:
        return _document(self.http.get(f"/v2/models/{name}{_version(version)}/config"))

    def metadata(self, name: str = "", version: int = -1) -> dict[str, Any] | Failure:
        return _document(self.http.get(f"/v2/models/{name}{_version(version)}" if name else "/v2"))

    def statistics(self, name: str, version: int = -1) -> list[dict[str, Any]] | Failure:
        found = _document(self.http.get(f"/v2/models/{name}{_version(version)}/stats"))
        return found if isinstance(found, Failure) else list(found["model_stats"])


def _document(reply: Reply) -> dict[str, Any] | Failure:
    return dict(reply.document) if reply.status == 200 else Failure(str(reply.status), reply.error)


def _version(version: int) -> str:
    return "" if version < 0 else f"/versions/{version}"


def _body(inputs: Inputs, options: Options) -> tuple[bytes, bytes]:
    parameters = {**options.all_parameters(), "binary_data_output": True}
    entries, blobs = [], b""
    for name, value in inputs.items():
        raw = value if isinstance(value, Raw) else as_raw(value)
        size = {"binary_data_size": len(raw.data)}
        entries.append({"name": name, "datatype": raw.datatype, "shape": raw.shape, "parameters": size})
        blobs += raw.data
    document: dict[str, Any] = {"id": options.request_id, "inputs": entries, "parameters": parameters}
    if options.outputs:
        document["outputs"] = [{"name": name, "parameters": {"binary_data": True}} for name in options.outputs]
    return json.dumps(document).encode(), blobs
