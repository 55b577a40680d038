"""Programs that call the deployed models: a client in Python and in curl, and tests with recorded answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...clients.literal import TooLarge
from ...clients.snippets import Address, NotSendable, copy_as, recorded_tests
from .facts import DeployedModel, Deployment

_HTTP, _GRPC = "localhost:8000", "localhost:8001"
_ADDRESS = Address(_HTTP, _GRPC)


def programs(deployed: Deployment) -> dict[str, str | bytes]:
    """Return the programs by their names; none for models without recorded requests. `client.py` and `client.sh` call
    the first model, `client_<model>.py` and `.sh` the others."""
    files: dict[str, str | bytes] = {}
    for number, model in enumerate(deployed.models):
        stem = f"client_{model.name}" if number else "client"
        files |= {f"{stem}{suffix}": text for suffix, text in _clients(model)}
    files |= _tests(deployed)
    return files


def _clients(model: DeployedModel) -> Iterator[tuple[str, str]]:
    """Write the first recorded request that fits into the text of a program."""
    kinds = {".py": "tritonclient gRPC" if model.is_decoupled else "tritonclient HTTP"}
    if not model.is_decoupled:  # HTTP has one response for each request
        kinds[".sh"] = "curl"
    for suffix, kind in kinds.items():
        for recorded in model.recorded:
            try:
                text = copy_as(kind, recorded.request, model.config, address=_ADDRESS).text
            except (TooLarge, NotSendable):
                continue
            yield suffix, _shell(model, text) if suffix == ".sh" else _python(model, text)
            break


def _python(model: DeployedModel, text: str) -> str:
    variable, address, extra = ("TRITON_GRPC", _GRPC, "grpc") if model.is_decoupled else ("TRITON_HTTP", _HTTP, "http")
    about = (
        f'"""A request to the model {model.name}: pip install tritonclient[{extra}]\n\n'
        f'The server is at ${variable}, or {address}.\n"""\n\nimport os\n'
    )
    # the last one: an earlier one is text in an input
    before, _, after = text.rpartition(f'InferenceServerClient("{address}")')
    return f'{about}{before}InferenceServerClient(os.environ.get("{variable}", "{address}")){after}'


def _shell(model: DeployedModel, text: str) -> str:
    before, _, after = text.partition(f"http://{_HTTP}")
    if before.endswith("'"):  # the quote of a path with a space begins behind the variable
        before, after = before[:-1], f"'{after}"
    return (
        "#!/bin/sh\n"
        f"# A request to the model {model.name}. The server is at $TRITON_HTTP, or {_HTTP}.\n"
        f'server="http://${{TRITON_HTTP:-{_HTTP}}}"\n{before}"$server"{after}'
    )


def _tests(deployed: Deployment) -> Mapping[str, str | bytes]:
    cases = [
        (recorded.request, recorded.responses, model.config) for model in deployed.models for recorded in model.recorded
    ]
    if not cases:
        return {}
    tests = recorded_tests("test_models", cases, _ADDRESS)
    return {tests.name: tests.text, **tests.files}
