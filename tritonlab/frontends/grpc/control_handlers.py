"""Every RPC other than inference, one row each (rule 6.12). The handlers may block; they run on a pool of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import grpc
from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError
from google.protobuf.wrappers_pb2 import Int32Value

from ...core.config.service_messages import messages
from ...core.observe.log_settings import FORMATS
from ...core.status import InvalidArgumentError, TritonError, UnsupportedError
from ...server.inference_server import InferenceServer
from ..shared.access import AccessRules
from ..shared.cuda_region import CudaRegion
from ..shared.shared_memory_manager import Region, SharedMemoryManager
from ..shared.system_region import SystemRegion
from .calls import UnaryCall
from .errors import STATUS
from .infer_request_reader import checked_version


class Services(NamedTuple):
    core: InferenceServer
    shared_memory: SharedMemoryManager
    access: AccessRules


class Rpc(NamedTuple):
    """One RPC: the category that restricts it (rule 6.1.3), the class of its request, and its handler."""

    category: str
    request: Any
    answer: Callable[[Services, Any], Any]


class ControlCall(UnaryCall):
    """One call of an RPC of the table."""

    def __init__(self, event: Any, rpc: Rpc, services: Services, pool: ThreadPoolExecutor) -> None:
        self._rpc = rpc
        self._services = services
        self._pool = pool
        super().__init__(event)

    def handle(self, message: bytes) -> None:
        self._pool.submit(self._run, message)

    def _run(self, message: bytes) -> None:
        try:
            request = self._rpc.request.FromString(message)
        except DecodeError:
            self.fail(grpc.StatusCode.INTERNAL, "Unable to parse request")
            return
        try:
            answer = self._rpc.answer(self._services, request).SerializeToString()
        except TritonError as error:
            self.fail(STATUS[error.code], error.message)
        except Exception as error:  # a defect of ours; its client must not wait for ever
            self.fail(grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}")
            raise
        else:
            self.respond(answer)


# -- health and metadata


def _model_ready(services: Services, request: Any) -> Any:
    checked_version(request.version)
    # 2.51 says `false` of an unknown model; NOT_FOUND since 2026-06 (rule 6.7.3)
    return messages.ModelReadyResponse(ready=services.core.model_ready(request.name, request.version))


def _model_metadata(services: Services, request: Any) -> Any:
    checked_version(request.version)
    return messages.ModelMetadataResponse(**services.core.model_metadata(request.name, request.version))


def _model_config(services: Services, request: Any) -> Any:
    checked_version(request.version)
    return messages.ModelConfigResponse(config=services.core.model_config(request.name, request.version))


def _model_statistics(services: Services, request: Any) -> Any:
    checked_version(request.version)
    found = services.core.statistics(request.name, request.version)
    return ParseDict(found, messages.ModelStatisticsResponse())


# -- repository


def _repository_index(services: Services, request: Any) -> Any:
    _refuse_repository(request)
    return messages.RepositoryIndexResponse(models=services.core.index(request.ready))


def _load(services: Services, request: Any) -> Any:
    services.access.check_model_control()
    _refuse_repository(request)
    config: str | None = None
    files: dict[str, bytes] = {}
    for key, value in request.parameters.items():
        kind = value.WhichOneof("parameter_choice")
        if key == "config":
            if kind != "string_param":
                raise _wrong_load_type(key, "string_param")
            config = value.string_param
        elif key.startswith("file:"):
            if kind != "bytes_param":
                raise _wrong_load_type(key, "bytes_param")
            files[key] = value.bytes_param
        else:
            raise InvalidArgumentError(f"unrecognized load parameter '{key}'.")
    services.core.control.load(request.model_name, config, files or None)
    return messages.RepositoryModelLoadResponse()


def _unload(services: Services, request: Any) -> Any:
    services.access.check_model_control()
    _refuse_repository(request)
    dependents = False
    if "unload_dependents" in request.parameters:  # other keys are ignored (measured)
        value = request.parameters["unload_dependents"]
        if value.WhichOneof("parameter_choice") != "bool_param":
            raise InvalidArgumentError("invalid value type for 'unload_dependents' parameter, expected bool_param.")
        dependents = value.bool_param
    services.core.control.unload(request.model_name, dependents, wait=False)
    return messages.RepositoryModelUnloadResponse()


def _refuse_repository(request: Any) -> None:
    if request.repository_name:
        raise UnsupportedError("'repository_name' specification is not supported")


def _wrong_load_type(key: str, expected: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"invalid value type for load parameter '{key}', expected {expected}.")


# -- shared memory


def _register_system(services: Services, request: Any) -> Any:
    services.shared_memory.register_system(request.name, request.key, request.offset, request.byte_size)
    return messages.SystemSharedMemoryRegisterResponse()


def _register_cuda(services: Services, request: Any) -> Any:
    region = request.name, request.raw_handle, request.device_id, request.byte_size
    services.shared_memory.register_cuda(*region)
    return messages.CudaSharedMemoryRegisterResponse()


def _region_status(kind: type[Region], response_type: Any, services: Services, request: Any) -> Any:
    response = response_type()
    for region in services.shared_memory.status(request.name, kind):
        response.regions[region["name"]].MergeFrom(response.RegionStatus(**region))
    return response


def _unregister(kind: type[Region], response_type: Any, services: Services, request: Any) -> Any:
    services.shared_memory.unregister(request.name, kind)
    return response_type()


# -- trace and log settings


def _trace_setting(services: Services, request: Any) -> Any:
    services.access.check_settings()
    settings = services.core.trace_settings
    if request.settings:
        # an empty list clears what is set, as None does
        changes = {key: list(setting.value) or None for key, setting in request.settings.items()}
        settings.update(request.model_name, changes, got=" ")
    response = messages.TraceSettingResponse()
    for key, values in settings.get(request.model_name).items():
        response.settings[key].value.extend(values)
    return response


def _log_settings(services: Services, request: Any) -> Any:
    services.access.check_settings()
    settings = services.core.log_settings
    for key, value in _log_values(request.settings):  # settings before a bad one stay set (measured)
        settings.update({key: value})
    response = messages.LogSettingsResponse()
    for key, value in settings.get().items():
        kind = {bool: "bool_param", int: "uint32_param", str: "string_param"}[type(value)]
        setattr(response.settings[key], kind, value)
    return response


#: The kind of value each log setting has, and Triton's word for it in an error.
_LOG_KINDS = {
    "log_info": ("bool_param", "boolean"),
    "log_warning": ("bool_param", "boolean"),
    "log_error": ("bool_param", "boolean"),
    "log_verbose_level": ("uint32_param", "int32"),
    "log_format": ("string_param", "string"),
}


def _log_values(settings: Any) -> Iterator[tuple[str, Any]]:
    if "log_file" in settings:
        yield "log_file", ""  # refused with any value
        return
    for key, (kind, word) in _LOG_KINDS.items():
        if key not in settings:
            continue
        value = settings[key]
        if value.WhichOneof("parameter_choice") != kind:
            raise InvalidArgumentError(f"expect {word} for '{key}'")
        found = getattr(value, kind)
        if key == "log_format" and found not in FORMATS:
            raise InvalidArgumentError(f"invalid argument for log_format, got: {found}")  # HTTP has another text
        yield key, found


#: `grpc.health.v1.Health/Check`, for any service (measured). tritonclient does not have its messages: the answer is a
#: number in field 1, where 1 is SERVING and 2 NOT_SERVING.
HEALTH = Rpc(
    "health",
    messages.ServerReadyRequest,
    lambda services, request: Int32Value(value=1 if services.core.ready() else 2),
)

_ANSWERS: dict[str, tuple[str, Callable[[Services, Any], Any]]] = {
    "ServerLive": ("health", lambda services, _: messages.ServerLiveResponse(live=services.core.live())),
    "ServerReady": ("health", lambda services, _: messages.ServerReadyResponse(ready=services.core.ready())),
    "ModelReady": ("health", _model_ready),
    "ServerMetadata": (
        "metadata",
        lambda services, _: messages.ServerMetadataResponse(**services.core.server_metadata()),
    ),
    "ModelMetadata": ("metadata", _model_metadata),
    "ModelConfig": ("model-config", _model_config),
    "ModelStatistics": ("statistics", _model_statistics),
    "RepositoryIndex": ("model-repository", _repository_index),
    "RepositoryModelLoad": ("model-repository", _load),
    "RepositoryModelUnload": ("model-repository", _unload),
    "SystemSharedMemoryRegister": ("shared-memory", _register_system),
    "CudaSharedMemoryRegister": ("shared-memory", _register_cuda),
    **{
        f"{place}SharedMemory{verb}": (
            "shared-memory",
            partial(answer, kind, getattr(messages, f"{place}SharedMemory{verb}Response")),
        )
        for place, kind in (("System", SystemRegion), ("Cuda", CudaRegion))
        for verb, answer in (("Status", _region_status), ("Unregister", _unregister))
    },
    "TraceSetting": ("trace", _trace_setting),
    "LogSettings": ("logging", _log_settings),
}
RPCS = {
    name: Rpc(category, getattr(messages, f"{name}Request"), answer) for name, (category, answer) in _ANSWERS.items()
}
