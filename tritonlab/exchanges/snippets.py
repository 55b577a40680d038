"""A request as a program: for tritonclient over HTTP and gRPC, for curl, for pytest, and as perf_analyzer's input.

The program runs as it stands, against tritonlab and against Triton; every number of the request is in it.
"""

from __future__ import annotations

import base64
import io
import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..core.explained import Explained
from ..core.inference.data_type import DataType
from ..core.inference.infer_request import SEQUENCE_END, SEQUENCE_START, InferenceRequest
from ..core.inference.infer_response import InferenceResponse
from ..core.inference.tensor import Tensor
from ..core.plain_facts import few_lines
from ..core.quoting import file_stem, json_text, npz_name, python_identifier, python_literal
from ..core.status import Code, TritonError
from ..core.whole_file import write_file
from .comparison import absolute_tolerance, tolerance
from .exchange import Exchange
from .http_document import NOT_IN_JSON, infer_path, json_value, request_document
from .literal import MOST_BYTES, TooLarge, base64_lines, is_read, numpy_expression


class NotSendable(Explained, ValueError):
    """A request that this kind of client cannot send."""

    code = Code.UNSUPPORTED


@dataclass(frozen=True)
class Address:
    """Where the program finds the server. `header_file`: the path of a file with the header `authorization: Bearer
    <token>`, if the server requires one; a program names the file, and never has the token. `is_default`: whether
    $TRITON_HTTP and $TRITON_GRPC take precedence if set."""

    http: str = "localhost:8000"
    grpc: str = "localhost:8001"
    header_file: str = ""
    is_default: bool = False

    def python(self, protocol: str) -> str:
        """Return the Python expression of the address."""
        address = python_literal(getattr(self, protocol))
        return f'os.environ.get("TRITON_{protocol.upper()}", {address})' if self.is_default else address


@dataclass(frozen=True)
class Snippet:
    """A program, or a document. `files`: the files next to it, by name."""

    name: str
    text: str
    files: Mapping[str, bytes] = field(default_factory=dict)

    def save(self, directory: str | Path = ".") -> Path:
        """Write the program and its files, and make the directory; raises FileExistsError if one of them exists."""
        folder = Path(directory)
        paths = {folder / self.name: self.text.encode(), **{folder / name: data for name, data in self.files.items()}}
        there = [path for path in paths if path.exists()]
        if there:
            raise FileExistsError(f"{there[0]} exists")
        folder.mkdir(parents=True, exist_ok=True)
        for path, data in paths.items():
            write_file(path, data)
        return folder / self.name

    def to_dict(self) -> dict[str, Any]:
        """Return the program, and how many bytes each of its files has, as JSON values."""
        return {"name": self.name, "text": self.text, "files": {name: len(data) for name, data in self.files.items()}}

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return few_lines(self.text)


@dataclass(frozen=True)
class Example:
    """The contents of a program: an exchange, whether its model is `decoupled` and takes batches, and the datatypes of
    the model's outputs.
    """

    exchange: Exchange
    address: Address
    decoupled: bool
    batching: bool
    outputs: Mapping[str, DataType]

    @staticmethod
    def from_config(exchange: Exchange, config: Mapping[str, Any], address: Address | None) -> Example:
        """Return the contents for a model of that config, in its JSON form."""
        outputs = {output["name"]: DataType.from_config_name(output["data_type"]) for output in config["output"]}
        decoupled = bool(config.get("model_transaction_policy", {}).get("decoupled"))
        return Example(exchange, address or Address(), decoupled, config["max_batch_size"] > 0, outputs)

    @property
    def request(self) -> InferenceRequest:
        return self.exchange.request

    @property
    def expected(self) -> list[InferenceResponse]:
        """The responses with which a test compares. The last response of a stream has only its flag; otherwise every
        answer counts, also one without outputs."""
        return [response for response in self.exchange.responses if response.outputs or not self.decoupled]


