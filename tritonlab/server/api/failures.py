"""The kept failures of a model, and how to send their requests again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, overload

from ...core.explained import Explained
from ...core.inference.infer_request import SETTINGS, InferenceRequest
from ...core.inference.infer_response import InferenceResponse, Outputs
from ...core.observe.failure_capsule import FailureCapsule, KeptRequest
from ...core.process_bound import ProcessBound
from ...core.status import Code, UnsupportedError

#: The most lines of each part of a text: frames, variables of the innermost frame, requests.
_FRAMES, _VARIABLES, _REQUESTS = 6, 10, 5


class FailedModel(Protocol):
    """The part of `Model` that failures use."""

    name: str
    version: int

    @property
    def server(self) -> Any: ...

    def config(self) -> dict[str, Any]: ...

    def infer(self, request: InferenceRequest) -> Iterator[InferenceResponse]: ...


def request_again(model: FailedModel, record: KeptRequest) -> InferenceRequest:
    """Return a kept request again, for the model as it is now. Raises TritonError if the model does not serve, or has
    other inputs.
    """
    tensors = {name: each.tensor for name, each in record.inputs.items() if each.tensor is not None}
    inputs = model.server.core.find(model.name, model.version).rules.as_sent(tensors)
    settings = {name: getattr(record, name) for name in SETTINGS}
    settings["parameters"] = dict(record.parameters) or None
    return InferenceRequest(model.name, inputs, model_version=model.version, **settings)


class KeptFailure(ProcessBound):
    """One failure of a model: the exception, its place and variables, and the failed requests."""

    _elsewhere = "pickle its `capsule`"

    def __init__(self, model: FailedModel, capsule: FailureCapsule) -> None:
        """`model` is the model as it is now, `capsule` is the kept record."""
        self.model = model
        self.capsule = capsule

    @property
    def text(self) -> str:
        """The error as a client reads it."""
        return self.capsule.text

    @property
    def request_ids(self) -> list[str]:
        """The ids of the requests that failed, in their order in the batch."""
        return [request.request_id for request in self.capsule.requests]

    def replay(self) -> Any:
        """Send the requests again, to the model as it is now, and return the answer in the form of `model(…)`: a dict
        of arrays, or a list of dicts for a decoupled model. Several requests of a batch are sent together, and their
        answers are a list.

        Raises the model's error; UnsupportedError if an input was too large to keep, or no request was kept.
        """
        started = [self.model.infer(request) for request in self.requests()]
        decoupled = self.model.config().get("model_transaction_policy", {}).get("decoupled", False)
        answers: list[Any] = []
        for responses in started:
            found = [Outputs({name: tensor.numpy() for name, tensor in each.outputs.items()}) for each in responses]
            answers.append(found if decoupled or len(found) != 1 else found[0])
        return answers[0] if len(answers) == 1 else answers

    def requests(self) -> list[InferenceRequest]:
        """Return the requests again, for `model.infer`. Raises UnsupportedError like `replay`."""
        capsule = self.capsule
        if not capsule.requests:
            raise UnsupportedError(f"'{capsule.model}' failed in {capsule.phase}, without a request: load it again")
        if capsule.left_out:
            raise UnsupportedError(f"{capsule.left_out} of the requests of this batch were not kept")
        return [self._request(request) for request in capsule.requests]

    def _request(self, record: KeptRequest) -> InferenceRequest:
        if record.cut:
            size = sum(record.inputs[name].byte_size for name in record.cut)
            names = ", ".join(f"'{name}'" for name in record.cut)
            raise UnsupportedError(
                f"the request cannot be sent again: {names} ({size:,} bytes) was too large to be kept; "
                "send it with an array of your own"
            )
        return request_again(self.model, record)

    def to_dict(self) -> dict[str, Any]:
        """Return everything that is kept, as JSON values; tensors by their first elements."""
        return self.capsule.to_dict()

    def _cited(self, text: str) -> str:
        """Return a text that names a line of a model's file, in the form for people."""
        return text

    def __repr__(self) -> str:
        capsule = self.capsule
        at = time.strftime("%H:%M:%S", time.localtime(capsule.time_ns / 1e9))
        where = f"execution {capsule.batch_id} of {capsule.instance}" if capsule.batch_id else capsule.instance
        lines = [f"{capsule.headline}", f"  in {capsule.phase}, {where} (process {capsule.pid}), at {at}"]
        for frame in capsule.frames[-_FRAMES:]:
            source = frame.source[frame.line - frame.start].strip() if frame.source else ""
            text = f'  File "{frame.file}", line {frame.line}, in {frame.function}' + f"\n    {source}" * bool(source)
            lines.append(self._cited(text))
        place = capsule.place
        for name, text in place.variables[:_VARIABLES] if place is not None else ():
            lines.append(f"    {name} = {text}")
        lines += [f"  it had called '{call.model}', which failed: {call.headline}" for call in capsule.failed_calls]
        return "\n".join(lines + _request_lines(capsule))


