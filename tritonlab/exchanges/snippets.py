"""A request as a program: for tritonclient over HTTP and gRPC, for curl, for pytest, and as perf_analyzer's input.

The program runs as it stands, against tritonlab and against Triton; every number of the request is in it.
"""

from __future__ import annotations

import base64
import io
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from ..core.explained import Explained
from ..core.inference.data_type import DataType
from ..core.inference.infer_request import SEQUENCE_END, SEQUENCE_START, InferenceRequest
from ..core.inference.infer_response import InferenceResponse
from ..core.inference.tensor import Tensor
from ..core.plain_facts import few_lines
from ..core.quoting import file_stem, json_text, python_identifier, python_literal
from ..core.status import Code
from ..core.whole_file import write_file
from .comparison import tolerance
from .http_document import NOT_IN_JSON, json_value, request_document
from .literal import MOST_BYTES, TooLarge, base64_lines, is_read, numpy_expression
from .remote.http_link import model_path


class NotSendable(Explained, ValueError):
    """A request that this kind of client cannot send."""

    code = Code.UNSUPPORTED


@dataclass(frozen=True)
class Address:
    """Where the program finds the server. `header_file`: the path of a file with the header `authorization: Bearer
    <token>`, if the server asks for one; a program names the file, and never holds the token. `is_default`: whether
    $TRITON_HTTP and $TRITON_GRPC, where they are set, count instead."""

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
    """A program, or a document. `files`: what has to lie beside it, by name."""

    name: str
    text: str
    files: Mapping[str, bytes] = field(default_factory=dict)

    def save(self, directory: str | Path = ".") -> Path:
        """Write the program and its files, and make the directory; raises FileExistsError if one of them is
        there."""
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
    """The contents of a program: a request, its answer, and of its model whether it is `decoupled` and
    takes batches, and the datatypes of its outputs.
    """

    request: InferenceRequest
    address: Address
    decoupled: bool
    batching: bool
    outputs: Mapping[str, DataType]
    responses: Sequence[InferenceResponse] = ()


def copy_as(
    kind: str,
    request: InferenceRequest,
    config: Mapping[str, Any],
    responses: Sequence[InferenceResponse] = (),
    address: Address | None = None,
) -> Snippet:
    """Return the request as a program. `kind`: one of KINDS. `config`: the model's, in its JSON form. `responses`:
    what the request got, for `pytest`.

    Raises NotSendable, or TooLarge for tensors that do not fit into the text of a program.
    """
    if kind not in KINDS:
        raise ValueError(f"'{kind}' is not one of {', '.join(KINDS)}")
    return KINDS[kind](_example(request, config, responses, address))


def _example(
    request: InferenceRequest,
    config: Mapping[str, Any],
    responses: Sequence[InferenceResponse] = (),
    address: Address | None = None,
) -> Example:
    outputs = {output["name"]: DataType.from_config_name(output["data_type"]) for output in config["output"]}
    decoupled = bool(config.get("model_transaction_policy", {}).get("decoupled"))
    return Example(
        request,
        address=address or Address(),
        decoupled=decoupled,
        batching=config["max_batch_size"] > 0,
        outputs=outputs,
        responses=responses,
    )


def _http(example: Example) -> Snippet:
    if example.decoupled:
        raise NotSendable("HTTP has one response for each request; use gRPC for a decoupled model")
    text = (
        _imports("http", example)
        + _headers(example)
        + _inputs(example)
        + f"with tritonclient.InferenceServerClient({example.address.python('http')}) as client:\n"
        + f"    answer = client.infer({_arguments(example, headers=True)})\n"
        + 'for output in answer.get_response()["outputs"]:\n'
        + '    print(output["name"], answer.as_numpy(output["name"]), sep="\\n")\n'
    )
    return Snippet(f"{file_stem(example.request.model_name)}_http.py", text)


