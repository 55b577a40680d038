"""The sentences of pre-flight for each engine, with a model that has each. `make engines` proves every row on the
engine; tests/engines/test_rows.py that pre-flight prints it, and nothing without a row here."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tests.engines.models import DOUBLE, SLEEPER, SLEEPER_CONFIG, TOTAL, TOTAL_CONFIG, write_stream
from tests.models import answers
from tests.serving import config, write_model

#: Bytes of a message of Dynamo's, in elements of four bytes.
_LIMIT = 1 << 20


class Row(NamedTuple):
    """A sentence of pre-flight. `model` is the model that it is about, empty for one about every model; `uses` what
    the model uses, as `make engines` names it; `phrase` a part of the sentence, and `at` what stands on the line of
    the source that it names."""

    engine: str
    model: str
    uses: str
    phrase: str
    at: str = ""


ROWS = (
    Row("dynamo", "sleeper", "the id of a request", "the id of the request", "request.request_id()"),
    Row("dynamo", "sleeper", "parameters of a request", "the parameters of the request", "request.parameters()"),
    Row("dynamo", "sleeper", "the timeout of a request", "the timeout of the request", "request.timeout()"),
    Row("dynamo", "sleeper", "parameters of a response", "parameters of its responses", "InferenceResponse(["),
    Row("dynamo", "stream", "cancellation", "the cancellation of the request", "request.is_cancelled()"),
    Row("dynamo", "stream", "several responses", "never sets triton_final_response", "get_response_sender()"),
    Row("dynamo", "levels", "priority levels", "drops a request's priority"),
    Row("dynamo", "total", "sequences", "sends the requests of one sequence to any worker", "correlation_id()"),
    Row("dynamo", "versions", "several versions", "no version reaches the worker"),
    Row("dynamo", "large_in", "inputs above 4 MiB", "its inputs have 4194308 bytes"),
    Row("dynamo", "large_out", "outputs above 4 MiB", "its outputs have 4194308 bytes"),
    Row("dynamo", "", "shared memory, HTTP", "cannot register shared memory, and have gRPC alone"),
    Row("dynamo", "", "codes of errors", "an error has the code INTERNAL there"),
    Row("ray", "total", "sequences", "so `tritonlab.ray` refuses it", "correlation_id()"),
    Row("ray", "stream", "several responses", "Ray Serve has no gRPC", "get_response_sender()"),
    Row("ray", "", "shared memory, gRPC", "cannot register shared memory, and have HTTP alone"),
    Row("kserve", "total", "sequences", "to any of its pods", "correlation_id()"),
    Row("kserve", "stream", "several responses", "KServe's one port has no gRPC", "get_response_sender()"),
    Row("kserve", "", "shared memory, gRPC", "cannot register shared memory, and have HTTP alone"),
)

#: Notes each number that it executes, 20 ms for each, in the file of its parameter `log`.
LEVELS = """
import json, time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.log = json.loads(args["model_config"])["parameters"]["log"]["string_value"]

    def execute(self, requests):
        answers = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            with open(self.log, "a") as file:
                file.write(f"{int(x.reshape(-1)[0])}\\n")
            time.sleep(0.02)
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x)]))
        return answers
"""

#: Models whose output, or input, is larger than a message of gRPC may be: as many elements as `IN` says, and its first.
LARGE_OUT = answers("np.zeros(int(x[0]), np.float32)")
LARGE_IN = answers("x[:1]")


class Logs(NamedTuple):
    """The files that models write: what became of the requests of `stream`, and the numbers that `levels` executed."""

    stream: Path
    levels: Path


def write_models(repository: Path) -> Logs:
    """Write the models of all rows."""
    repository.mkdir(parents=True, exist_ok=True)
    logs = Logs(repository.with_name("stream.log"), repository.with_name("levels.log"))
    logs.levels.write_text("")
    write_model(repository, "sleeper", SLEEPER, SLEEPER_CONFIG)
    write_stream(repository, logs.stream)
    queue = "max_batch_size: 1 dynamic_batching { priority_levels: 2 default_priority_level: 2 }"
    log = f'parameters {{ key: "log" value {{ string_value: "{logs.levels}" }} }}'
    write_model(repository, "levels", LEVELS, config("IN FP32 1", "OUT FP32 1", queue, log))
    write_model(repository, "total", TOTAL, TOTAL_CONFIG)
    for version in (1, 2):
        source = DOUBLE.replace("x * 2", f"x * {version * 10}")
        policy = "version_policy { all { } }"
        write_model(repository, "versions", source, config("IN FP32 -1", "OUT FP32 -1", policy), version=version)
    write_model(repository, "large_in", LARGE_IN, config(f"IN FP32 {_LIMIT + 1}", "OUT FP32 1"))
    write_model(repository, "large_out", LARGE_OUT, config("IN FP32 1", f"OUT FP32 {_LIMIT + 1}"))
    return logs
