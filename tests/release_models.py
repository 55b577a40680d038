"""Models of every kind that an author writes, each with the requests that show whether a release of Triton runs it as
the notebook does.

They cover what releases know or lack, and what runs only where it was written. `write_models` makes them as they lie in
a notebook's repository; the folder beside it is what the notebook has and a server does not.
"""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.ensembles import step
from tests.models import answers, completes
from tritonlab.core.inference.infer_request import SEQUENCE_END, SEQUENCE_START, InferenceRequest
from tritonlab.core.inference.tensor import Tensor
from tritonlab.exchanges.exchange import Exchange, arrivals_of

IO = 'input { name: "IN" data_type: TYPE_FP32 dims: [-1] } output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }\n'
BATCHED = f"max_batch_size: 8\ndynamic_batching {{ }}\n{IO}"
DECOUPLED = f"model_transaction_policy {{ decoupled: true }}\n{IO}"
SEQUENCE = (
    "max_batch_size: 4\nsequence_batching {{ {strategy} max_sequence_idle_microseconds: 5000000 {more} }}\n"
    'input {{ name: "IN" data_type: TYPE_FP32 dims: [1] }} output {{ name: "OUT" data_type: TYPE_FP32 dims: [1] }}\n'
)
_CONTROL = (
    'control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [0, 1] } } '
    'control_input { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } } '
)
_STATE = (
    'state { input_name: "S_IN" output_name: "S_OUT" data_type: TYPE_FP32 dims: [1] '
    'initial_state { name: "zero" data_type: TYPE_FP32 dims: [1] zero_data: true } }'
)
#: {head}: before the class, {start}: in initialize, {body}: what comes of the array `x` of `request`.
PLAIN = """\
import os
import numpy as np
import triton_python_backend_utils as pb_utils
{head}


class TritonPythonModel:
    def initialize(self, args):
        self.args = args
        {start}

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", {body})])
"""


def plain(body: str = "x * 2", head: str = "", start: str = "pass") -> str:
    return PLAIN.format(head=head, start=start, body=body)


@dataclass(frozen=True)
class ReleaseModel:
    """One row. `source` is empty for an ensemble; `files`: beside config.pbtxt; `requests`: the inputs and fields of
    each; `needs`: a module without which the row is left out here."""

    source: str
    config: str = IO
    requests: Sequence[Mapping[str, Any]] = ({"IN": np.arange(4, dtype=np.float32)},)
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    needs: str = ""
    #: what each request was answered while the notebook ran it
    answers: Mapping[str, Any] | None = None

    def cases(self, name: str) -> list[Exchange]:
        found = []
        for number, request in enumerate(self.requests):
            inputs = {key: Tensor.from_numpy(np.asarray(x)) for key, x in request.items() if key.isupper()}
            fields = {key: x for key, x in request.items() if not key.isupper()}
            kept = [{key: Tensor.from_numpy(x) for key, x in self.answers.items()}] if self.answers else ()
            found.append(Exchange(InferenceRequest(name, inputs, **fields), arrivals_of(kept), name=f"r{number}"))
        return found


ROW = ({"IN": np.arange(4, dtype=np.float32).reshape(1, 4)},)
_ONE = np.ones((1, 1), np.float32)
_SERIES = (
    {"IN": _ONE, "correlation_id": 7, "flags": SEQUENCE_START},
    {"IN": _ONE * 2, "correlation_id": 7},
    {"IN": _ONE * 3, "correlation_id": 7, "flags": SEQUENCE_END},
)

_ASYNC = """\
import asyncio
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    async def execute(self, requests):
        await asyncio.sleep(0)
        return [pb_utils.InferenceResponse([
            pb_utils.Tensor("OUT", pb_utils.get_input_tensor_by_name(r, "IN").as_numpy() + 1)]) for r in requests]
"""
_SEQUENCE = """\
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        def one(name):
            return pb_utils.get_input_tensor_by_name(request, name).as_numpy()
        key = int(one("CORRID").reshape(-1)[0])
        if one("START").reshape(-1)[0]:
            self.sums[key] = 0.0
        self.sums[key] = self.sums.get(key, 0.0) + float(one("IN").sum())
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.full((1, 1), self.sums[key], np.float32))])
"""
_STATEFUL = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        total = sum(pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in ("IN", "S_IN"))
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", total), pb_utils.Tensor("S_OUT", total)])
"""
_SENDER = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    {kind}def execute(self, requests):
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            sender = request.get_response_sender()
            {body}
            {end}
"""
_SEND = 'sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x + n)])'
_FINAL = "sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)"
_BLS = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        tensor = pb_utils.get_input_tensor_by_name(request, "IN")
        call = pb_utils.InferenceRequest(model_name="{callee}", requested_output_names=["OUT"], inputs=[tensor])
        {body}
