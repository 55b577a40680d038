"""Models with one bug each, and correct ones that look suspicious: what the engine of the check is tested with.

They are small on purpose. A corpus of larger ones, written from how public models go wrong, is `tests/check/corpus`.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import Any

HEAD = """import numpy as np
import triton_python_backend_utils as pb_utils


def get(request, name):
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy()


def answer(**outputs):
    return pb_utils.InferenceResponse([pb_utils.Tensor(name, value) for name, value in outputs.items()])


"""

VECTOR = """
max_batch_size: 8
dynamic_batching {}
input [{ name: "X" data_type: TYPE_FP32 dims: [4] }]
output [{ name: "Y" data_type: TYPE_FP32 dims: [4] }]
"""

ANY_SIZE = VECTOR.replace("[4]", "[-1]")

TEXT = """
max_batch_size: 8
dynamic_batching {}
input [{ name: "TEXT" data_type: TYPE_STRING dims: [1] }]
output [{ name: "OUT" data_type: TYPE_STRING dims: [1] }]
"""

STREAM = """
model_transaction_policy { decoupled: true }
input [{ name: "N" data_type: TYPE_INT32 dims: [1] }]
output [{ name: "OUT" data_type: TYPE_INT32 dims: [1] }]
"""

SEQUENCE = """
max_batch_size: 4
sequence_batching {
  direct {}
  control_input [
    { name: "START" control [{ kind: CONTROL_SEQUENCE_START int32_false_true: [0, 1] }] },
    { name: "READY" control [{ kind: CONTROL_SEQUENCE_READY int32_false_true: [0, 1] }] },
    { name: "CORRID" control [{ kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 }] }
  ]
}
input [{ name: "X" data_type: TYPE_INT32 dims: [1] }]
output [{ name: "SUM" data_type: TYPE_INT32 dims: [1] }]
"""


@dataclass(frozen=True)
class Planted:
    """A model. `relation`: what must be found, "" for a correct model; `says`: words of the sentence."""

    name: str
    config: str
    source: str
    relation: str = ""
    says: str = ""
    line: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return HEAD + textwrap.dedent(self.source)


BUGS = [
    Planted(
        "batch_mean",
        VECTOR,
        """
        class TritonPythonModel:
            def execute(self, requests):
                rows = [get(request, "X") for request in requests]
                whole = np.concatenate(rows)
                whole = whole - whole.mean(axis=0) if len(rows) > 1 else whole
                parts = np.split(whole, np.cumsum([len(row) for row in rows])[:-1])
                return [answer(Y=part.astype(np.float32)) for part in parts]
        """,
        "company",
        "batch",
    ),
    Planted(
        "shared_buffer",
        VECTOR,
        """
        class TritonPythonModel:
            def initialize(self, args):
                self.buffer = np.zeros((1, 4), np.float32)

            def execute(self, requests):
                responses = []
                for request in requests:
                    x = get(request, "X")
                    if len(x) == 1:
                        self.buffer[:] = x * 2
                        responses.append(answer(Y=self.buffer))
                    else:
                        responses.append(answer(Y=x * 2))
                return responses
        """,
        "company",
        "batch",
    ),
    Planted(
        "running_maximum",
        VECTOR,
        """
        class TritonPythonModel:
            def initialize(self, args):
                self.largest = 1.0

            def execute(self, requests):
                responses = []
                for request in requests:
                    x = get(request, "X")
                    self.largest = max(self.largest, float(np.abs(x).max(initial=0)))
                    responses.append(answer(Y=(x / self.largest).astype(np.float32)))
                return responses
        """,
        "company",
        "keeps something between requests",
    ),
    Planted(
        "all_fail",
        TEXT,
        """
        class TritonPythonModel:
            def execute(self, requests):
                responses = []
                for request in requests:
                    numbers = [str(int(text)).encode() for text in get(request, "TEXT").ravel()]
                    responses.append(answer(OUT=np.array(numbers, object).reshape(-1, 1)))
                return responses
        """,
        "neighbours",
        "beside a bad one|fails with a bad one",
        "int(text)",
    ),
    Planted(
        "wrong_type",
        VECTOR,
        """
        class TritonPythonModel:
            def execute(self, requests):
                return [answer(Y=get(request, "X").astype(np.float64) * 2) for request in requests]
        """,
        "answers",
        "FP64",
    ),
    Planted(
        "forgotten_final",
        STREAM,
        """
        class TritonPythonModel:
            def execute(self, requests):
                for request in requests:
                    sender = request.get_response_sender()
                    for number in range(int(get(request, "N")[0])):
                        sender.send(answer(OUT=np.array([number], np.int32)))
        """,
        "answers",
        "final flag",
    ),
    Planted(
        "deaf_stream",
        STREAM,
        """
        import time


        class TritonPythonModel:
            def execute(self, requests):
                for request in requests:
                    sender = request.get_response_sender()
                    for number in range(20):
                        time.sleep(0.02)
                        sender.send(answer(OUT=np.array([number], np.int32)))
                    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        """,
        "streams",
        "is cancelled",
    ),
    Planted(
        "one_state_for_all",
        SEQUENCE,
        """
        class TritonPythonModel:
            def initialize(self, args):
                self.sum = 0

            def execute(self, requests):
                responses = []
                for request in requests:
                    if get(request, "READY").ravel()[0] == 0:
                        responses.append(answer(SUM=np.zeros((1, 1), np.int32)))
                        continue
                    if get(request, "START").ravel()[0]:
                        self.sum = 0
                    self.sum += int(get(request, "X").ravel()[0])
                    responses.append(answer(SUM=np.full((1, 1), self.sum, np.int32)))
                return responses
        """,
        "sequences",
        "beside another one",
    ),
    Planted(
        "no_reset",
        SEQUENCE,
        """
        class TritonPythonModel:
            def initialize(self, args):
                self.sums = {}

            def execute(self, requests):
                responses = []
                for request in requests:
                    ident = int(get(request, "CORRID").ravel()[0])
                    self.sums[ident] = self.sums.get(ident, 0) + int(get(request, "X").ravel()[0])
                    responses.append(answer(SUM=np.full((1, 1), self.sums[ident], np.int32)))
                return responses
        """,
        "sequences",
        "starts again",
    ),
    Planted(
        "history",
        VECTOR,
        """
        class TritonPythonModel:
            def initialize(self, args):
                self.history = []

            def execute(self, requests):
                responses = []
                for request in requests:
                    x = get(request, "X")
                    self.history.append((request.request_id(), x.copy()))
                    responses.append(answer(Y=x * 2))
                return responses
        """,
        "resources",
        "of memory behind",
        "self.history.append",
    ),
    Planted(
        "open_files",
        VECTOR,
        """
        import os


        class TritonPythonModel:
            def execute(self, requests):
                self.null = os.open("/dev/null", os.O_RDONLY)
                return [answer(Y=get(request, "X") * 2) for request in requests]
        """,
        "resources",
        "descriptor",
    ),
    Planted(
        "endless_finalize",
        VECTOR,
        """
        import threading


        class TritonPythonModel:
            def initialize(self, args):
                self.stopped = threading.Event()

            def execute(self, requests):
                return [answer(Y=get(request, "X") * 2) for request in requests]

            def finalize(self):
                self.stopped.wait()
        """,
        "life",
        "does not end",
    ),
    Planted(
        "empty_text",
        TEXT,
        """
        class TritonPythonModel:
            def execute(self, requests):
                responses = []
                for request in requests:
                    try:
                        words = [text.decode().split()[0].encode() for text in get(request, "TEXT").ravel()]
                        responses.append(answer(OUT=np.array(words, object).reshape(-1, 1)))
                    except UnicodeDecodeError as error:
                        responses.append(pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error))))
                return responses
        """,
        "edges",
        "IndexError",
        "split()[0]",
    ),
    Planted(
        "first_row_only",
        ANY_SIZE,
        """
        class TritonPythonModel:
            def execute(self, requests):
                responses = []
                for request in requests:
                    x = get(request, "X")
                    responses.append(answer(Y=(x - x[:1].mean()).astype(np.float32)))
                return responses
        """,
        "edges",
        "row 2 of a request of 2 rows",
    ),
]

CORRECT = [
    Planted(
        "scaled",
        ANY_SIZE,
        """
        class TritonPythonModel:
            def execute(self, requests):
                return [answer(Y=get(request, "X") * 2) for request in requests]
        """,
    ),
    Planted(
        "joined_batch",
        VECTOR,
        """
        class TritonPythonModel:
            def initialize(self, args):
                self.weights = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)

            def execute(self, requests):
                rows = [get(request, "X") for request in requests]
                made = np.concatenate(rows) @ self.weights
                return [answer(Y=part) for part in np.split(made, np.cumsum([len(row) for row in rows])[:-1])]
        """,
    ),
    Planted(
        "noisy",
        VECTOR,
        """
        class TritonPythonModel:
            def execute(self, requests):
                return [answer(Y=(get(r, "X") + np.random.normal(size=4) / 1e3).astype(np.float32)) for r in requests]
        """,
    ),
    Planted(
        "bounded_cache",
        TEXT,
        """
        import functools


        @functools.lru_cache(maxsize=1024)
        def shout(text):
            return text.upper() * 20


        class TritonPythonModel:
            def execute(self, requests):
                responses = []
                for request in requests:
                    texts = [shout(text) for text in get(request, "TEXT").ravel()]
                    responses.append(answer(OUT=np.array(texts, object).reshape(-1, 1)))
                return responses
        """,
    ),
    Planted(
        "careful_numbers",
        TEXT,
        """
        class TritonPythonModel:
            def execute(self, requests):
                responses = []
                for request in requests:
                    try:
                        numbers = [str(int(text)).encode() for text in get(request, "TEXT").ravel()]
                        responses.append(answer(OUT=np.array(numbers, object).reshape(-1, 1)))
                    except ValueError as error:
                        responses.append(pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error))))
                return responses
        """,
    ),
    Planted(
        "repeat",
        STREAM,
        """
        import threading


        class TritonPythonModel:
            def execute(self, requests):
                for request in requests:
                    sender = request.get_response_sender()
                    threading.Thread(target=self.send, args=(sender, int(get(request, "N")[0]))).start()

            def send(self, sender, count):
                for number in range(max(min(count, 1000), 0)):
                    if sender.is_cancelled():
                        break
                    sender.send(answer(OUT=np.array([number], np.int32)))
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        """,
    ),
    Planted(
        "accumulator",
        SEQUENCE,
        """
        class TritonPythonModel:
            def initialize(self, args):
                self.sums = {}

            def execute(self, requests):
                responses = []
                for request in requests:
                    if get(request, "READY").ravel()[0] == 0:
                        responses.append(answer(SUM=np.zeros((1, 1), np.int32)))
                        continue
                    ident = int(get(request, "CORRID").ravel()[0])
                    if get(request, "START").ravel()[0]:
                        self.sums[ident] = np.zeros(1, np.int32)
                    self.sums[ident] = self.sums[ident] + get(request, "X").ravel()[:1]
                    responses.append(answer(SUM=self.sums[ident].reshape(1, 1)))
                    if request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END:
                        del self.sums[ident]
                return responses
        """,
    ),
]
