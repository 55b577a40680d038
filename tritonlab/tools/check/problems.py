"""Errors within one answer: broken rules of Triton, and differences from the config."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...core.config.model_config import ModelConfig
from ...core.inference.data_type import DataType
from ...core.inference.infer_request import InferenceRequest
from ...core.inference.infer_response import InferenceResponse
from ...core.inference.tensor import Tensor
from ...server.observe.first_looks import VersionCheck
from .sample import ModelAnswer, Sample

#: The beginnings of errors that the server makes when the model's code breaks a rule.
_FAILED = "Failed to process the request(s) for model"
_SENDER = "Unable to send response."
#: Rules that Triton's text does not explain to an author, and their sentences.
_RULES = {
    "Number of InferenceResponse objects do not match": "execute returns another number of responses than it got "
    "requests",
    "whose response sender was never used": "a request gets no response: execute returns None for it and does not use "
    "its response sender",
    "without the final flag": "the response sender is dropped without the final flag, so that the request never ends",
    "changed the list of its requests": "execute changes the list of its requests",
    "must return None": "execute of a decoupled model returns something",
    "the execute function must return None": "execute of a decoupled model returns something",
    "Expected an 'InferenceResponse' object": "execute returns something that is not an InferenceResponse",
    "Expected a list in the execute return": "execute does not return a list",
    "cannot send more than one response": "a request is answered twice",
    "cannot send complete final before": "the final flag is sent before the response",
    "Response sender has been closed": "something is sent after the final flag",
}


def rule_broken(answer: ModelAnswer) -> str:
    """Return the rule that the model's code has broken, in words, if the answer is an error of the server's or missing;
    "" if none."""
    if not answer.ended and not answer.died:
        if answer.busy:
            return ""  # slow is not wrong
        if answer.responses:
            return "the request never ends: the final flag is not sent"
        return "the request never gets a response"
    error = answer.error
    if not error:
        return ""
    is_servers = answer.exception is None and error.startswith(_FAILED) and not answer.died
    is_sender = answer.exception is not None and _SENDER in answer.exception.text
    if not (is_servers or is_sender or "expected a single response" in error):
        return ""
    for part, words in _RULES.items():
        if part in error:
            return words
    return answer.summary if is_servers or is_sender else "a request is answered twice"


def answer_problems(config: ModelConfig, sample: Sample, answer: ModelAnswer, rows: int) -> Iterator[tuple[str, str]]:
    """Yield each difference between an answer and the config, as the output and a sentence."""
    if words := rule_broken(answer):
        yield "", words
    if not answer.good:
        return
    check = VersionCheck(config)
    request = InferenceRequest("", dict(sample.inputs), **sample.fields)
    request.batch_size = rows
    for number, outputs in enumerate(answer.responses):
        for warning in check.warnings(request, InferenceResponse(outputs=dict(outputs))):
            yield f"{number}", warning
    if answer.empty and not answer.responses and any(True for _ in config.output):
        promised = ", ".join(f"'{one.name}'" for one in config.output)
        yield "", f"a response has no outputs; the config promises {promised}"


def text_outputs(answers: list[tuple[Sample, ModelAnswer]]) -> set[str]:
    """Return the outputs that seem to be text: BYTES that were valid UTF-8 in all answers to ASCII requests."""
    seen: dict[str, list[bytes]] = {}
    for sample, answer in answers:
        if all(text.isascii() for _, text in _texts(sample.inputs)):
            for outputs in answer.responses:
                for name, text in _texts(outputs):
                    seen.setdefault(name, []).append(text)
    return {name for name, texts in seen.items() if sum(map(bool, texts)) >= 3 and all(map(_is_utf8, texts))}


def is_utf8(sample: Sample) -> bool:
    """Return whether all texts of a request are UTF-8."""
    return all(_is_utf8(text) for _, text in _texts(sample.inputs))


def broken_text(answer: ModelAnswer, names: set[str]) -> tuple[str, bytes] | None:
    """Return a text output, and its element, that is not valid UTF-8."""
    texts = (one for outputs in answer.responses for one in _texts(outputs))
    return next(((name, text) for name, text in texts if name in names and not _is_utf8(text)), None)


def _texts(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, bytes]]:
    """Yield the elements of BYTES tensors, each with the tensor's name."""
    for name, tensor in tensors.items():
        if tensor.datatype is DataType.BYTES:
            yield from ((name, bytes(element)) for element in tensor.numpy().flat)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