"""
_BLS_ONE = """found = call.exec()
        if found.has_error():
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(found.error().message()))
        return pb_utils.InferenceResponse([pb_utils.get_output_tensor_by_name(found, "OUT")])"""
_BLS_MANY = """total = 0
        for found in call.exec(decoupled=True):
            if found.output_tensors():
                total = total + pb_utils.get_output_tensor_by_name(found, "OUT").as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", total)])"""
_BLS_CANCEL = """answers = call.exec(decoupled=True)
        next(iter(answers))
        answers.cancel()
        return pb_utils.InferenceResponse([tensor])""".replace(
    "[tensor]", '[pb_utils.Tensor("OUT", tensor.as_numpy())]'
)
_AUTO = completes(answers("x"))
_ADD_SUB = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        a, b = (pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in ("A", "B"))
        if a.min() < 0:
            raise ValueError("it is negative")
        return pb_utils.InferenceResponse([pb_utils.Tensor("SUM", a + b), pb_utils.Tensor("DIFF", a - b)])
"""
_ADD_SUB_CONFIG = "".join(
    f'{kind} {{ name: "{name}" data_type: TYPE_FP32 dims: [ 4 ] }}\n'
    for kind, name in (("input", "A"), ("input", "B"), ("output", "SUM"), ("output", "DIFF"))
)
_FOUR = np.arange(4, dtype=np.float32)
_RESCHEDULE = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.left = 0

    def execute(self, requests):
        answers = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            self.left = self.left or 3
            self.left -= 1
            if self.left:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                answers.append(None)
            else:
                answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", x)]))
        return answers
"""
_METRIC = (
    "self.family = pb_utils.MetricFamily(name='{name}', description='d', kind=pb_utils.MetricFamily.{kind})"
    "\n        self.metric = self.family.Metric(labels={{}}{more})"
)


_ENSEMBLE = (
    f'platform: "ensemble"\n{IO}ensemble_scheduling {{\n'
    + step("async_execute", "IN=IN", "OUT=BETWEEN")
    + step("async_execute", "IN=BETWEEN", "OUT=OUT")
    + "}\n"
)