def _grpc(example: Example) -> Snippet:
    head = (
        _imports("grpc", example)
        + _headers(example)
        + _inputs(example)
        + f"with tritonclient.InferenceServerClient({example.address.python('grpc')}) as client:\n"
    )
    name = f"{file_stem(example.request.model_name)}_grpc.py"
    statement = 'print(output.name, answer.as_numpy(output.name), sep="\\n")\n'
    if not example.decoupled:
        call = f"    answer = client.infer({_arguments(example, headers=True)})\n"
        return Snippet(name, head + call + "for output in answer.get_response().outputs:\n    " + statement)
    body = f"        for output in message.outputs:\n            {statement}"
    return Snippet(name, head + _stream(example, "    ", body))


def _stream(example: Example, indent: str, body: str) -> str:
    """Write the calls that ask over a stream; `body` is run for each response, with `answer` and its `message`."""
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


def _pytest(example: Example) -> Snippet:
    """Write a test that asks over gRPC, which carries every kind of answer."""
    if not example.responses:
        raise NotSendable("a test needs a response to compare with: send the request first")
    if any(response.error is not None for response in example.responses):
        raise NotSendable("a test needs a response to compare with, and this request failed")
    name = f"test_{file_stem(example.request.model_name)}"
    wanted = _wanted(example)
    text = _test_head(example, name, wanted) + _test_function(example, name, wanted)
    return Snippet(f"{name}.py", text, {f"{name}.npz": _npz(_arrays(example, wanted))})


def _wanted(example: Example) -> list[InferenceResponse]:
    # a stream ends with a response that holds its flag alone; else every answer counts, also one without outputs
    return [response for response in example.responses if response.outputs or not example.decoupled]


def _arrays(example: Example, wanted: Sequence[InferenceResponse], prefix: str = "") -> dict[str, Any]:
    """Return the arrays that a test reads, by their names in its `.npz`."""
    arrays = {_entry_name(f"{prefix}input.", key): _stored(one) for key, one in example.request.inputs.items()}
    for number, response in enumerate(wanted):
        arrays |= {_entry_name(f"{prefix}output.{number}.", key): _stored(one) for key, one in response.outputs.items()}
    return arrays


def _entry_name(prefix: str, key: str) -> str:
    """Return the name in a `.npz` of the tensor `key`: a zip file cuts a name at a NUL, and numpy cuts off `.npy`."""
    return prefix + quote(key, safe="", errors="surrogatepass").replace(".npy", "%2Enpy")


def _npz(arrays: Mapping[str, Any]) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def recorded_tests(
    name: str,
    cases: Sequence[tuple[InferenceRequest, Sequence[InferenceResponse], Mapping[str, Any]]],
    address: Address | None = None,
) -> Snippet:
    """Return one test for each request, response and config of its model, as a program of that name."""
    arrays: dict[str, Any] = {}
    every: dict[str, Tensor] = {}
    answers: list[InferenceResponse] = []
    tests, decoupled = "", False
    for number, (request, responses, config) in enumerate(cases):
        example = _example(request, config, responses, address)
        prefix = f"{number}."
        every |= {f"{prefix}{key}": tensor for key, tensor in request.inputs.items()}
        wanted = _wanted(example)
        answers += wanted
        decoupled |= example.decoupled
        arrays |= _arrays(example, wanted, prefix)
        tests += _test_function(example, f"test_{request.model_name}_{number}", wanted, prefix)
    merged = Example(InferenceRequest(name, every), address or Address(), decoupled, batching=False, outputs={})
    return Snippet(f"{name}.py", _test_head(merged, name, answers) + tests, {f"{name}.npz": _npz(arrays)})