def copy_as(kind: str, exchange: Exchange, config: Mapping[str, Any], address: Address | None = None) -> Snippet:
    """Return the request as a program, for `pytest` with its answer. `kind`: one of KINDS. `config`: the model's, in
    its JSON form.

    Raises NotSendable, or TooLarge for tensors that do not fit into the text of a program.
    """
    if kind not in KINDS:
        raise ValueError(f"'{kind}' is not one of {', '.join(KINDS)}")
    example = Example.from_config(exchange, config, address)
    if example.decoupled and kind in (_HTTP, _CURL):
        raise NotSendable("HTTP has one response for each request; use gRPC for a decoupled model")
    return KINDS[kind](example)


def _client(protocol: str, example: Example) -> Snippet:
    """Write the program of tritonclient over `http` or `grpc`."""
    outputs, name = ('["outputs"]', 'output["name"]') if protocol == "http" else (".outputs", "output.name")
    head = (
        _imports(protocol, example)
        + _headers(example)
        + _inputs(example)
        + f"with tritonclient.InferenceServerClient({example.address.python(protocol)}) as client:\n"
    )
    statement = f'print({name}, answer.as_numpy({name}), sep="\\n")\n'
    if example.decoupled:
        body = _stream(example, "    ", f"        for output in message.outputs:\n            {statement}")
    else:
        call = f"    answer = client.infer({_arguments(example, headers=True)})\n"
        body = f"{call}for output in answer.get_response(){outputs}:\n    {statement}"
    return Snippet(f"{file_stem(example.request.model_name)}_{protocol}.py", head + body)


def _stream(example: Example, indent: str, body: str) -> str:
    """Write the calls over a stream; `body` is run for each response, with `answer` and its `message`."""
    headers = ", headers=headers" if example.address.header_file else ""
    lines = [
        f"client.start_stream(lambda result, error: answers.put(error or result){headers})",
        f"client.async_stream_infer({_arguments(example)}, enable_empty_final_response=True)",
        "final = False",
        "while not final:",
        "    answer = answers.get()",
        "    if isinstance(answer, Exception):",
        "        raise answer",
        "    message = answer.get_response()",
    ]
    end = '    final = message.parameters["triton_final_response"].bool_param'
    text = "".join(f"{indent}{line}\n" for line in lines)
    return text + body + f"{indent}{end}\n"