def models(notebook: Path, environment: Path | None = None) -> dict[str, ReleaseModel]:
    """Return the rows. `notebook`: a folder of the author's; `environment`: an archive with Python 3.10 and numpy 1,
    without which the two rows that need it are left out."""
    sender = lambda kind, body, end: _SENDER.format(kind=kind, body=body, end=end)  # noqa: E731
    final = f"{_SEND}, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)"
    rows = {
        "dynamic_batching": ReleaseModel(plain(), BATCHED, ROW),
        "ragged": ReleaseModel(
            plain("x.sum(keepdims=True).reshape(1, 1)"),
            "max_batch_size: 4\ndynamic_batching { }\n"
            'input { name: "IN" data_type: TYPE_FP32 dims: [-1] allow_ragged_batch: true }\n'
            'output { name: "OUT" data_type: TYPE_FP32 dims: [1] }\n',
            (*ROW, {"IN": np.ones((1, 7), np.float32)}),
        ),
        "async_execute": ReleaseModel(_ASYNC),
        "ensemble": ReleaseModel("", _ENSEMBLE),
        "sequence_direct": ReleaseModel(_SEQUENCE, SEQUENCE.format(strategy="direct { }", more=_CONTROL), _SERIES),
        "sequence_oldest": ReleaseModel(
            _SEQUENCE,
            SEQUENCE.format(strategy="oldest { max_candidate_sequences: 4 }", more=_CONTROL),
            _SERIES,
        ),
        "sequence_state": ReleaseModel(_STATEFUL, SEQUENCE.format(strategy="direct { }", more=_STATE), _SERIES),
        "helpers": ReleaseModel(
            plain(
                "scale(x) + len(open(os.path.join(os.path.dirname(__file__), '..', 'labels.txt')).read())",
                "from shapes.scaling import scale",
            ),
            files={
                "1/shapes/__init__.py": "",
                "1/shapes/scaling.py": "def scale(x):\n    return x * 3\n",
                "labels.txt": "one two",
            },
        ),
        "parameters": ReleaseModel(
            plain(
                "x * self.rate",
                start="import json; c = json.loads(args['model_config'])"
                "\n        self.rate = np.float32(c['parameters']['rate']['string_value'])",
            ),
            IO + 'parameters { key: "rate" value { string_value: "2.5" } }\n',
        ),
        "warmup": ReleaseModel(
            plain("x + self.__dict__.setdefault('first', x.size)"),
            IO + 'model_warmup { name: "w" batch_size: 1 inputs { key: "IN" value { data_type: TYPE_FP32 dims: [2] '
            'input_data_file: "two" } } }\n',
            files={"warmup/two": np.ones(2, np.float32).tobytes()},
        ),
        "auto_complete": ReleaseModel(_AUTO, "", ROW),
        "decoupled_bls": ReleaseModel(_BLS.format(callee="decoupled", body=_BLS_MANY)),
        "torch_file": ReleaseModel(
            plain(
                "torch.from_numpy(x).mul(self.w).numpy()",
                "import torch",
                "self.w = torch.load(os.path.join(os.path.dirname(__file__), 'weights.pt'))['w']",
            ),
            files={"1/weights.pt": _state_dict()},
            needs="torch",
        ),
        "torch_bytes": ReleaseModel(plain("torch.relu(torch.from_numpy(x)).numpy()", "import torch"), needs="torch"),
        "counter_metric": ReleaseModel(
            plain(
                start=_METRIC.format(name="release_rows", kind="COUNTER", more="")
                + "\n        self.metric.increment(1)"
            )
        ),
        "histogram_metric": ReleaseModel(
            plain(
                start=_METRIC.format(name="release_times", kind="HISTOGRAM", more=", buckets=[1.0, 2.0]")
                + "\n        self.metric.observe(1.5)"
            )
        ),
        "python_3_11": ReleaseModel(plain("x * len(tomllib.loads('a = 1'))", "import tomllib")),
        "add_sub": ReleaseModel(
            _ADD_SUB,
            _ADD_SUB_CONFIG,
            (
                {"A": _FOUR, "B": _FOUR},
                {"A": _FOUR, "B": -_FOUR, "request_id": "mine"},
                {"A": _FOUR, "B": _FOUR, "requested_outputs": ["DIFF"]},
                {"A": _FOUR},
                {"A": _FOUR, "B": _FOUR, "C": _FOUR},
                {"A": _FOUR[:3], "B": _FOUR},
                {"A": _FOUR.astype(np.int32), "B": _FOUR},
                {"A": -_FOUR - 1, "B": _FOUR},
                {"A": _FOUR, "B": _FOUR, "requested_outputs": ["NONE"]},
            ),
        ),
        "bytes": ReleaseModel(
            plain("np.array([each.upper() for each in x], np.object_)"),
            IO.replace("TYPE_FP32", "TYPE_STRING"),
            ({"IN": np.array([b"one", "zwölf".encode()], np.object_)}, {"IN": np.array([b""], np.object_)}),
        ),
        "optional_input": ReleaseModel(
            plain("x + (0 if more is None else more.as_numpy())").replace(
                "        return pb_utils.Inf",
                '        more = pb_utils.get_input_tensor_by_name(request, "MORE")\n        return pb_utils.Inf',
            ),
            IO + 'input { name: "MORE" data_type: TYPE_FP32 dims: [-1] optional: true }\n',
            ({"IN": _FOUR}, {"IN": _FOUR, "MORE": _FOUR}, {"MORE": _FOUR}),
        ),
        "versions": ReleaseModel(
            plain("x * 1"), IO + "version_policy { all { } }\n", files={"3/model.py": plain("x * 3")}
        ),
        "decoupled": ReleaseModel(
            sender("", f"for n in range(3): {_SEND})", _FINAL),
            DECOUPLED,
        ),
        "sender_default": ReleaseModel(sender("", f"n = 1; {final}", "pass")),
        "sender_in_thread": ReleaseModel(
            sender("", f"n = 2; t = __import__('threading').Thread(target=lambda: {final}); t.start()", "t.join()")
        ),
        "async_decoupled": ReleaseModel(
            sender("async ", f"for n in range(2): {_SEND})", _FINAL),
            DECOUPLED,
        ),
        "bf16": ReleaseModel(
            plain("x")
            .replace('get_input_tensor_by_name(request, "IN").as_numpy()', 'get_input_tensor_by_name(request, "IN")')
            .replace(
                'pb_utils.Tensor("OUT", x)', 'pb_utils.Tensor.from_dlpack("OUT", torch.from_dlpack(x.to_dlpack()))'
            )
            .replace("import numpy as np", "import numpy as np\nimport torch"),
            IO.replace("TYPE_FP32", "TYPE_BF16"),
            (),
            needs="torch",
        ),
        "iterative": ReleaseModel(
            _RESCHEDULE,
            "sequence_batching { iterative_sequence: true }\n" + IO.replace("[-1]", "[ 4 ]"),
        ),
        "request_parameters": ReleaseModel(
            plain("x + np.float32(request.timeout() + len(request.parameters()))"),
            BATCHED,
            ({**ROW[0], "timeout": 2_000_000, "parameters": {"a": "b"}},),
        ),
        "cancellation": ReleaseModel(
            sender("", f"n = 0 if sender.is_cancelled() else 1; {_SEND})", _FINAL),
            DECOUPLED,
        ),
        "bls_error": ReleaseModel(_BLS.format(callee="add_sub", body=_BLS_ONE)),
        "response_parameters": ReleaseModel(plain().replace("x * 2)])", "x * 2)], parameters={'k': 'v'})")),
        "iterator_cancel": ReleaseModel(_BLS.format(callee="decoupled", body=_BLS_CANCEL)),
        "is_ready": ReleaseModel(plain() + "\n    def is_ready(self):\n        return False\n"),
        "numpy_2": ReleaseModel(plain("np.concat([x, x])")),
        "other_cell": ReleaseModel(plain("x * RATE"), answers={"OUT": np.arange(4, dtype=np.float32) * 2}),
        "absolute_path": ReleaseModel(plain(f"x * float(open({str(notebook / 'table.txt')!r}).read())")),
        "relative_path": ReleaseModel(plain("x * self.rate", start="self.rate = float(open('table.txt').read())")),
        "module_beside": ReleaseModel(plain("x * tools_here.RATE", "import tools_here")),
        "variable": ReleaseModel(plain("x * self.rate", start="self.rate = float(os.environ['RELEASE_RATE'])")),
        "ipython": ReleaseModel(plain("x * 2", "import IPython"), needs="IPython"),
    }
    if environment is not None:
        for name, path in (("env_archive", "env.tar.gz"), ("env_directory", "env")):
            parameter = f'"$$TRITON_MODEL_DIRECTORY/{path}"'
            text = f'parameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: {parameter} }} }}\n'
            rows[name] = ReleaseModel(plain("x * 2"), IO + text)
    return rows


