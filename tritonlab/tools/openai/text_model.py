"""The tensors of a model that takes text, found under OpenAI's names.

The prompt is the input `text_input` or `prompt`, else the model's only required text; the answer is the output
`text_output`, else the only text. Options of a request, such as `max_tokens` or `stop`, go to the input of the same
name, with the schemas of vLLM's and TensorRT-LLM's backends; options without an input are parameters of the request,
which a model reads with `request.parameters()`. Another name is a parameter of the model's config:

    parameters { key: "openai.prompt" value { string_value: "QUESTION" } }
    parameters { key: "openai.text" value { string_value: "ANSWER" } }
    parameters { key: "openai.max_tokens" value { string_value: "LENGTH" } }
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...core.inference.data_type import DataType
from ...core.inference.tensor import Tensor
from .openai_errors import OpenAIError

#: Begins the keys of a config's parameters.
PREFIX = "openai."
PROMPT, TEXT, EMBEDDING, MESSAGES = "prompt", "text", "embedding", "messages"

#: OpenAI's option -> its tensors in other schemas, besides the one of the same name.
_INPUTS: dict[str, tuple[str, ...]] = {
    PROMPT: ("text_input",),
    MESSAGES: (),
    "tools": (),
    "max_tokens": ("request_output_len", "max_new_tokens"),
    "temperature": (),
    "top_p": ("runtime_top_p",),
    "top_k": ("runtime_top_k",),
    "presence_penalty": (),
    "frequency_penalty": (),
    "repetition_penalty": (),
    "stop": ("stop_words",),
    "bad_words": (),
    "seed": ("random_seed",),
    "stream": ("streaming",),
    "beam_width": (),
    "logprobs": ("return_log_probs", "return_logprobs"),
    "sampling_parameters": (),
}
#: Inputs that ask vLLM's backend for more in its responses, and their values.
_ALWAYS = {
    "exclude_input_in_output": True,
    "return_finish_reason": True,
    "return_num_input_tokens": True,
    "return_num_output_tokens": True,
}
#: Values of required inputs that the client left out.
_DEFAULTS: dict[str, Any] = {"temperature": 1.0, "top_p": 1.0, "repetition_penalty": 1.0, "beam_width": 1}
_OUTPUTS: dict[str, tuple[str, ...]] = {
    TEXT: ("text_output",),
    EMBEDDING: ("embeddings", "sentence_embedding"),
    "finish_reason": (),
    "logprobs": ("output_log_probs",),
    "tool_calls": (),
    "num_input_tokens": (),
    "num_output_tokens": (),
}

#: Returns the number of tokens of a text.
Count = Callable[[str], int]

_TOKENIZER = "tokenizer.json"
_COUNTERS: dict[str, Count] = {
    "characters": len,
    "words": lambda text: len(text.split()),
    "bytes": lambda text: len(text.encode()),
}


class TensorForm(NamedTuple):
    """An input or output: its name, datatype, and dimensions without the batch."""

    name: str
    datatype: DataType
    dims: tuple[int, ...]


class NotTextModelError(ValueError):
    """An error for a model that takes no text, or needs more than a text; its message is the reason."""


@dataclass(frozen=True)
class TextModel:
    """The tensors of a model by OpenAI's names."""

    name: str
    has_batch_dimension: bool
    inputs: Mapping[str, TensorForm]
    outputs: Mapping[str, TensorForm]
    #: the options whose inputs every request has
    required: frozenset[str] = frozenset()

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> TextModel:
        """Find the tensors of a complete configuration. Raises NotTextModelError."""
        chosen = {
            key.removeprefix(PREFIX): value["string_value"]
            for key, value in config.get("parameters", {}).items()
            if key.startswith(PREFIX)
        }
        inputs, optional = _forms(config["input"]), {each["name"] for each in config["input"] if each.get("optional")}
        outputs = _forms(config["output"])
        found = _named(inputs, _INPUTS, chosen)
        given = _named(outputs, _OUTPUTS, chosen)
        texts = [form for form in inputs.values() if form.datatype is DataType.BYTES]
        if PROMPT not in found and MESSAGES not in found:
            free = [form for form in texts if form.name not in optional and form not in found.values()]
            if len(free) != 1:
                several = f"{len(free)} inputs are texts" if free else "no required input is a text"
                name = f"'{PREFIX}{PROMPT}' among the config's parameters names the one for the prompt"
                raise NotTextModelError(f"{several}; {name}")
            found[PROMPT] = free[0]
        texts = [form for form in outputs.values() if form.datatype is DataType.BYTES and form not in given.values()]
        if TEXT not in given and len(texts) == 1:
            given[TEXT] = texts[0]
        numbers = [form for form in outputs.values() if form.datatype in _FLOATS and form not in given.values()]
        if TEXT not in given and EMBEDDING not in given and len(numbers) == 1:
            given[EMBEDDING] = numbers[0]
        if TEXT not in given and EMBEDDING not in given:
            raise NotTextModelError(f"no output is a text; '{PREFIX}{TEXT}' among the config's parameters names one")
        known = {form.name for form in found.values()} | set(_ALWAYS)
        if unknown := [name for name in inputs if name not in optional and name not in known]:
            raise NotTextModelError(f"it requires the input '{unknown[0]}', which is no option of OpenAI's API")
        found |= {name: inputs[name] for name in _ALWAYS if name in inputs}
        return cls(
            config["name"],
            int(config["max_batch_size"]) > 0,
            found,
            given,
            frozenset(key for key, form in found.items() if form.name not in optional),
        )

    def tensors(self, options: Mapping[str, Any]) -> dict[str, Tensor]:
        """Return the inputs for one request with these options. Raises OpenAIError for a value that does not fit."""
        values = {**{key: value for key, value in options.items() if value is not None}, **_ALWAYS}
        found = {}
        for key, form in self.inputs.items():
            if key == "sampling_parameters":
                value: Any = json.dumps({k: v for k, v in options.items() if k in _SAMPLING and v is not None})
            elif key in (MESSAGES, "tools") and key in values:
                value = json.dumps(values[key], ensure_ascii=False)
            elif key in values:
                value = values[key]
            elif key in self.required:
                value = _DEFAULTS.get(key, "" if form.datatype is DataType.BYTES else 0)
            else:
                continue
            found[form.name] = self._tensor(key, form, value)
        return found

    def parameters(self, options: Mapping[str, Any]) -> dict[str, bool | int | float | str]:
        """Return the options without an input, for the parameters of a request."""
        left = {key: value for key, value in options.items() if key not in (*self.inputs, PROMPT, MESSAGES, "stream")}
        if "sampling_parameters" in self.inputs:
            left = {key: value for key, value in left.items() if key not in _SAMPLING}
        return {
            key: value if isinstance(value, (bool, int, float, str)) else json.dumps(value, ensure_ascii=False)
            for key, value in left.items()
            if value is not None
        }

    def _tensor(self, key: str, form: TensorForm, value: Any) -> Tensor:
        items = value if isinstance(value, (list, tuple)) else [value]
        shape = [1] * self.has_batch_dimension + [len(items) if dim < 0 else dim for dim in form.dims]
        try:
            if form.datatype is DataType.BYTES:
                array = np.empty(len(items), dtype=object)
                array[:] = [str(item).encode() for item in items]  # UnicodeEncodeError for half a surrogate pair
            else:
                array = np.array(items, dtype=form.datatype.numpy)
            return Tensor.from_numpy(array.reshape(shape))
        except (ValueError, TypeError, OverflowError) as error:
            wanted = f"{form.datatype.name}{list(form.dims)}"
            raise OpenAIError(f"'{key}' does not fit the input '{form.name}', {wanted}: {error}", param=key) from None