@dataclass(frozen=True)
class _Test:
    """A function that sends a request over gRPC, which carries every kind of answer, and compares; after a failure, any
    answer is good. `inputs`, `outputs`: the beginnings of its tensors' names in the `.npz`."""

    name: str
    example: Example
    inputs: str = "input."
    outputs: str = "output."

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors that the function reads, by their names in the `.npz`."""
        found = {self.inputs + npz_name(key): tensor for key, tensor in self.example.request.inputs.items()}
        for number, response in enumerate(self.example.expected):
            prefix = f"{self.outputs}{number}."
            found |= {prefix + npz_name(key): tensor for key, tensor in response.outputs.items()}
        return found

    def text(self) -> str:
        """Return the function."""
        error = self.example.exchange.error
        inputs = {key: _stored(self.inputs, key, one.datatype) for key, one in self.example.request.inputs.items()}
        return (
            f"\n\ndef {python_identifier(self.name)}():\n"
            + (f"    # it failed with {error.message!r}\n" if error is not None else "")
            + _inputs(self.example, inputs, "    ").rstrip("\n")
            + "\n    with tritonclient.InferenceServerClient(SERVER) as client:\n"
            + _test_asks(self.example)
            + "".join(f"    {check}\n" for check in self._checks())
        )

    def _checks(self) -> Iterator[str]:
        if self.example.exchange.error is not None:
            yield from [] if self.example.decoupled else ["assert answers"]
            return
        expected = self.example.expected
        yield f"assert len(answers) == {len(expected)}"
        for number, response in enumerate(expected):
            for key, tensor in response.outputs.items():
                got = f"answers[{number}].as_numpy({python_literal(key)})"
                yield _check(got, _stored(f"{self.outputs}{number}.", key, tensor.datatype), tensor)


def _check(got: str, stored: str, tensor: Tensor) -> str:
    """Return the statement that compares an output with `tensor`."""
    datatype = tensor.datatype
    if datatype is DataType.BYTES:
        return f"assert {got}.ravel().tolist() == {stored}.tolist()"
    if datatype is DataType.BF16:
        return f"np.testing.assert_allclose({got}.astype('f4'), {stored}.astype('f4'), 0.01)"
    if datatype.numpy.kind != "f":
        return f"np.testing.assert_array_equal({got}, {stored})"
    rtol, atol = tolerance(datatype)[0], absolute_tolerance(datatype, tensor.data.astype(np.float64))
    return f"np.testing.assert_allclose({got}, {stored}, rtol={rtol:g}, atol={atol:g})"


def _stored(prefix: str, key: str, datatype: DataType) -> str:
    """Return the expression that reads a tensor from the `.npz`."""
    stored = f"DATA[{python_literal(prefix + npz_name(key))}]"
    if datatype is DataType.BYTES:
        return f"deserialize_bytes_tensor({stored}.tobytes())"
    return f"{stored}.view(ml_dtypes.bfloat16)" if datatype is DataType.BF16 else stored


def _write_tests(name: str, tests: Sequence[_Test]) -> Snippet:
    """Return the program of that name, with a `.npz` that needs no pickle: BYTES are in their wire form."""
    tensors = {key: tensor for test in tests for key, tensor in test.tensors.items()}
    address = replace(tests[0].example.address, is_default=True)
    needed = {"os": True, "pathlib": True, "queue": any(test.example.decoupled for test in tests)}
    reads_bytes = any(tensor.datatype is DataType.BYTES for tensor in tensors.values())
    text = (
        _import_lines("grpc", needed, tensors.values(), reads_bytes)
        + f"DATA = np.load(pathlib.Path(__file__).with_name({python_literal(f'{name}.npz')}))\n"
        + f"SERVER = {address.python('grpc')}\n"
        + _test_headers(address)
        + "".join(test.text() for test in tests)
    )
    file = io.BytesIO()
    arrays = {
        key: tensor.data if tensor.datatype is DataType.BYTES else tensor.data.reshape(tensor.shape)
        for key, tensor in tensors.items()
    }
    np.savez_compressed(file, **dict[str, Any](arrays))
    return Snippet(f"{name}.py", text, {f"{name}.npz": file.getvalue()})


def _pytest(example: Example) -> Snippet:
    if not example.exchange.responses:
        raise NotSendable("a test needs a response to compare with: send the request first")
    if example.exchange.error is not None:
        raise NotSendable("a test needs a response to compare with, and this request failed")
    name = f"test_{file_stem(example.request.model_name)}"
    return _write_tests(name, [_Test(name, example)])


def recorded_tests(
    name: str, cases: Sequence[tuple[Exchange, Mapping[str, Any]]], address: Address | None = None
) -> Snippet:
    """Return one test for each exchange and config of its model, as a program of that name."""
    tests = [
        _Test(
            f"test_{exchange.model}_{n}", Example.from_config(exchange, config, address), f"{n}.input.", f"{n}.output."
        )
        for n, (exchange, config) in enumerate(cases)
    ]
    return _write_tests(name, tests)


def failure_test(
    requests: Sequence[InferenceRequest], config: Mapping[str, Any], error: str, address: Address | None = None
) -> Snippet:
    """Return a test that fails until the model of that `config` answers every request; each has failed with `error`."""
    name = f"test_{file_stem(requests[0].model_name)}_failure"
    examples = [Example.from_config(Exchange(each, error=TritonError(error)), config, address) for each in requests]
    if len(examples) == 1:
        return _write_tests(name, [_Test(name, examples[0])])
    return _write_tests(name, [_Test(f"{name}_{n}", one, f"input.{n}.") for n, one in enumerate(examples)])


def _headers(example: Example) -> str:
    """Write the lines of a program that read the header with the token."""
    if not example.address.header_file:
        return ""
    return (
        f"with open({python_literal(example.address.header_file)}) as file:  # only its owner can read it\n"
        '    headers = dict([file.read().strip().split(": ")])\n\n'
    )


def _test_headers(address: Address) -> str:
    """Return the lines that find the token's header, for a test that outlives this server and runs against others."""
    if not address.header_file:
        return ""
    return (
        "# the token is in a file that only its owner can read; TRITON_AUTHORIZATION='Bearer <token>' takes its place\n"
        f"HEADER_FILE = pathlib.Path({python_literal(address.header_file)})\n"
        'HEADER = HEADER_FILE.read_text() if HEADER_FILE.exists() else ""\n'
        'AUTHORIZATION = os.environ.get("TRITON_AUTHORIZATION", HEADER.partition(":")[2].strip())\n'
        'headers = {"authorization": AUTHORIZATION} if AUTHORIZATION else {}\n'
    )


