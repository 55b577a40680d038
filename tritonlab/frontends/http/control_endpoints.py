"""The endpoints other than inference: methods that take an HttpCall and return an HttpReply (rules 6.1, 6.10, 5.11 and
5.14). They may block, and run on a thread of their own.
"""

from __future__ import annotations

import base64
import re
from typing import Any

from ...core.config.model_config import to_dict
from ...core.observe import trace_settings
from ...core.status import InternalError, InvalidArgumentError, TritonError, UnsupportedError
from ...server.inference_server import InferenceServer
from ..shared.access import AccessRules
from ..shared.cuda_region import HANDLE_SIZE
from ..shared.shared_memory_manager import Region, SharedMemoryManager
from . import json_writer
from .json_document import (
    about,
    as_array,
    as_bool,
    as_c_string,
    as_string,
    as_uint,
    find,
    member,
    members,
    parse,
)
from .reply import TEXT, HttpCall, HttpReply, failure, version_number

_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]")
_AT_ONCE = 1 << 20  # characters of a file that are decoded without letting other threads run


def document(value: Any) -> HttpReply:
    return HttpReply(body=json_writer.value(value))


class ControlEndpoints:
    """The endpoints of one server."""

    def __init__(self, core: InferenceServer, shared_memory: SharedMemoryManager, access: AccessRules) -> None:
        self._core = core
        self._shared_memory = shared_memory
        self._access = access

    # -- health and metadata

    def live(self, call: HttpCall) -> HttpReply:
        return HttpReply(200 if self._core.live() else 400, kind=TEXT)

    def ready(self, call: HttpCall) -> HttpReply:
        return HttpReply(200 if self._core.ready() else 400, kind=TEXT)

    def server_metadata(self, call: HttpCall) -> HttpReply:
        return document(self._core.server_metadata())

    def model_metadata(self, call: HttpCall) -> HttpReply:
        name, version = _model(call)
        return document(self._core.model_metadata(name, version))

    def model_ready(self, call: HttpCall) -> HttpReply:
        name, version = _model(call)
        return (
            HttpReply(kind=TEXT) if self._core.model_ready(name, version) else failure(400, "Model version not ready")
        )

    def model_config(self, call: HttpCall) -> HttpReply:
        name, version = _model(call)
        return document(to_dict(self._core.model_config(name, version)))

    def statistics(self, call: HttpCall) -> HttpReply:
        name, version = _model(call)
        return document(self._core.statistics(name, version))

    # -- the model repository

    def repository_index(self, call: HttpCall) -> HttpReply:
        is_set, ready = find(_optional(call), "ready")
        if is_set and type(ready) is not bool:
            raise InternalError("Invalid value for 'ready': expected a boolean")
        return document(self._core.index(ready=is_set and ready))

    def load(self, call: HttpCall) -> HttpReply:
        self._access.check_model_control()
        _refuse_repository(call)
        config: str | None = None
        files: dict[str, bytes] = {}
        is_set, parameters = find(_optional(call), "parameters")
        for key, value in (members(parameters) if is_set else {}).items():
            text = as_string(value)
            if key == "config":
                config = text
            elif key.startswith("file:"):
                files[key] = decode_base64(text)
            else:
                raise InternalError("unexpected error on creating Triton parameter")
        self._core.control.load(call.path["model"], config, files or None)
        return HttpReply()

    def unload(self, call: HttpCall) -> HttpReply:
        self._access.check_model_control()
        _refuse_repository(call)
        try:
            request = _optional(call)
        except TritonError:  # without an error on Triton (measured)
            request = None
        _, parameters = find(request, "parameters")
        is_set, dependents = find(parameters, "unload_dependents")
        if is_set:
            try:
                as_bool(dependents)
            except TritonError as error:
                raise about("Unable to parse 'unload_dependents'", error) from None
        self._core.control.unload(call.path["model"], is_set and dependents, wait=False)
        return HttpReply()

    # -- shared memory

    def region_status(self, kind: type[Region], call: HttpCall) -> HttpReply:
        return document(self._shared_memory.status(call.path.get("region", ""), kind))

    def unregister(self, kind: type[Region], call: HttpCall) -> HttpReply:
        self._shared_memory.unregister(call.path.get("region", ""), kind)
        return HttpReply()

    def system_register(self, call: HttpCall) -> HttpReply:
        name = _region(call, "system")
        request = parse(call.body)
        key = as_c_string(_field(request, "key"))
        is_set, offset = find(request, "offset")
        offset = as_uint(offset) if is_set else 0
        self._shared_memory.register_system(name, key, offset, as_uint(_field(request, "byte_size")))
        return HttpReply()

    def cuda_register(self, call: HttpCall) -> HttpReply:
        name = _region(call, "cuda")
        request = parse(call.body)
        handle = as_string(member(_field(request, "raw_handle"), "b64"))
        byte_size = as_uint(member(request, "byte_size"))
        device_id = as_uint(member(request, "device_id"))
        raw_handle = decode_base64(handle)
        if len(raw_handle) != HANDLE_SIZE:
            raise InvalidArgumentError("'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t")
        self._shared_memory.register_cuda(name, raw_handle, device_id, byte_size)
        return HttpReply()

    # -- settings

    def trace_setting(self, call: HttpCall) -> HttpReply:
        self._access.check_settings()
        model = call.path.get("model", "")
        settings = self._core.trace_settings
        current = settings.get(model)
        if call.method == "POST":
            settings.update(model, _trace_values(parse(call.body)))
            current = settings.get(model)
        return document({key: value if key == "trace_level" else value[0] for key, value in current.items()})

    def logging(self, call: HttpCall) -> HttpReply:
        self._access.check_settings()
        settings = self._core.log_settings
        if call.method == "POST":
            request = parse(call.body)
            is_set, value = find(request, "log_file")
            if is_set and value is not None:
                settings.update({"log_file": value})
            # one by one, because those before a bad one stay set (measured)
            for key, read in _LOG_FIELDS.items():
                is_set, value = find(request, key)
                if is_set and value is not None:
                    settings.update({key: read(value)})
        return document(settings.get())


