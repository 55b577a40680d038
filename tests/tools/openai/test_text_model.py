"""The tensors of models that take texts: found in the schemas of other backends, or named by a config's parameters."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tritonlab.core.config.model_config import parse_pbtxt, to_dict
from tritonlab.tools.openai.openai_errors import OpenAIError
from tritonlab.tools.openai.openai_requests import TextRequest
from tritonlab.tools.openai.text_model import NotTextModelError, TextModel


def tensors(kind: str, **found: str) -> str:
    """Return the inputs or outputs of a config; `?` marks those that are optional."""
    lines = []
    for name, form in found.items():
        datatype, _, dims = form.strip("?").partition(" ")
        optional = "optional: true" if form.endswith("?") else ""
        lines.append(f'{kind} {{ name: "{name}" data_type: TYPE_{datatype} dims: [{dims or 1}] {optional} }}')
    return "\n".join(lines)


def mapping(**named: str) -> str:
    return "\n".join(
        f'parameters {{ key: "openai.{key}" value {{ string_value: "{name}" }} }}' for key, name in named.items()
    )


def model_of(*parts: str) -> TextModel:
    return TextModel.from_config(
        to_dict(parse_pbtxt("\n".join(('name: "m" backend: "python"', *parts)), "config.pbtxt"))
    )


def options_of(chat: bool = False, **body: Any) -> dict[str, Any]:
    request = TextRequest.from_json({"model": "m", "prompt": "Hi", **body}, chat=chat)
    return {**request.nth(0), "prompt": "Hi"}


VLLM = (
    tensors("input", text_input="STRING", image="STRING -1?", stream="BOOL?", sampling_parameters="STRING?"),
    tensors("input", exclude_input_in_output="BOOL?", return_finish_reason="BOOL?", return_logprobs="BOOL?"),
    tensors("input", return_cumulative_logprob="BOOL?", return_num_input_tokens="BOOL?"),
    tensors("input", return_num_token_ids="BOOL?", return_num_output_tokens="BOOL?"),
    tensors("output", text_output="STRING -1", finish_reason="STRING -1", cumulative_logprob="FP32 -1"),
    tensors("output", logprobs="STRING -1", num_input_tokens="UINT32", num_output_tokens="UINT32 -1"),
    "model_transaction_policy { decoupled: true }",
)
TRTLLM = (
    "max_batch_size: 8",
    tensors("input", text_input="STRING", max_tokens="INT32", bad_words="STRING -1?", stop_words="STRING -1?"),
    tensors("input", end_id="INT32?", pad_id="INT32?", top_k="INT32?", top_p="FP32?", temperature="FP32?"),
    tensors("input", repetition_penalty="FP32?", random_seed="UINT64?", return_log_probs="BOOL?", stream="BOOL?"),
    tensors("input", beam_width="INT32?", presence_penalty="FP32?", frequency_penalty="FP32?"),
    tensors("output", text_output="STRING -1", cum_log_probs="FP32 -1", output_log_probs="FP32 -1, -1"),
    tensors("output", context_logits="FP32 -1, -1", sequence_index="INT32"),
)


def test_the_schema_of_vllms_backend() -> None:
    model = model_of(*VLLM)
    options = options_of(stream=True, temperature=0, stop=["."], seed=3, logprobs=1, user="me")
    found = {name: tensor.numpy().tolist() for name, tensor in model.tensors(options).items()}
    sent = json.loads(found.pop("sampling_parameters")[0])
    assert sent == {"temperature": 0, "stop": ["."], "seed": 3, "max_tokens": 16, "logprobs": True}
    flags = ("exclude_input_in_output", "return_finish_reason", "return_num_input_tokens", "return_num_output_tokens")
    assert found == {
        "text_input": [b"Hi"],
        "stream": [True],
        "return_logprobs": [True],
        **{key: [True] for key in flags},
    }
    assert model.parameters(options) == {}
    read = ("text", "finish_reason", "logprobs", "num_input_tokens", "num_output_tokens")
    assert [model.outputs[key].name for key in read] == ["text_output", *read[1:]]


def test_the_schema_of_tensorrt_llms_backend() -> None:
    model = model_of(*TRTLLM)
    options = options_of(max_tokens=5, temperature=0.5, stop=["a", "b"], seed=3, top_k=4, other="x")
    found = {name: tensor.numpy() for name, tensor in model.tensors(options).items()}
    assert {name: array.tolist() for name, array in found.items()} == {
        "text_input": [[b"Hi"]],
        "max_tokens": [[5]],
        "stop_words": [[b"a", b"b"]],
        "top_k": [[4]],
        "temperature": [[0.5]],
        "random_seed": [[3]],
        "stream": [[False]],
    }
    assert [found[name].dtype.name for name in ("random_seed", "max_tokens")] == ["uint64", "int32"]
    assert model.parameters(options) == {"other": "x"}
    assert model.outputs["logprobs"].name == "output_log_probs"


def test_three_lines_of_a_config_name_the_tensors() -> None:
    inputs = tensors("input", QUESTION="STRING", CONTEXT="STRING", LENGTH="INT64")
    outputs = tensors("output", ANSWER="STRING", WHY="STRING")
    with pytest.raises(NotTextModelError, match=r"2 inputs are texts; 'openai\.prompt' among the config's parameters"):
        model_of(inputs, outputs)
    named = mapping(prompt="QUESTION", max_tokens="LENGTH", text="ANSWER")
    with pytest.raises(NotTextModelError, match="it requires the input 'CONTEXT', which is no option"):
        model_of(inputs, outputs, named)
    model = model_of(inputs.replace('"CONTEXT" data_type', '"CONTEXT" optional: true data_type'), outputs, named)
    assert {key: form.name for key, form in model.inputs.items()} == {"prompt": "QUESTION", "max_tokens": "LENGTH"}
    assert model.outputs["text"].name == "ANSWER"
    with pytest.raises(NotTextModelError, match="it has no tensor 'ANSER', which"):
        model_of(inputs, outputs, named.replace("ANSWER", "ANSER"))


@pytest.mark.parametrize(
    ("inputs", "outputs", "text"),
    [
        ({"IN": "FP32"}, {"OUT": "STRING"}, "no required input is a text"),
        ({"IN": "STRING"}, {"OUT": "INT32"}, "no output is a text"),
        ({"IN": "STRING"}, {"OUT": "STRING", "MORE": "STRING"}, "no output is a text"),
    ],
)
def test_a_model_of_anything_else_has_a_reason(inputs: dict[str, str], outputs: dict[str, str], text: str) -> None:
    with pytest.raises(NotTextModelError, match=text):
        model_of(tensors("input", **inputs), tensors("output", **outputs))


def test_a_model_may_read_the_messages_themselves() -> None:
    model = model_of(tensors("input", messages="STRING", tools="STRING?"), tensors("output", OUT="STRING"))
    messages, tools = [{"role": "user", "content": "\u00e4"}], [{"type": "function"}]
    found = model.tensors({"messages": messages, "tools": tools, "max_tokens": 3})
    assert [json.loads(found[name].numpy()[0]) for name in ("messages", "tools")] == [messages, tools]


@pytest.mark.parametrize(
    ("key", "value"), [("seed", -1), ("top_k", [1, 2]), ("temperature", "warm"), ("stream", "\ud800")]
)
def test_a_value_that_does_not_fit_is_named(key: str, value: Any) -> None:
    model = model_of(*TRTLLM[:-1], tensors("input", streaming="STRING?")) if key == "stream" else model_of(*TRTLLM)
    with pytest.raises(OpenAIError) as caught:
        model.tensors({"prompt": "Hi", "max_tokens": 1, key: value})
    assert caught.value.param == key and "does not fit the input" in caught.value.message