def _test_asks(example: Example) -> str:
    if not example.decoupled:
        return f"        answers = [client.infer({_arguments(example, headers=True)})]\n"
    collect = "            if message.outputs:\n                found.append(answer)\n"
    ask = "        answers, found = queue.Queue(), []\n" + _stream(example, "        ", collect)
    return ask + "        client.stop_stream()\n        answers = found\n"


def _imports(protocol: str, example: Example) -> str:
    """Return the imports of a program that has its tensors in its text."""
    tensors = [*example.request.inputs.values()]
    packed = "".join(map(numpy_expression, tensors))
    needed = {"base64": "base64." in packed, "queue": example.decoupled, "os": example.address.is_default}
    answers = "answers = queue.Queue()\n\n" * example.decoupled
    return _import_lines(protocol, needed, tensors, "deserialize_bytes_tensor" in packed) + answers


def _import_lines(protocol: str, needed: Mapping[str, bool], tensors: Iterable[Tensor], reads_bytes: bool) -> str:
    standard = sorted(module for module, is_needed in needed.items() if is_needed)
    lines = [f"import {module}" for module in standard] + ([""] if standard else [])
    lines += ["import ml_dtypes"] * any(tensor.datatype is DataType.BF16 for tensor in tensors)
    lines += ["import numpy as np", f"import tritonclient.{protocol} as tritonclient"]
    lines += ["from tritonclient.utils import deserialize_bytes_tensor"] * reads_bytes
    return "\n".join([*lines, "", ""])


def _inputs(example: Example, values: Mapping[str, str] | None = None, indent: str = "") -> str:
    lines = ["inputs = []"]
    for name, tensor in example.request.inputs.items():
        value = values[name] if values is not None else numpy_expression(tensor)
        value += f".reshape({list(tensor.shape)})" if values is not None and tensor.datatype is DataType.BYTES else ""
        lines.append(
            f"inputs.append(tritonclient.InferInput({python_literal(name)}, {list(tensor.shape)}, "
            f'"{tensor.datatype.name}"))'
        )
        lines.append(f"inputs[-1].set_data_from_numpy({value})")
    if requested := example.request.requested_outputs:
        wanted = (f"tritonclient.InferRequestedOutput({python_literal(name)})" for name in requested)
        lines.append(f"outputs = [{', '.join(wanted)}]")
    return "".join(f"{indent}{line}\n" for line in lines) + "\n"


def _arguments(example: Example, headers: bool = False) -> str:
    """Return the arguments of `infer`, without those that have their default values."""
    request = example.request
    arguments = {
        "model_version": python_literal(str(request.model_version)) if request.model_version != -1 else "",
        "outputs": "outputs" if request.requested_outputs else "",
        "request_id": python_literal(request.request_id) if request.request_id else "",
        "sequence_id": python_literal(request.correlation_id) if request.correlation_id else "",
        "sequence_start": "True" if request.flags & SEQUENCE_START else "",
        "sequence_end": "True" if request.flags & SEQUENCE_END else "",
        "priority": str(request.priority) if request.priority else "",
        "timeout": str(request.timeout) if request.timeout else "",
        "parameters": python_literal(request.parameters) if request.parameters else "",
        "headers": "headers" if headers and example.address.header_file else "",
    }
    keywords = "".join(f", {name}={value}" for name, value in arguments.items() if value)
    return f"{python_literal(request.model_name)}, inputs{keywords}"