def failure_test(
    requests: Sequence[InferenceRequest], config: Mapping[str, Any], error: str, address: Address | None = None
) -> Snippet:
    """Return a test that fails as long as the model of that `config` does not answer each of the requests, which has
    failed with `error`.
    """
    model = requests[0].model_name
    name = f"test_{file_stem(model)}_failure"
    several = len(requests) > 1
    arrays: dict[str, Any] = {}
    tests = ""
    for number, request in enumerate(requests):
        example = _example(request, config, (), address)
        prefix = f"input.{number}." if several else "input."
        arrays |= {_entry_name(prefix, key): _stored(tensor) for key, tensor in request.inputs.items()}
        tests += (
            f"\n\ndef {python_identifier(name)}{f'_{number}' * several}():\n"
            + f"    # it failed with {error!r}\n"
            + _inputs(example, _loaded(request, prefix), "    ").rstrip("\n")
            + "\n    with tritonclient.InferenceServerClient(SERVER) as client:\n"
            + _test_asks(example)
        )
        if not example.decoupled:
            tests += "    assert answers\n"
    every = {f"{n}.{key}": tensor for n, request in enumerate(requests) for key, tensor in request.inputs.items()}
    head = _test_head(_example(InferenceRequest(model, every), config, (), address), name)
    return Snippet(f"{name}.py", head + tests, {f"{name}.npz": _npz(arrays)})


def _test_head(example: Example, name: str, wanted: Sequence[InferenceResponse] = ()) -> str:
    return (
        _imports("grpc", example, more=("os", "pathlib"), responses=wanted, queue=False)
        + f"DATA = np.load(pathlib.Path(__file__).with_name({python_literal(f'{name}.npz')}))\n"
        + f"SERVER = {replace(example.address, is_default=True).python('grpc')}\n"
        + _test_headers(example)
    )


def _headers(example: Example) -> str:
    """Write how a program reads the header with the token."""
    if not example.address.header_file:
        return ""
    return (
        f"with open({python_literal(example.address.header_file)}) as file:  # only its owner can read it\n"
        '    headers = dict([file.read().strip().split(": ")])\n\n'
    )


def _test_headers(example: Example) -> str:
    """Return how a test, which outlives this server and is run against others, finds the header with the token."""
    if not example.address.header_file:
        return ""
    return (
        "# the token is in a file that only its owner can read; TRITON_AUTHORIZATION='Bearer <token>' takes its place\n"
        f"HEADER_FILE = pathlib.Path({python_literal(example.address.header_file)})\n"
        'HEADER = HEADER_FILE.read_text() if HEADER_FILE.exists() else ""\n'
        'AUTHORIZATION = os.environ.get("TRITON_AUTHORIZATION", HEADER.partition(":")[2].strip())\n'
        'headers = {"authorization": AUTHORIZATION} if AUTHORIZATION else {}\n'
    )


def _loaded(request: InferenceRequest, prefix: str) -> dict[str, str]:
    """Return for each input the expression that reads it from the `.npz`."""
    loaded = {key: f"DATA[{python_literal(_entry_name(prefix, key))}]" for key in request.inputs}
    for key, tensor in request.inputs.items():
        if tensor.datatype is DataType.BYTES:
            loaded[key] = f"deserialize_bytes_tensor({loaded[key]}.tobytes()).reshape({list(tensor.shape)})"
        elif tensor.datatype is DataType.BF16:
            loaded[key] += ".view(ml_dtypes.bfloat16)"
    return loaded


def _test_asks(example: Example) -> str:
    if not example.decoupled:
        return f"        answers = [client.infer({_arguments(example, headers=True)})]\n"
    collect = "            if message.outputs:\n                found.append(answer)\n"
    ask = "        answers, found = queue.Queue(), []\n" + _stream(example, "        ", collect)
    return ask + "        client.stop_stream()\n        answers = found\n"


def _test_function(example: Example, name: str, wanted: Sequence[InferenceResponse], prefix: str = "") -> str:
    checks = [f"    assert len(answers) == {len(wanted)}\n"]
    for number, response in enumerate(wanted):
        for key, tensor in response.outputs.items():
            checks.append(f"    {_check(number, key, tensor, prefix)}\n")
    inputs = _inputs(example, _loaded(example.request, f"{prefix}input."), "    ").rstrip("\n") + "\n"
    return (
        f"\n\ndef {python_identifier(name)}():\n"
        + inputs
        + "    with tritonclient.InferenceServerClient(SERVER) as client:\n"
        + _test_asks(example)
        + "".join(checks)
    )


