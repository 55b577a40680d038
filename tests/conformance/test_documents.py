"""Config, metadata and statistics as documents: the real server's and ours are compared whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .clients import Client, Failure
from .models import ADD_SUB, ADD_SUB_CONFIG, CPU, ECHO, SCRIPTED, config, model
from .rules import rule

RICH = """
backend: "python"
max_batch_size: 8
input [
  { name: "A" data_type: TYPE_FP32 dims: [ -1, 3 ] },
  { name: "B" data_type: TYPE_STRING dims: [ 1 ] optional: true allow_ragged_batch: true }
]
output [
  { name: "A" data_type: TYPE_FP32 dims: [ -1, 3 ] },
  { name: "L" data_type: TYPE_INT64 dims: [ 2 ] reshape { shape: [ 2, 1 ] } }
]
instance_group [ { kind: KIND_CPU count: 2 }, { name: "named" kind: KIND_MODEL } ]
dynamic_batching {
  preferred_batch_size: [ 2, 4 ]
  max_queue_delay_microseconds: 100
  priority_levels: 2
  default_priority_level: 1
  default_queue_policy { max_queue_size: 5 default_timeout_microseconds: 7 timeout_action: DELAY }
  priority_queue_policy { key: 2 value: { max_queue_size: 9 } }
}
version_policy { specific { versions: [ 1 ] } }
parameters { key: "one" value: { string_value: "1" } }
model_transaction_policy { decoupled: false }
metric_tags { key: "tag" value: "t" }
"""

CONFIGS = {
    "smallest": 'backend: "python" instance_group { kind: KIND_CPU }',
    "no_group": ADD_SUB_CONFIG.split("instance_group")[0],
    "batcher": config("IN FP32 4", "IN FP32 4", "max_batch_size: 4 dynamic_batching { }", CPU),
    "batcher_without_batch": config("IN FP32 4", "IN FP32 4", "dynamic_batching { }", CPU),
    "decoupled": config("IN FP32 4", "IN FP32 4", "model_transaction_policy { decoupled: true }", CPU),
    "rich": RICH,
}

MODELS = {
    **{name: model(ECHO, text) for name, text in CONFIGS.items()},
    "no_config": model(ECHO),
    "counted": model(ECHO, config("IN FP32 -1", "IN FP32 -1", "max_batch_size: 8", CPU)),
    "failing": model(SCRIPTED, config("CODE STRING 1", "OUT INT32 -1")),
}


@pytest.fixture(scope="module")
def both(real: Client, lab: Client) -> Any:
    """Return both sides with the models loaded, for documents that are compared whole."""
    for side in (real, lab):
        failed = {n: f for n, f in side.load_all(MODELS).items() if f is not None}
        assert not failed, (side.side, failed)
    yield real, lab
    for side in (real, lab):
        for name in MODELS:
            side.unload(name)


@rule("5.2.1", "5.2.2", "5.2.3", "5.1.1", "5.1.3", "5.1.4", "5.3.3", "5.2.6")
@pytest.mark.parametrize("name", [*CONFIGS, "no_config"])
def test_the_config_is_the_same_document_in_the_same_order(both: tuple[Client, Client], name: str) -> None:
    real, lab = (side.config(name) for side in both)
    assert not isinstance(real, Failure)
    assert lab == real
    assert list(lab) == list(real)


@rule("6.1.2", "5.2.5")
@pytest.mark.parametrize("name", [*CONFIGS, "no_config"])
def test_the_metadata_is_the_same_document(both: tuple[Client, Client], name: str) -> None:
    real, lab = (side.metadata(name) for side in both)
    assert lab == real


@rule("5.12.1")
def test_fresh_statistics_are_the_same_document(both: tuple[Client, Client]) -> None:
    real, lab = (side.statistics("smallest") for side in both)
    assert lab == real


def counts(side: Client, name: str) -> dict[str, Any]:
    """Return the numbers of a model's statistics without its times."""
    found = side.statistics(name)
    assert not isinstance(found, Failure)
    (entry,) = found
    return {
        "inference_count": entry["inference_count"],
        "execution_count": entry["execution_count"],
        "stats": {kind: value["count"] for kind, value in entry["inference_stats"].items()},
        "batches": [
            (b["batch_size"], {k: v["count"] for k, v in b.items() if k != "batch_size"}) for b in entry["batch_stats"]
        ],
        "response_stats": entry["response_stats"],
        "executed": entry["last_inference"] > 0,
    }


@rule("5.12.2", "3.11.2", "5.5.1")
def test_statistics_count_requests_executions_and_batches(both: tuple[Client, Client]) -> None:
    for side in both:
        for batch in (1, 3, 3):
            assert side.infer("counted", {"IN": np.zeros((batch, 2), dtype=np.float32)}).error == ""
    real, lab = (counts(side, "counted") for side in both)
    assert real["inference_count"] == 7
    assert real["execution_count"] == 3
    assert [size for size, _ in real["batches"]] == [1, 3]
    assert lab == real


@rule("3.11.1", "5.12.2")
def test_statistics_count_failures_of_the_call_but_not_error_responses(both: tuple[Client, Client]) -> None:
    def script(text: str) -> dict[str, np.ndarray[Any, Any]]:
        return {"CODE": np.array([text.encode()], dtype=np.object_)}

    for side in both:
        side.infer("failing", script("raise ValueError('x')"))
        side.infer("failing", script("return [pb_utils.InferenceResponse(error=pb_utils.TritonError('e'))]"))
        side.infer("failing", script("return 5"))
    real, lab = (counts(side, "failing") for side in both)
    assert (real["stats"]["fail"], real["stats"]["success"]) == (2, 1)
    assert lab == real


@rule("5.12.2")
def test_statistics_of_an_unknown_model(both: tuple[Client, Client]) -> None:
    real, _ = (side.statistics("nobody") for side in both)
    assert real == Failure("400", "requested model 'nobody' is not available")


@rule("2.6.2", "5.11.9", "6.1.3")
def test_models_and_versions_are_ready(both: tuple[Client, Client]) -> None:
    for side in both:
        assert [side.ready("smallest"), side.ready("smallest", 1), side.ready("smallest", 2), side.ready("nobody")] == [
            True,
            True,
            False,
            False,
        ]


@rule("5.11.9")
def test_the_server_is_not_ready_while_a_model_that_failed_is_not_repaired(fresh: Client) -> None:
    assert fresh.ready()
    assert fresh.placed("broken", model("import notthere\n", ADD_SUB_CONFIG)) is not None
    assert not fresh.ready()
    fresh.unload("broken")
    assert not fresh.ready()
    assert fresh.placed("broken", model(ADD_SUB, ADD_SUB_CONFIG)) is None
    assert fresh.ready()
