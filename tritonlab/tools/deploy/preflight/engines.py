"""P12: features of a model that do not work on an engine other than Triton, as measured with that engine."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

from ....core.inference.data_type import DataType
from ..releases import Target
from .finding import Finding, Prediction
from .subject import Subject, has_response_parameters, line_of

#: Bytes of a request that Dynamo's frontend accepts, gRPC's default (measured: more is OUT_OF_RANGE; responses have no
#: limit, 100 MiB took 21 s).
DYNAMO_REQUEST = 4 << 20
_OUR_WORKER = "serve it with `tritonlab worker --dynamo`, which carries it"


#: Features of requests, and the methods that show them in a source.
_USES = {
    "the id of the request": "request_id",
    "the parameters of the request": "parameters",
    "the timeout of the request": "timeout",
    "the cancellation of the request": "is_cancelled",
}
#: Notes that apply to every model at an engine, whatever its features.
_NOTES = {
    "dynamo": (
        "clients of Dynamo cannot register shared memory, and have gRPC alone",
        "an error has the code INTERNAL there, whichever it was; its text arrives inside of another",
    ),
    "ray": ("clients of Ray Serve cannot register shared memory, and have HTTP alone",),
    "kserve": ("clients of KServe cannot register shared memory, and have HTTP alone: its runtime has one port",),
}


def on_the_engine(subject: Subject, target: Target) -> Iterator[Finding]:
    """P12: yield the features that the target's engine loses or refuses; none if the target is Triton in a
    container."""
    rows = _ENGINES.get(target.engine)
    if rows is not None:
        yield from rows(subject)


def notes_of(engine: str) -> Sequence[str]:
    """Return the notes that apply to every model there."""
    return _NOTES.get(engine, ())


def _on_dynamo(subject: Subject) -> Iterator[Finding]:
    for use, line in _uses(subject):
        text = f"it uses {use}, which NVIDIA's worker (`python -m dynamo.triton`) drops"
        yield Finding("P12", text, _OUR_WORKER, line)
    if subject.config.dynamic_batching.priority_levels:
        yield Finding("P12", "it has priority levels, and NVIDIA's worker drops a request's priority", _OUR_WORKER)
    if subject.is_decoupled:
        yield Finding(
            "P12",
            "it sends any number of responses, and Dynamo's frontend never sets triton_final_response",
            remedy="let clients take the end of the stream for the last response",
            source_line=_line_of_method(subject, "get_response_sender"),
            outcome=Prediction.DIFFERS,
        )
    if subject.config.HasField("sequence_batching"):
        yield Finding(
            "P12",
            "it keeps sequences, and Dynamo sends the requests of one sequence to any worker",
            "run one worker; `tritonlab worker --dynamo` refuses a second one for it",
            _line_of_method(subject, "correlation_id"),
        )
    if len(subject.versions) > 1:
        yield Finding(
            "P12",
            f"it serves the versions {', '.join(subject.versions)}, and no version reaches the worker: the latest "
            "answers for all",
            "give each version a name of its own",
            outcome=Prediction.DIFFERS,
        )
    if (size := sum(map(_bytes_of, subject.config.input))) > DYNAMO_REQUEST:
        yield Finding(
            "P12",
            f"its inputs have {size} bytes, and Dynamo's frontend refuses requests above {DYNAMO_REQUEST}",
            "serve it with Triton",
            outcome=Prediction.FAILS,
        )
    if (size := sum(map(_bytes_of, subject.config.output))) > DYNAMO_REQUEST:
        yield Finding(
            "P12",
            f"its outputs have {size} bytes, and Dynamo sends tensors as lists of numbers: a second for some MiB",
            "serve it with Triton where its latency counts",
        )


def _on_ray(subject: Subject) -> Iterator[Finding]:
    if subject.config.HasField("sequence_batching"):
        yield Finding(
            "P12",
            "it keeps sequences, and Ray Serve sends the requests of one sequence to any replica, so `tritonlab.ray` "
            "refuses it",
            remedy="serve it with Triton",
            source_line=_line_of_method(subject, "correlation_id"),
            outcome=Prediction.LOAD,
        )
    yield from _without_grpc(subject, "Ray Serve")


def _on_kserve(subject: Subject) -> Iterator[Finding]:
    if subject.config.HasField("sequence_batching"):
        yield Finding(
            "P12",
            "it keeps sequences, and KServe sends the requests of one sequence to any of its pods",
            "set maxReplicas to 1",
            _line_of_method(subject, "correlation_id"),
        )
    yield from _without_grpc(subject, "KServe's one port")


def _without_grpc(subject: Subject, where: str) -> Iterator[Finding]:
    if subject.is_decoupled:
        yield Finding(
            "P12",
            f"it sends any number of responses, which `infer` cannot over HTTP, and {where} has no gRPC",
            "let clients call generate_stream",
            _line_of_method(subject, "get_response_sender"),
        )


_ENGINES: dict[str, Callable[[Subject], Iterator[Finding]]] = {
    "dynamo": _on_dynamo,
    "ray": _on_ray,
    "kserve": _on_kserve,
}


def _uses(subject: Subject) -> Iterator[tuple[str, str]]:
    """Yield the features used in the sources, with the line of the first use."""
    for use, method in _USES.items():
        if line := _line_of_method(subject, method):
            yield use, line
    for source in subject.sources:
        for node in ast.walk(source.tree) if source.tree is not None else ():
            if has_response_parameters(node):
                yield "parameters of its responses", line_of(source, node)
                return


def _line_of_method(subject: Subject, name: str) -> str:
    """Return the line of the first call of a method of this name without arguments; empty if there is none."""
    for source in subject.sources:
        for node in ast.walk(source.tree) if source.tree is not None else ():
            called = node.func if isinstance(node, ast.Call) and not node.args else None
            if isinstance(called, ast.Attribute) and called.attr == name:
                return line_of(source, node)
    return ""


def _bytes_of(tensor: Any) -> int:
    """Return the bytes of one element of the batch; 0 if the dimensions are variable."""
    if any(size < 0 for size in tensor.dims):
        return 0
    elements: int = prod(tensor.dims)
    return elements * DataType(tensor.data_type).byte_size