def _check(number: int, key: str, tensor: Tensor, prefix: str = "") -> str:
    got = f"answers[{number}].as_numpy({python_literal(key)})"
    stored = f"DATA[{python_literal(_entry_name(f'{prefix}output.{number}.', key))}]"
    if tensor.datatype is DataType.BYTES:
        return f"assert {got}.ravel().tolist() == deserialize_bytes_tensor({stored}.tobytes()).tolist()"
    if tensor.datatype is DataType.BF16:
        return f"np.testing.assert_allclose({got}.astype('f4'), {stored}.view(ml_dtypes.bfloat16).astype('f4'), 0.01)"
    if tensor.datatype.numpy.kind != "f":
        return f"np.testing.assert_array_equal({got}, {stored})"
    rtol, atol = tolerance(tensor.datatype)
    return f"np.testing.assert_allclose({got}, {stored}, rtol={rtol:g}, atol={atol:g})"


def _stored(tensor: Tensor) -> NDArray[Any]:
    """Return the array that lies in a `.npz` that needs no pickle: BYTES are in their wire form."""
    return tensor.data if tensor.datatype is DataType.BYTES else tensor.data.reshape(tensor.shape)


def _imports(
    protocol: str,
    example: Example,
    more: Sequence[str] = (),
    responses: Sequence[InferenceResponse] = (),
    queue: bool = True,
) -> str:
    tensors = [*example.request.inputs.values(), *(t for response in responses for t in response.outputs.values())]
    packed = "" if more else "".join(numpy_expression(tensor) for tensor in example.request.inputs.values())
    needed = {"base64": "base64." in packed, "queue": example.decoupled, "os": example.address.is_default}
    standard = {*more, *(module for module, is_needed in needed.items() if is_needed)}
    lines = [f"import {module}" for module in sorted(standard)] + ([""] if standard else [])
    lines += ["import ml_dtypes"] * any(tensor.datatype is DataType.BF16 for tensor in tensors)
    lines += ["import numpy as np", f"import tritonclient.{protocol} as tritonclient"]
    stored = more and any(tensor.datatype is DataType.BYTES for tensor in tensors)
    if stored or "deserialize_bytes_tensor" in packed:
        lines.append("from tritonclient.utils import deserialize_bytes_tensor")
    lines += ["", "answers = queue.Queue()"] if example.decoupled and queue else []
    return "\n".join(lines) + "\n\n"


def _inputs(example: Example, values: Mapping[str, str] | None = None, indent: str = "") -> str:
    lines = ["inputs = []"]
    for name, tensor in example.request.inputs.items():
        value = values[name] if values is not None else numpy_expression(tensor)
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
    """Write the request as JSON where its values are few and have a form in it, else with the binary extension. If an
    output has no JSON form, the command saves the answer as it is. The header with the token is read from its file: on
    a command line every user could see it.
    """
    if example.decoupled:
        raise NotSendable("HTTP has one response for each request; use gRPC for a decoupled model")
    request, header_file = example.request, example.address.header_file
    version = str(request.model_version) if request.model_version != -1 else ""
    stem, server = file_stem(request.model_name), shlex.quote(f"http://{example.address.http}")
    if example.address.is_default:
        server = f'"http://${{TRITON_HTTP:-{example.address.http}}}"'
    url = f"{server}{model_path(request.model_name, version)}/infer"  # no shell reads anything in that path
    header = f" -H {shlex.quote(f'@{header_file}')}" if header_file else ""
    names = request.requested_outputs or list(example.outputs)
    binary = any(example.outputs.get(name) in NOT_IN_JSON for name in names)
    document = request_document(request, binary)
    saving = f" -D {shlex.quote(stem)}.head -o {shlex.quote(stem)}.answer" if binary else ""
    # curl has it since 7.76 (March 2021); an older one says that it does not know it, with status 2
    command = f"curl -sS --fail-with-body{header} {url}{saving}"
    # the text of an error goes where the answer would: 22 is curl's status for it
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


#: How each kind is written.
KINDS: dict[str, Callable[[Example], Snippet]] = {
    "tritonclient HTTP": _http,
    "tritonclient gRPC": _grpc,
    "curl": _curl,
    "pytest": _pytest,
    "perf_analyzer input": _perf_input,
}