def _curl(example: Example) -> Snippet:
    """Write the request as JSON if its values are few and have a JSON form, else with the binary extension. If an
    output has no JSON form, the command saves the answer as it is. The header with the token is read from its file: on
    a command line every user could see it.
    """
    request, header_file = example.request, example.address.header_file
    stem, server = file_stem(request.model_name), shlex.quote(f"http://{example.address.http}")
    if example.address.is_default:
        server = f'"http://${{TRITON_HTTP:-{example.address.http}}}"'
    url = f"{server}{infer_path(request)}"  # no shell reads anything in that path
    header = f" -H {shlex.quote(f'@{header_file}')}" if header_file else ""
    names = request.requested_outputs or list(example.outputs)
    binary = any(example.outputs.get(name) in NOT_IN_JSON for name in names)
    document = request_document(request, binary)
    saving = f" -D {shlex.quote(stem)}.head -o {shlex.quote(stem)}.answer" if binary else ""
    # curl has it since 7.76 (March 2021); an older one reports an unknown option, with status 2
    command = f"curl -sS --fail-with-body{header} {url}{saving}"
    # the text of an error would go to the place of the answer: 22 is curl's status for it
    shown = f" || {{ [ $? = 22 ] && cat {shlex.quote(stem)}.answer >&2; false; }}" if binary else ""
    name = f"{stem}.sh"
    values = {name: json_value(tensor) if is_read(tensor) else None for name, tensor in request.inputs.items()}
    if None not in values.values():
        for entry in document["inputs"]:
            entry["data"] = values[entry["name"]]
        return Snippet(name, f"{command} -d {shlex.quote(json_text(document))}{shown}\n")
    for entry in document["inputs"]:
        entry["parameters"] = {"binary_data_size": request.inputs[entry["name"]].byte_size}
    head = json.dumps(document).encode()
    body = head + b"".join(tensor.data.tobytes() for tensor in request.inputs.values())
    length = f"-H 'Inference-Header-Content-Length: {len(head)}' -H 'Content-Type: application/octet-stream'"
    return Snippet(name, f"base64 -d <<'END' | {command} {length} --data-binary @-{shown}\n{base64_lines(body)}\nEND\n")


def _perf_input(example: Example) -> Snippet:
    """Write input data of perf_analyzer (`--input-data FILE`), which otherwise sends random values. For a model that
    batches, each row is an entry of its own without the batch dimension, because perf_analyzer makes the batches itself
    (`-b`).
    """
    inputs = example.request.inputs
    if sum(tensor.byte_size for tensor in inputs.values()) > MOST_BYTES:
        raise TooLarge(f"more than {MOST_BYTES:,} bytes are too many for JSON")
    if example.batching:
        rows = min((tensor.shape[0] for tensor in inputs.values() if tensor.shape), default=1)
        data = [{name: _entry(one, list(one.shape[1:]), row) for name, one in inputs.items()} for row in range(rows)]
    else:
        data = [{name: _entry(one, list(one.shape)) for name, one in inputs.items()}]
    text = json.dumps({"data": data}, indent=2) + "\n"
    return Snippet(f"{file_stem(example.request.model_name)}_input.json", text)


def _entry(tensor: Tensor, shape: list[int], row: int | None = None) -> dict[str, Any]:
    array = tensor.data.reshape(tensor.shape) if tensor.datatype is not DataType.BYTES else tensor.numpy()
    elements = array if row is None else array[row]
    if tensor.datatype in (DataType.FP16, DataType.BF16):  # JSON has no numbers for these
        return {"b64": base64.b64encode(elements.tobytes()).decode(), "shape": shape}
    if tensor.datatype is not DataType.BYTES:
        return {"content": elements.ravel().tolist(), "shape": shape}
    try:
        return {"content": [element.decode() for element in elements.flat], "shape": shape}
    except UnicodeDecodeError:
        raise NotSendable("perf_analyzer reads text from JSON, and this is not UTF-8") from None


_HTTP, _CURL = "tritonclient HTTP", "curl"
#: The writer of each kind.
KINDS: dict[str, Callable[[Example], Snippet]] = {
    _HTTP: partial(_client, "http"),
    "tritonclient gRPC": partial(_client, "grpc"),
    _CURL: _curl,
    "pytest": _pytest,
    "perf_analyzer input": _perf_input,
}