def _state_dict() -> bytes:
    import importlib.util
    import io

    if importlib.util.find_spec("torch") is None:
        return b""
    import torch

    file = io.BytesIO()
    torch.save({"w": torch.tensor(2.0)}, file)
    return file.getvalue()


def write_models(rows: Mapping[str, ReleaseModel], repository: Path, notebook: Path, environment: Path | None) -> None:
    """Write the rows as a repository, and what their notebook has beside it."""
    notebook.mkdir(parents=True, exist_ok=True)
    (notebook / "table.txt").write_text("2")
    (notebook / "tools_here.py").write_text("RATE = 2\n")
    for name, row in rows.items():
        (repository / name / "1").mkdir(parents=True)
        (repository / name / "config.pbtxt").write_text(f'name: "{name}"\n{row.config}')
        if row.source:
            (repository / name / "1" / "model.py").write_text(row.source)
        for path, content in row.files.items():
            (repository / name / path).parent.mkdir(parents=True, exist_ok=True)
            (repository / name / path).write_bytes(content.encode() if isinstance(content, str) else content)
    if environment is not None and "env_archive" in rows:
        shutil.copyfile(environment, repository / "env_archive" / "env.tar.gz")
        with tarfile.open(environment) as archive:
            archive.extractall(repository / "env_directory" / "env", filter="tar")
