"""`Model` is the handle on a model of a server in this process; it sends the model requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, Unpack

from numpy.typing import NDArray

from ...core.infer_request import InferenceRequest
from ...core.outputs import Outputs
from ...core.status import InternalError, InvalidArgumentError, ModelError
from ...core.unknown_option import explains_unknown
from ...ipc.interrupts import shielded
from ..models.model_lifecycle import ModelVersion
from ..observe.why import Why
from .debugging import EditorAttach, attach_editor, follow_pauses, look_at_last_error
from .failures import ModelFailures
from .handed_in import HandedIn
from .load_tested import LoadTested
from .model_signature import HelpOfModel, SignatureOfModel, spelt_out
from .request_check import check_said
from .request_maker import RequestFields, make_request, make_tensors
from .response_iterator import AsyncResponseIterator, ResponseIterator
from .served_model import ServedModel
from .tunable import Tunable

_Asked: TypeAlias = tuple[InferenceRequest, ModelVersion | None]


class Model(ServedModel, LoadTested, Tunable):
    """Stands for a model of a server, loaded or not. It looks the model up at each use, so it follows reloads."""

    __signature__ = SignatureOfModel()
    __doc__ = HelpOfModel(__doc__)

    @property
    def failures(self) -> ModelFailures:
        """Returns the last failures of the model's code, with what was sent and where it failed:
        `failures[-1].replay()` sends it again.
        """
        return ModelFailures(self, *self._core.failures.of(self.name))

    def debug(self) -> None:
        """Lets you type to the debugger that has paused the model at `breakpoint()`, until the model goes on. Raises
        NotFoundError if none has."""
        follow_pauses(self._core.debugger, self.name)

    def attach(self, local: str = "") -> EditorAttach:
        """Let an editor of this user attach to the model's processes, and return what VS Code needs for that. `local`:
        the directory in which the editor has model.py, if not where it is served. Raises UnsupportedError if the
        model's Python has no debugpy."""
        return attach_editor(self._found().instances, local)

    def postmortem(self) -> None:
        """Lets you look with a debugger at the last exception of `execute`, whose frames are still alive; the model
        goes on serving. Raises NotFoundError if none is kept (`Options.postmortem_seconds`)."""
        look_at_last_error(self._core.debugger, self.name, self._found().instances)

    def why(self) -> Why:
        """Returns, in sentences, what the model's requests, instances, sequences and loads wait for."""
        return self._core.why(self.name)

    @explains_unknown
    def view(self, kind: str = "timeline") -> Any:
        """Returns what a notebook shows of what the model does and did: `timeline` (its batches and why they
        closed), `streams` (the responses of a decoupled one, and what has not ended), `metrics`, `memory` (of its
        instances, and the --shm-size that Triton needs for the same) or `graph` (what a request made other models do:
        steps of an ensemble, BLS calls; and the slots of sequences).

        It moves while a cell shows it; `text()` states the facts, `figure()` is an SVG."""
        return HandedIn.view(self, kind)

    # -- inference

    @spelt_out(RequestFields)
    def create_request(self, **fields: Unpack[RequestFields]) -> InferenceRequest:
        """Makes a request for `infer`. A list becomes a tensor of the input's datatype; where Triton would read it as
        another one, as numpy does, a warning says so, once.
        """
        return self._asked(None, fields)[0]

    def _asked(self, request: InferenceRequest | None, fields: RequestFields) -> _Asked:
        """Returns the given request, or makes one for the version that is there. Only the function that the user calls
        may call this, because warnings point at its caller.
        """
        if request is not None:
            check_said(request)
            return request, None
        found = self._found()
        return make_request(self, found.rules.input_types, fields, self._server.casts), found

    @spelt_out(RequestFields)
    def infer(
        self,
        request: InferenceRequest | None = None,
        raise_on_error: bool = True,
        enable_empty_final_response: bool = False,
        **fields: Unpack[RequestFields],
    ) -> ResponseIterator:
        """Starts a request (given, or made of the arguments of `create_request`) and returns the iterator over its
        responses.

        Raises TritonError at once if the request is refused. `enable_empty_final_response`: also yield a final response
        that carries nothing but its flag (gRPC's `triton_enable_empty_final_response`). `raise_on_error`: the iterator
        raises a response's error instead of yielding it.
        """
        request, found = self._asked(request, fields)
        core = self._core
        iterator = ResponseIterator(request, raise_on_error, enable_empty_final_response, core.explain, core.debugger)
        return self._start(self._core.infer, iterator, found)

    @staticmethod
    def _start(infer: Callable[..., None], iterator: ResponseIterator, found: ModelVersion | None) -> ResponseIterator:
        request = iterator.request
        try:
            shielded(infer, request, found)
        except KeyboardInterrupt:
            try:
                iterator.interrupted()
            finally:
                request.cancel()  # nobody would get the iterator
        return iterator

    @spelt_out(RequestFields)
    def async_infer(
        self,
        request: InferenceRequest | None = None,
        raise_on_error: bool = True,
        enable_empty_final_response: bool = False,
        **fields: Unpack[RequestFields],
    ) -> AsyncResponseIterator:
        """Starts a request as `infer` does, for asyncio: `async for response in model.async_infer(…)`. Call it on the
        running loop.
        """
        request, found = self._asked(request, fields)
        iterator = AsyncResponseIterator(request, raise_on_error, enable_empty_final_response)
        shielded(self._core.infer, request, found)
        return iterator

    def __call__(self, /, *unnamed: Any, **inputs: Any) -> dict[str, NDArray[Any]]:
        """Sends one request and returns its one answer: `model(INPUT0=a, INPUT1=b)["OUTPUT0"]`. BYTES outputs are
        object arrays of `bytes`.

        Raises the model's or the request's TritonError; UnsupportedError for a decoupled model, which may answer any
        number of times. An interrupt cancels the request and says where the model was (RequestInterrupted).
        """
        found = self._found()
        if unnamed:
            form = ", ".join(f"{name}=…" for name in found.rules.input_types)
            raise InvalidArgumentError(f"inputs are given by name: {self.name}({form})")
        if found.rules.decoupled:
            instead = f": iterate over model.infer(inputs={{…}}) of '{self.name}' instead"
            raise found.rules.refusal_of_single("ModelInfer RPC", instead)
        # no warning of lists: only notebooks have this form, no program for Triton has it
        tensors = make_tensors(inputs, found.rules.input_types)
        request = InferenceRequest(self.name, tensors, model_version=self.version)
        try:
            iterator = ResponseIterator(request, True, False, self._core.explain, self._core.debugger)
            answers = self._start(self._core.infer_here, iterator, found)
            response = next(answers, None)
            if response is not None and not response.final:
                _await_end(answers)
        except KeyboardInterrupt:
            request.cancel()  # nobody can get its answer any more
            raise
        if response is None:
            raise InternalError(f"model '{self.name}' ended the request without a response")
        return Outputs({name: tensor.numpy() for name, tensor in response.outputs.items()})


def _await_end(answers: ResponseIterator) -> None:
    """Waits for the final flag of a request that has its answer. Raises what its model did wrong after that, with the
    text that a client gets instead of the answer (rule 6.7.4)."""
    try:
        next(answers, None)
    except ModelError as error:
        text = "expected a single response, got 2"
        told = ModelError(text, reason=error.message, exception=error.exception, log=error.log)
        told.capsule = error.capsule
        raise told from None