_LOG_FIELDS = {
    "log_info": as_bool,
    "log_warning": as_bool,
    "log_error": as_bool,
    "log_verbose_level": as_uint,
    "log_format": as_string,
}


def _trace_values(request: Any) -> dict[str, list[str] | None]:
    """Return the settings as `TraceSettings.update` takes them; types are checked as by Triton, in its order."""
    found: dict[str, list[str] | None] = {}
    is_set, _ = find(request, "trace_file")
    if is_set:
        found["trace_file"] = []  # refused with any value
        return found
    for key in ("trace_level", "trace_rate", "trace_count", "log_frequency"):
        is_set, value = find(request, key)
        if not is_set:
            continue
        if value is None:
            found[key] = None
        elif key == "trace_level":
            found[key] = [as_string(level) for level in as_array(value)]
        else:
            found[key] = [as_c_string(value)]
        trace_settings.parse(key, found[key])  # before the next one's type is looked at
    return found


def decode_base64(text: str) -> bytes:
    """Decode base64 as Triton does: other characters are skipped (measured)."""
    found, left = bytearray(), ""
    for start in range(0, len(text), _AT_ONCE):
        digits = left + _NOT_BASE64.sub("", text[start : start + _AT_ONCE])
        whole = len(digits) - len(digits) % 4
        found += base64.b64decode(digits[:whole])
        left = digits[whole:]
    if len(left) > 1:
        found += base64.b64decode(left + "=" * (4 - len(left)))
    return bytes(found)


def _model(call: HttpCall) -> tuple[str, str]:
    """Return name and version of the path, "" for none. Raises InvalidArgumentError for a version over 64 bits."""
    version = call.path.get("version", "")
    version_number(version)
    return call.path.get("model", ""), version


def _optional(call: HttpCall) -> Any:
    return parse(call.body) if call.body else None


def _refuse_repository(call: HttpCall) -> None:
    if "repository" in call.path:
        raise UnsupportedError("'repository_name' specification is not supported")


def _region(call: HttpCall, kind: str) -> str:
    if "region" not in call.path:
        raise InvalidArgumentError(f"'region name' is necessary to register {kind} shared memory region")
    return call.path["region"]


def _field(request: Any, name: str) -> Any:
    is_set, value = find(request, name)
    if not is_set:
        raise InvalidArgumentError(f"Shared memory register request has no '{name}' field")
    return value
