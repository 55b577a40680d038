"""Servers of either side with settings of their own, for tests of what a server reports about itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tritonlab.core.status import Code, TritonError

from .clients import Client, Failure, Files
from .lab_client import LabClient
from .real_client import RealClient
from .reference import ReferenceServer, missing

#: What HTTP says for a code of the core (rule 3.6).
STATUS = {
    Code.INTERNAL: "500",
    Code.NOT_FOUND: "404",
    Code.INVALID_ARG: "400",
    Code.UNAVAILABLE: "503",
    Code.UNSUPPORTED: "501",
}


@contextmanager
def serving(
    program: str, scratch: Path, models: Mapping[str, Files], arguments: Sequence[str], **options: Any
) -> Iterator[Client]:
    """Start the real server with `arguments`, or ours with `options`, and load the models. Skip where there is no
    real one."""
    repository = scratch / "models"
    repository.mkdir()
    if program == "lab":
        client = LabClient(repository, **options)
        assert not any(client.load_all(models).values())
        yield client
        client.close()
        return
    if (why := missing()) is not None:
        pytest.skip(why)
    with ReferenceServer(repository, scratch, arguments) as server:
        real = RealClient(server)
        assert not any(real.load_all(models).values())
        yield real
        real.close()


def trace_settings(client: Client, settings: Mapping[str, Any] | None = None, model: str = "") -> Any:
    """Update the settings, if there is something, and return them: `{name: text, or list of levels}`, or the
    Failure."""
    if isinstance(client, LabClient):
        core = client.server.core.trace_settings
        try:
            if settings is not None:
                core.update(model, {k: [v] if isinstance(v, str) else v for k, v in settings.items()})
            found = core.get(model)
        except TritonError as error:
            return Failure(STATUS[error.code], error.message)
        return {key: values if key == "trace_level" else values[0] for key, values in found.items()}
    assert isinstance(client, RealClient)
    path = f"/v2/models/{model}/trace/setting" if model else "/v2/trace/setting"
    return client._http(path, None if settings is None else json.dumps(settings).encode())


def log_settings(client: Client, settings: Mapping[str, Any] | None = None) -> Any:
    """Update the settings, if there is something, and return them, or the Failure."""
    if isinstance(client, LabClient):
        try:
            client.server.log_settings.update(settings or {})
        except TritonError as error:
            return Failure(STATUS[error.code], error.message)
        return client.server.log_settings.get()
    assert isinstance(client, RealClient)
    return client._http("/v2/logging", None if settings is None else json.dumps(settings).encode())
