"""The programs that accompany a deployment: clients that send a recorded request, and the tests of all models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ....core.quoting import file_stem, one_line
from ....exchanges.literal import TooLarge
from ....exchanges.snippets import Address, NotSendable, copy_as, recorded_tests
from .facts import DeployedModel, Deployment

_ADDRESS = Address("localhost:8000", "localhost:8001", is_default=True)


def programs(deployed: Deployment) -> dict[str, str | bytes]:
    """Return the programs by their names; none for models without recorded requests. `client.py` and `client.sh` call
    the first model, `client_<model>.py` and `.sh` the others."""
    files: dict[str, str | bytes] = {}
    for number, model in enumerate(deployed.models):
        stem = f"client_{file_stem(model.name)}" if number else "client"
        if f"{stem}.py" in files:  # a name with other characters
            stem += f"_{number}"
        files |= {f"{stem}{suffix}": text for suffix, text in _clients(model)}
    files |= _tests(deployed)
    return files


def _clients(model: DeployedModel) -> Iterator[tuple[str, str]]:
    """Write the first suitable recorded request into the text of a program."""
    kinds = {".py": "tritonclient gRPC" if model.is_decoupled else "tritonclient HTTP"}
    if not model.is_decoupled:  # HTTP has one response for each request
        kinds[".sh"] = "curl"
    for suffix, kind in kinds.items():
        for recorded in model.recorded:
            try:
                text = copy_as(kind, recorded, model.config, _ADDRESS).text
            except (TooLarge, NotSendable):
                continue
            yield suffix, _shell(model, text) if suffix == ".sh" else _python(model, text)
            break


def _python(model: DeployedModel, text: str) -> str:
    variable, extra = ("TRITON_GRPC", "grpc") if model.is_decoupled else ("TRITON_HTTP", "http")
    address = _ADDRESS.grpc if model.is_decoupled else _ADDRESS.http
    return (
        f'"""A request to the model: pip install tritonclient[{extra}]\n\n'
        f'The server is at ${variable}, or {address}.\n"""\n\n{text}'
    )


def _shell(model: DeployedModel, text: str) -> str:
    return (
        "#!/bin/sh\n"
        f"# A request to the model {one_line(model.name)}. The server is at $TRITON_HTTP, or {_ADDRESS.http}.\n"
        "# It ends with a status that is not 0 if the server answers with an error. curl 7.76 or newer.\n"
        f"{text}"
    )


def _tests(deployed: Deployment) -> Mapping[str, str | bytes]:
    cases = [(recorded, model.config) for model in deployed.models for recorded in model.recorded]
    if not cases:
        return {}
    tests = recorded_tests("test_models", cases, _ADDRESS)
    return {tests.name: tests.text, **tests.files}
