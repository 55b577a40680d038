"""The page of all models: their OpenAPI document, and RapiDoc, which shows it and sends requests.

The frame of the page (its HTML, its programs) is the same for every server and holds nothing of this one, so it needs
no token: a browser cannot send one with an address. The document needs what every other path needs.

RapiDoc was chosen by its size (2026-11-28, minified and with gzip): RapiDoc 9.3.8 0.86 and 0.22 MB, Swagger UI 5.35.0
with its style 1.92 and 0.49, Scalar 1.46.4 3.57 and 0.99. `make models-page` fetches it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from ...core.config.model_config import to_dict
from ...core.status import TritonError
from ...server.api.openapi import openapi_document
from ...server.inference_server import InferenceServer
from . import json_writer
from .reply import HttpCall, HttpReply

_STATIC = Path(__file__).parent / "static"
#: Path -> file, content type.
FRAME = {
    "/": ("models_page.html", b"text/html; charset=utf-8"),
    "/models_page.css": ("models_page.css", b"text/css; charset=utf-8"),
    "/models_page.js": ("models_page.js", b"text/javascript; charset=utf-8"),
    "/rapidoc-min.js": ("rapidoc-min.js.gz", b"text/javascript; charset=utf-8"),
}
#: Nothing is loaded from elsewhere, and no other page may show this one in a frame.
_POLICY = (
    b"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; "
    b"frame-ancestors 'none'"
)


class ModelsPage:
    """The endpoints of the page for one server."""

    def __init__(self, core: InferenceServer, restricted: Mapping[str, tuple[str, str]], has_token: bool) -> None:
        self._core = core
        self._headers = {category: header for category, (header, _) in restricted.items()}
        self._has_token = has_token

    def document(self, call: HttpCall) -> HttpReply:
        """Return the OpenAPI document of the models that are READY now."""
        configs = []
        for name in dict.fromkeys(entry["name"] for entry in self._core.index(ready=True)):
            try:
                configs.append(to_dict(self._core.model_config(name)))
            except TritonError:
                continue  # unloaded since
        document = openapi_document(configs, has_token=self._has_token, headers=self._headers)
        return HttpReply(body=json_writer.value(document), headers=((b"cache-control", b"no-store"),))

    @staticmethod
    def frame(path: str, call: HttpCall) -> HttpReply:
        """Return the file of the frame at `path`."""
        return _reply(path)


@functools.cache
def _reply(path: str) -> HttpReply:
    name, kind = FRAME[path]
    packed = ((b"content-encoding", b"gzip"),) if name.endswith(".gz") else ()
    body = (_STATIC / name).read_bytes()
    return HttpReply(body=body, kind=kind, headers=((b"content-security-policy", _POLICY), *packed))
