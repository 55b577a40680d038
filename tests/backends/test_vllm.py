"""NVIDIA's vLLM backend without a change, over the stand-in for its engine. Its sources are not ours:
TRITONLAB_VLLM_BACKEND names the folder src/ of a checkout of github.com/triton-inference-server/vllm_backend."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backends.onnx_models import write
from tests.conformance.rules import rule
from tests.serving import SOON
from tritonlab import Server
from tritonlab.core.status import ModelLoadError, TritonError

FOLDER = os.environ.get("TRITONLAB_VLLM_BACKEND", "")
needs_nvidias = pytest.mark.skipif(not FOLDER, reason="TRITONLAB_VLLM_BACKEND does not name NVIDIA's vLLM backend")

METRICS = 'parameters { key: "REPORT_CUSTOM_METRICS" value { string_value: "true" } }'
ARGUMENTS = json.dumps({"model": "facebook/opt-125m", "gpu_memory_utilization": 0.5})


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[Server]:
    repository.mkdir()
    for name in ("echo", "random", "slow", "answering"):
        write(
            repository,
            name,
            {"model.json": ARGUMENTS},
            f'backend: "vllm" {METRICS} instance_group {{ kind: KIND_MODEL }}',
        )
    (repository.parent / "answers.json").write_text(json.dumps({"Who?": "The cat did it."}))
    choices = {
        "echo": {"values": "echo"},
        "random": {"values": "random"},
        "slow": {"delay_ms": 20, "delay_ms_per_element": 20},
        "answering": {"answers": str(repository.parent / "answers.json")},
    }
    with Server(
        repository,
        model_control_mode="explicit",
        startup_models=["*"],
        backends={name: {"use": "stand-in", "directory": FOLDER, **choice} for name, choice in choices.items()},
    ) as server:
        yield server


def generate(server: Server, name: str, prompt: str, stream: bool = False, **parameters: Any) -> list[dict[str, Any]]:
    inputs = {"text_input": np.array([prompt.encode()], np.object_), "stream": np.array([stream])}
    switches = {key: value for key, value in parameters.items() if key.startswith(("return_", "exclude_"))}
    inputs |= {key: np.array([value]) for key, value in switches.items()}
    sampling = {key: value for key, value in parameters.items() if key not in switches}
    if sampling:
        inputs["sampling_parameters"] = np.array([json.dumps(sampling).encode()], np.object_)
    responses = server.model(name).infer(inputs=inputs)
    return [{key: each.numpy() for key, each in response.outputs.items()} for response in responses]


def texts(found: list[dict[str, Any]]) -> list[str]:
    return [each["text_output"][0].decode() for each in found if each]


@needs_nvidias
@rule("2.17.4")
def test_the_config_is_what_nvidias_code_completes(server: Server) -> None:
    config = server.model("echo").config()
    assert config["model_transaction_policy"]["decoupled"] and config["max_batch_size"] == 0
    assert [each["name"] for each in config["input"]][:2] == ["text_input", "image"]


@needs_nvidias
@rule("2.17.4")
def test_one_answer_and_a_stream(server: Server) -> None:
    assert texts(generate(server, "echo", "the quick brown fox")) == ["the quick brown fox the quick brown fox"]
    assert texts(generate(server, "echo", "a b", exclude_input_in_output=True)) == [" a b"]
    assert [text for text in texts(generate(server, "echo", "the quick fox", stream=True)) if text] == [
        " the",
        " quick",
        " fox",
    ]
    assert texts(generate(server, "answering", "Who?", exclude_input_in_output=True)) == [" The cat did it."]
    with pytest.raises(TritonError, match=r"has no answer for the prompt 'What\?'"):
        generate(server, "answering", "What?")


@needs_nvidias
@rule("2.17.4")
def test_parameters_and_additional_outputs(server: Server) -> None:
    switches = {"return_finish_reason": True, "return_num_input_tokens": True, "return_num_output_tokens": True}
    (found,) = generate(server, "random", "a b c", max_tokens=4, n=2, logprobs=1, return_logprobs=True, **switches)
    assert [len(each.decode().split()) for each in found["text_output"]] == [7, 7]
    assert found["finish_reason"].tolist() == [b"length", b"length"]
    assert (int(found["num_input_tokens"].reshape(-1)[0]), found["num_output_tokens"].tolist()) == (3, [4, 4])
    assert len(json.loads(found["logprobs"][0])) == 4
    again = generate(server, "random", "a b c", max_tokens=4, n=2)
    assert again[0]["text_output"].tolist() == found["text_output"].tolist()
    assert generate(server, "random", "a b c", max_tokens=4, seed=9)[0]["text_output"][0] != found["text_output"][0]
    for wrong in ({"max_tokens": 0}, {"nonsense": 1}):
        with pytest.raises(TritonError, match="Error generating stream"):
            generate(server, "random", "a", **wrong)
    with pytest.raises(TritonError, match="LoRA feature is not enabled"):
        generate(server, "random", "a", lora_name="alpaca")


@needs_nvidias
@rule("2.17.4")
def test_timing_cancellation_and_metrics(server: Server) -> None:
    started = time.perf_counter()
    generate(server, "slow", "x", max_tokens=5)
    assert time.perf_counter() - started >= 0.1
    inputs = {
        "text_input": np.array([b"x"], np.object_),
        "stream": np.array([True]),
        "sampling_parameters": np.array([json.dumps({"max_tokens": 100_000}).encode()], np.object_),
    }
    responses = server.model("slow").infer(inputs=inputs)
    next(responses)
    responses.cancel()
    until = time.monotonic() + SOON
    while not any("Successfully cancelled" in record.text for record in server.logs("slow")):
        assert time.monotonic() < until
        time.sleep(0.02)
    until = time.monotonic() + SOON
    while 'vllm:e2e_request_latency_seconds_count{model="slow",version="1"} 1' not in server.metrics():
        assert time.monotonic() < until
        time.sleep(0.02)
    assert 'vllm:prompt_tokens_total{model="slow",version="1"}' in server.metrics()


def test_without_nvidias_code_it_says_where_to_put_it(tmp_path: Path) -> None:
    write(tmp_path, "llm", {"model.json": ARGUMENTS}, 'backend: "vllm"')
    choices = {"vllm": {"use": "stand-in", "directory": str(tmp_path / "nowhere")}}
    with (
        Server(tmp_path, model_control_mode="explicit", backends=choices) as server,
        pytest.raises(ModelLoadError, match=r"copy src/ of github.com/triton-inference-server/vllm_backend there"),
    ):
        server.load("llm")
