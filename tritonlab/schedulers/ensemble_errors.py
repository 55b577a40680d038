"""The errors of a failed ensemble request: Triton's text, and below it the failed step with its inputs."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.config.ensemble_graph import EnsembleGraph
from ..core.config.model_config import dims_text
from ..core.inference.infer_request import InferenceRequest
from ..core.status import Code, EnsembleError, ModelError, TritonError
from .ensemble_progress import Run


def failed_step(graph: EnsembleGraph, run: Run, error: TritonError) -> EnsembleError:
    """Return the error of a step's request in the form that the ensemble's client gets (rule 5.7.5)."""
    inputs = ", ".join(_inputs_text(graph, run))
    reason = f"{run.step} of ensemble '{graph.name}' failed; its inputs: {inputs}"
    text = f"in ensemble '{graph.name}', {error.message}"
    if not isinstance(error, ModelError):
        return EnsembleError(text, code=error.code, reason=reason)
    if error.reason and error.reason not in error.message:
        reason = f"{reason}; {error.reason}"
    found = EnsembleError(text, code=error.code, reason=reason, exception=error.exception, log=error.log)
    found.capsule = error.capsule
    return found


def _inputs_text(graph: EnsembleGraph, run: Run) -> Iterable[str]:
    for reading in run.step.inputs:
        tensor = run.inputs.get(reading.name)
        what = f"{tensor.datatype.name}{dims_text(tensor.shape)}" if tensor is not None else "not produced"
        yield f"{reading.name} is {reading.tensor}, {graph.origin(reading.tensor)}, {what}"


def deadlock(graph: EnsembleGraph, request: InferenceRequest, outputs: Iterable[str]) -> EnsembleError:
    """Return the error of a request that ends without a response, as no step can run any more (rule 5.7.6)."""
    text = (
        f"in ensemble '{graph.name}', {request.prefix}unexpected deadlock, at least one output is not set while no "
        "more ensemble steps can be made"
    )
    missing = [name for name in graph.inputs if name not in request.inputs and name not in graph.optional_inputs]
    waiting = [
        f"{step} waits for {' and '.join(name for name in missing if name in step.reads)}"
        for step in graph.steps
        if not step.reads.isdisjoint(missing)
    ]
    reason = "; ".join([f"the outputs {', '.join(outputs)} are not set", *waiting])
    return EnsembleError(text, code=Code.INVALID_ARG, reason=f"{reason}, which the request does not carry")