_FLOATS = (DataType.FP32, DataType.FP64, DataType.FP16)
#: The options that are vLLM's sampling parameters.
_SAMPLING = {
    *("max_tokens", "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "stop", "seed"),
    *("repetition_penalty", "logprobs", "bad_words", "min_tokens", "ignore_eos"),
}


def _forms(tensors: Sequence[Mapping[str, Any]]) -> dict[str, TensorForm]:
    return {
        each["name"]: TensorForm(
            each["name"], DataType.from_config_name(each["data_type"]), tuple(int(dim) for dim in each["dims"])
        )
        for each in tensors
    }


def _named(
    forms: Mapping[str, TensorForm], names: Mapping[str, tuple[str, ...]], chosen: Mapping[str, str]
) -> dict[str, TensorForm]:
    """Return the tensors by OpenAI's names. Raises NotTextModelError for a chosen one that is missing."""
    found = {}
    for key, others in names.items():
        if key in chosen:
            if chosen[key] not in forms:
                raise NotTextModelError(f"it has no tensor '{chosen[key]}', which '{PREFIX}{key}' of its config names")
            found[key] = forms[chosen[key]]
        elif name := next((name for name in (*others, key) if name in forms), ""):
            found[key] = forms[name]
    return found


def find_counter(directories: Sequence[Path], chosen: str = "") -> Count | None:
    """Return the function that counts the tokens of a model; None if it is not known.

    chosen: `openai.tokens` of its config: `characters`, `words` or `bytes`, or the path of a `tokenizer.json`, relative
        to one of the directories. If it is empty, a `tokenizer.json` in one of them is used.

    Raises OpenAIError for a file that is missing or no tokenizer, and without the package `tokenizers`.
    """
    if chosen in _COUNTERS:
        return _COUNTERS[chosen]
    files = [directory / (chosen or _TOKENIZER) for directory in directories]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        if chosen:
            raise OpenAIError(f"the model has no file '{chosen}', which 'openai.tokens' of its config names", 500)
        return None
    try:
        from tokenizers import Tokenizer
    except ImportError:
        if chosen:
            raise OpenAIError(f"counting tokens with {file} needs the package: pip install tokenizers", 500) from None
        return None
    try:
        tokenizer: Any = Tokenizer.from_file(str(file))
    except Exception as error:  # the class of its errors is Exception
        raise OpenAIError(f"{file} is no tokenizer: {error}", 500) from None
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
