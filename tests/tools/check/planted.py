"""Models with one bug each, and correct ones that look suspicious: what the engine of the check is tested with.

They are small on purpose. A corpus of larger ones, written from how public models go wrong, is
`tests/tools/check/corpus`.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

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
    """A model. `relation`: what must be found, "" for a correct model; `words`: words of the sentence; `line`: a part
    of the line that is found; `fix`: a text of the model and what comes in its place to fix it."""

    name: str
    config: str
    source: str
    relation: str = ""
    words: str = ""
    line: str = ""
    fix: tuple[str, str] = ("", "")

    @property
    def text(self) -> str:
        return HEAD + self.source

    @property
    def fixed(self) -> str:
        """The model without its bug."""
        assert self.text.count(self.fix[0]) == 1
        return self.text.replace(*self.fix)


def executes(body: str, initialize: str = "", *, more: str = "", imports: str = "") -> str:
    """Return a model with these bodies of `execute` and `initialize`; `more` are methods after them."""
    parts = [imports + "\n\n" * bool(imports) + "class TritonPythonModel:"]
    if initialize:
        parts.append(f"    def initialize(self, args):\n{_indented(initialize)}\n")
    parts.append(f"    def execute(self, requests):\n{_indented(body)}\n")
    if more:
        parts.append(textwrap.indent(textwrap.dedent(more).strip("\n"), " " * 4) + "\n")
    return "\n".join(parts)


def answers(body: str, initialize: str = "", *, more: str = "", imports: str = "") -> str:
    """Return a model that answers one request after the other; `body` is that of `one(self, request)`."""
    one = f"def one(self, request):\n{textwrap.indent(textwrap.dedent(body).strip(chr(10)), ' ' * 4)}\n"
    each = "return [self.one(request) for request in requests]"
    return executes(each, initialize, more=f"{one}\n{textwrap.dedent(more)}", imports=imports)


def _indented(body: str) -> str:
    return textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8)


BUGS = [
    Planted(
        "batch_mean",
        VECTOR,
        executes("""
            rows = [get(request, "X") for request in requests]
            whole = np.concatenate(rows)
            whole = whole - whole.mean(axis=0) if len(rows) > 1 else whole
            parts = np.split(whole, np.cumsum([len(row) for row in rows])[:-1])
            return [answer(Y=part.astype(np.float32)) for part in parts]
        """),
        "company",
        "batch",
        fix=("if len(rows) > 1 else whole", "if False else whole"),
    ),
    Planted(
        "shared_buffer",
        VECTOR,
        answers(
            """
            x = get(request, "X")
            if len(x) > 1:
                return answer(Y=x * 2)
            self.buffer[:] = x * 2
            return answer(Y=self.buffer)
            """,
            "self.buffer = np.zeros((1, 4), np.float32)",
        ),
        "company",
        "batch",
        fix=("Y=self.buffer)", "Y=self.buffer.copy())"),
    ),
    Planted(
        "running_maximum",
        VECTOR,
        answers(
            """
            x = get(request, "X")
            self.largest = max(self.largest, float(np.abs(x).max(initial=0)))
            return answer(Y=(x / self.largest).astype(np.float32))
            """,
            "self.largest = 1.0",
        ),
        "company",
        "keeps something between requests",
    ),
    Planted(
        "all_fail",
        TEXT,
        answers("""
            numbers = [str(int(text)).encode() for text in get(request, "TEXT").ravel()]
            return answer(OUT=np.array(numbers, object).reshape(-1, 1))
        """),
        "neighbours",
        "beside a bad one|fails with a bad one",
        "int(text)",
        fix=("[str(int(text)).encode()", "[text.strip()"),
    ),
    Planted(
        "wrong_type",
        VECTOR,
        answers("return answer(Y=get(request, 'X').astype(np.float64) * 2)"),
        "answers",
        "FP64",
    ),
    Planted(
        "forgotten_final",
        STREAM,
        executes("""
            for request in requests:
                sender = request.get_response_sender()
                for number in range(int(get(request, "N")[0])):
                    sender.send(answer(OUT=np.array([number], np.int32)))
        """),
        "answers",
        "final flag",
    ),
    Planted(
        "dead_worker",
        STREAM,
        executes(
            """
            for request in requests:
                self.work.put((get(request, "N"), request.get_response_sender()))
            """,
            """
            self.work = queue.Queue()
            threading.Thread(target=self.send, daemon=True).start()
            """,
            more="""
            def send(self):
                while True:
                    numbers, sender = self.work.get()
                    for number in range(8 // (int(numbers[0]) - 2)):
                        sender.send(answer(OUT=np.array([number], np.int32)))
                    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            """,
            imports="import queue\nimport threading",
        ),
        "answers",
        "dropped without the final flag|never gets a response|never ends",
        "8 // (int(numbers[0]) - 2)",
        fix=("- 2)", "- 2 or 1)"),
    ),
    Planted(
        "deaf_stream",
        STREAM,
        executes(
            """
            for request in requests:
                sender = request.get_response_sender()
                for number in range(20):
                    time.sleep(0.02)
                    sender.send(answer(OUT=np.array([number], np.int32)))
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            """,
            imports="import time",
        ),
        "streams",
        "is cancelled",
        fix=("time.sleep(0.02)", "if sender.is_cancelled(): break\n                time.sleep(0.02)"),
    ),
    Planted(
        "one_state_for_all",
        SEQUENCE,
        answers(
            """
            if get(request, "READY").ravel()[0] == 0:
                return answer(SUM=np.zeros((1, 1), np.int32))
            if get(request, "START").ravel()[0]:
                self.sum = 0
            self.sum += int(get(request, "X").ravel()[0])
            return answer(SUM=np.full((1, 1), self.sum, np.int32))
            """,
            "self.sum = 0",
        ),
        "sequences",
        "beside another one",
    ),
    Planted(
        "three_states",
        SEQUENCE,
        answers(
            """
            if get(request, "READY").ravel()[0] == 0:
                return answer(SUM=np.zeros((1, 1), np.int32))
            ident = int(get(request, "CORRID").ravel()[0])
            before = 0 if get(request, "START").ravel()[0] else self.sums.pop(ident, 0)
            self.sums[ident] = before + int(get(request, "X").ravel()[0])
            while len(self.sums) > 3:
                del self.sums[next(iter(self.sums))]
            return answer(SUM=np.full((1, 1), self.sums[ident], np.int32))
            """,
            "self.sums = {}",
        ),
        "sequences",
        "lets 4 sequences in at once",
        fix=("len(self.sums) > 3", "len(self.sums) > 4"),
    ),
    Planted(
        "no_reset",
        SEQUENCE,
        answers(
            """
            ident = int(get(request, "CORRID").ravel()[0])
            self.sums[ident] = self.sums.get(ident, 0) + int(get(request, "X").ravel()[0])
            return answer(SUM=np.full((1, 1), self.sums[ident], np.int32))
            """,
            "self.sums = {}",
        ),
        "sequences",
        "starts again",
    ),
    Planted(
        "history",
        VECTOR,
        answers(
            """
            x = get(request, "X")
            self.history.append((request.request_id(), x.copy()))
            return answer(Y=x * 2)
            """,
            "self.history = []",
        ),
        "resources",
        "memory behind|objects behind",
        "self.history.append",
        fix=("self.history.append(", "self.history = list("),
    ),
    Planted(
        "open_files",
        VECTOR,
        answers(
            """
            self.null = os.open("/dev/null", os.O_RDONLY)
            return answer(Y=get(request, "X") * 2)
            """,
            imports="import os",
        ),
        "resources",
        "descriptor",
    ),
    Planted(
        "endless_finalize",
        VECTOR,
        answers(
            "return answer(Y=get(request, 'X') * 2)",
            "self.stopped = threading.Event()",
            more="""
            def finalize(self):
                self.stopped.wait()
            """,
            imports="import threading",
        ),
        "life",
        "does not end",
        fix=("self.stopped.wait()", "self.stopped.set()"),
    ),
    Planted(
        "empty_text",
        TEXT,
        answers("""
            try:
                words = [text.decode().split()[0].encode() for text in get(request, "TEXT").ravel()]
                return answer(OUT=np.array(words, object).reshape(-1, 1))
            except UnicodeDecodeError as error:
                return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error)))
        """),
        "edges",
        "IndexError",
        "split()[0]",
        fix=("split()[0]", "strip()"),
    ),
    Planted(
        "first_row_only",
        ANY_SIZE,
        answers("""
            x = get(request, "X")
            return answer(Y=(x - x[:1].mean()).astype(np.float32))
        """),
        "edges",
        "row 2 of a request of 2 rows",
        fix=("x[:1].mean()", "x.mean(axis=1, keepdims=True)"),
    ),
]

CORRECT = [
    Planted("scaled", ANY_SIZE, answers("return answer(Y=get(request, 'X') * 2)")),
    Planted(
        "joined_batch",
        VECTOR,
        executes(
            """
            rows = [get(request, "X") for request in requests]
            made = np.concatenate(rows) @ self.weights
            return [answer(Y=part) for part in np.split(made, np.cumsum([len(row) for row in rows])[:-1])]
            """,
            "self.weights = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)",
        ),
    ),
    Planted(
        "noisy",
        VECTOR,
        answers("return answer(Y=(get(request, 'X') + np.random.normal(size=4) / 1e3).astype(np.float32))"),
    ),
    Planted(
        "bounded_cache",
        TEXT,
        answers(
            """
            texts = [self.shout(text) for text in get(request, "TEXT").ravel()]
            return answer(OUT=np.array(texts, object).reshape(-1, 1))
            """,
            "self.shout = functools.lru_cache(maxsize=1024)(lambda text: text.upper() * 20)",
            imports="import functools",
        ),
    ),
    Planted(
        "sometimes_doubtful",
        VECTOR.rstrip()[:-1] + ', { name: "DOUBT" data_type: TYPE_FP32 dims: [1] }]',
        answers("""
            x = get(request, "X")
            doubt = x.max(axis=1, initial=-np.inf, keepdims=True)
            return answer(Y=x, DOUBT=doubt) if (doubt < 4).all() else answer(Y=x)
        """),
    ),
    Planted(
        "careful_numbers",
        TEXT,
        answers("""
            try:
                numbers = [str(int(text)).encode() for text in get(request, "TEXT").ravel()]
                return answer(OUT=np.array(numbers, object).reshape(-1, 1))
            except ValueError as error:
                return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error)))
        """),
    ),
    Planted(
        "repeat",
        STREAM,
        executes(
            """
            for request in requests:
                sender = request.get_response_sender()
                threading.Thread(target=self.send, args=(sender, int(get(request, "N")[0]))).start()
            """,
            more="""
            def send(self, sender, count):
                for number in range(max(min(count, 1000), 0)):
                    if sender.is_cancelled():
                        break
                    sender.send(answer(OUT=np.array([number], np.int32)))
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            """,
            imports="import threading",
        ),
    ),
    Planted(
        "accumulator",
        SEQUENCE,
        answers(
            """
            if get(request, "READY").ravel()[0] == 0:
                return answer(SUM=np.zeros((1, 1), np.int32))
            ident = int(get(request, "CORRID").ravel()[0])
            if get(request, "START").ravel()[0]:
                self.sums[ident] = np.zeros(1, np.int32)
            self.sums[ident] = self.sums[ident] + get(request, "X").ravel()[:1]
            made = answer(SUM=self.sums[ident].reshape(1, 1))
            if request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END:
                del self.sums[ident]
            return made
            """,
            "self.sums = {}",
        ),
    ),
]
