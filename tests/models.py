"""Models that tests serve: sources of `model.py`, and what makes a cell of one.

A test has its model in its own text where that text is what it is about: the lines that an error names, what is
completed or checked before it is loaded.
"""

from __future__ import annotations

import textwrap

_HEAD = "import numpy as np\nimport triton_python_backend_utils as pb_utils\n"


def executes(body: str, *, initialize: str = "", more: str = "", imports: str = "") -> str:
    """Return a model with these bodies of `execute(self, requests)` and `initialize(self, args)`; `more` are methods
    after them, `imports` more statements at the head."""
    methods = [("initialize(self, args)", initialize)] * bool(initialize) + [("execute(self, requests)", body)]
    texts = [f"def {name}:\n" + textwrap.indent(textwrap.dedent(text).strip("\n"), " " * 4) for name, text in methods]
    texts += [textwrap.dedent(more).strip("\n")] * bool(more)
    head = _HEAD + (imports and imports + "\n")
    return f"{head}\n\nclass TritonPythonModel:\n" + textwrap.indent("\n\n".join(texts), " " * 4) + "\n"


def answers(expression: str, *, reads: str = "IN", writes: str = "OUT", first: str = "", imports: str = "") -> str:
    """Return a model that answers each request with an expression of `x`, the array of its input `reads`, as its output
    `writes`. `first` are statements before it, of `x`, `request` and `requests`.
    """
    return executes(
        "responses = []\n"
        "for request in requests:\n"
        f'    x = pb_utils.get_input_tensor_by_name(request, "{reads}").as_numpy()\n'
        + (textwrap.indent(first, " " * 4) + "\n" if first else "")
        + f'    responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("{writes}", {expression})]))\n'
        "return responses",
        imports=imports,
    )


def streams(expression: str, over: str, *, reads: str = "IN", writes: str = "OUT") -> str:
    """Return a decoupled model that sends a response for every `n` in `over`, and the final one. Both are expressions
    of `x`, the array of the input `reads`; that of the output `writes` also of `n`.
    """
    return executes(
        "for request in requests:\n"
        f'    x = pb_utils.get_input_tensor_by_name(request, "{reads}").as_numpy()\n'
        "    sender = request.get_response_sender()\n"
        f"    for n in {over}:\n"
        f'        sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("{writes}", {expression})]))\n'
        "    sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)"
    )


def counts(metric: str, labels: str = "{}", *, reads: str = "IN", writes: str = "OUT") -> str:
    """Return a model that answers with its input and counts its requests in a metric with these labels, an expression
    of `args`.
    """
    source = answers("x", reads=reads, writes=writes, first="self.seen.increment(1)")
    initialize = f"""\
    def initialize(self, args):
        self.family = pb_utils.MetricFamily("{metric}", "requests seen", pb_utils.MetricFamily.COUNTER)
        self.seen = self.family.Metric(labels={labels})

"""
    return source.replace("    def execute", initialize + "    def execute")


def initializes(statement: str) -> str:
    """Return a model whose `initialize(self, args)` is this; it cannot execute."""
    return f"class TritonPythonModel:\n    def initialize(self, args):\n{textwrap.indent(statement, ' ' * 8)}\n"


def completes(source: str) -> str:
    """Return the model with a method that completes its config: batches of at most 4 rows that are formed dynamically,
    an input `IN` and an output `OUT` of FP32 numbers.
    """
    method = """\
    @staticmethod
    def auto_complete_config(config):
        config.set_max_batch_size(4)
        config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [-1]})
        config.add_output({"name": "OUT", "data_type": "TYPE_FP32", "dims": [-1]})
        config.set_dynamic_batching()
        return config

"""
    return source.replace("    def execute", method + "    def execute")


def cell(line: str, source: str) -> str:
    """Return a cell of a model: its name and options, and its source."""
    return f"%%triton_model {line}\n{source}"


#: Answers its first input.
IDENTITY = executes(
    'return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", r.inputs()[0].as_numpy())]) for r in requests]'
)

#: Answers no request; it imports nothing, where a test looks at imports.
SILENT = "class TritonPythonModel:\n    def execute(self, requests):\n        return [None for _ in requests]\n"

ADD_SUB = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            a = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            b = pb_utils.get_input_tensor_by_name(request, "INPUT1").as_numpy()
            responses.append(
                pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", a + b), pb_utils.Tensor("OUTPUT1", a - b)])
            )
        return responses
"""

ADD_SUB_CONFIG = """
backend: "python"
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }, { name: "INPUT1" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }, { name: "OUTPUT1" data_type: TYPE_FP32 dims: [ -1 ] } ]
instance_group [ { kind: KIND_CPU } ]
"""

#: Answers every input with an output of the same name (`IN` -> `IN`); absent ones are absent.
ECHO = executes(
    "return [\n"
    "    pb_utils.InferenceResponse([pb_utils.Tensor(t.name(), t.as_numpy()) for t in request.inputs()])\n"
    "    for request in requests\n"
    "]"
)

#: Answers its inputs as they came, whatever numpy knows of them.
RETURNS = executes("return [pb_utils.InferenceResponse(request.inputs()) for request in requests]")

#: A cell whose model stops in the debugger at its line 7, and what sends it a request.
STOPS = """%%triton_model stops --quiet --input IN:FP32[-1] --output OUT:FP32[-1]
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        x = requests[0].inputs()[0].as_numpy()
        breakpoint()
        x = x + 1
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x)])]
"""
CALL_STOPS = "stops(IN=[1, 2])['OUT'].tolist()"