def _request_lines(capsule: FailureCapsule) -> list[str]:
    lines = []
    for index, request in enumerate(capsule.requests[:_REQUESTS]):
        name = f"request {request.serial}" + (f" (id '{request.request_id}')" if request.request_id else "")
        in_batch = (
            f", {index + 1} of {len(capsule.requests) + capsule.left_out} in the batch"
            if len(capsule.requests) > 1
            else ""
        )
        inputs = "; ".join(
            f"{key} {each.text}" + " [cut]" * (each.tensor is None) for key, each in request.inputs.items()
        )
        lines.append(f"  {name}{in_batch}: {inputs or 'no inputs'}")
    more = len(capsule.requests) + capsule.left_out - len(lines)
    return lines + ([f"  and {more} more requests"] if more else [])


class NoSuchFailure(Explained, IndexError):
    """A failure that is not kept; the text has the number of kept ones."""

    code = Code.NOT_FOUND

    def __init__(self, model: str, count: int, total: int) -> None:
        text = f"'{model}' has not failed" if not total else f"{count} of the {total} failures of '{model}' are kept"
        super().__init__(text)


class ModelFailures(Sequence[KeptFailure]):
    """The last failures of a model, oldest first: `model.failures[-1]` is the last one. They outlive reloads.

    `total` counts all failures of the author's code, `answered_with_error` the responses that carried a
    `pb_utils.TritonError`, which are answers, so nothing of them is kept.
    """

    def __init__(self, model: str, failures: Sequence[KeptFailure], total: int, answered_with_error: int) -> None:
        self._failures = list(failures)
        self._model = model
        self.total = total
        self.answered_with_error = answered_with_error

    def __len__(self) -> int:
        return len(self._failures)

    @overload
    def __getitem__(self, index: int) -> KeptFailure: ...
    @overload
    def __getitem__(self, index: slice) -> list[KeptFailure]: ...
    def __getitem__(self, index: int | slice) -> KeptFailure | list[KeptFailure]:
        try:
            return self._failures[index]
        except IndexError:
            raise NoSuchFailure(self._model, len(self), self.total) from None

    def to_dict(self) -> dict[str, Any]:
        return {
            "model": self._model,
            "total": self.total,
            "answered_with_error": self.answered_with_error,
            "failures": [failure.to_dict() for failure in self],
        }

    def __repr__(self) -> str:
        count, errors = self.total, self.answered_with_error
        head = f"{count} failure{'s' * (count != 1)} of '{self._model}'"
        head += f", the last {len(self)} kept" * (count > len(self))
        head += f"; {errors} response{'s' * (errors != 1)} with an error of the model's own making" * (errors > 0)
        lines = [head]
        for index, failure in enumerate(self):
            capsule = failure.capsule
            at = time.strftime("%H:%M:%S", time.localtime(capsule.time_ns / 1e9))
            ids = ", ".join(filter(None, failure.request_ids[:_REQUESTS]))
            lines.append(f"[{index - len(self)}] {at}  {capsule.headline}" + (f"  (id {ids})" if ids else ""))
        return "\n".join(lines)
