"""`config.pbtxt` as a protobuf message, and messages printed as text and as JSON (rule 5.2).

The message is Triton's own `ModelConfig` (`triton_messages.py`).
"""

from __future__ import annotations

import copyreg
import json
import re
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format, text_format

from ..explained import Explained
from ..status import Code
from .triton_messages import load_messages

if TYPE_CHECKING:
    ModelConfig = Any  # generated code has no types

_PLACEHOLDER = re.compile(r"\$\{[^${}\s]+\}")
_ESCAPED = re.compile("[\udc80-\udcff]")
#: A comment, or a quoted text: neither can start within the other.
_COMMENT_OR_TEXT = re.compile(r"""#[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""")
#: A backslash and its escape: both halves of a character beyond 16 bits, or any character.
_ESCAPE = re.compile(r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|(.))")
#: The characters allowed after a backslash in protobuf's text format; digits are octal.
_KNOWN_ESCAPES = frozenset("abfnrtv\\?'\"01234567xuU")


class ConfigError(Explained, ValueError):
    """A configuration that the server refuses.

    `reason` is the text of tables 5.3.1 / 5.3.2. `detail` is the place and cause, if the reason lacks them (a parser's
    `line:column : message`). `code` is the error code, which a load error names before the text (rule 2.5.1).
    """

    def __init__(self, reason: str, *, detail: str = "", code: Code = Code.INVALID_ARG) -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail
        self.code = code


#: The generated module: message and enum classes (`messages.ModelInstanceGroup.KIND_GPU`).
messages = load_messages("model_config_pb2")
if not TYPE_CHECKING:
    ModelConfig = messages.ModelConfig


def _config_from_bytes(data: bytes) -> ModelConfig:
    return ModelConfig.FromString(data)


# the class has no module to be imported from
copyreg.pickle(ModelConfig, lambda config: (_config_from_bytes, (config.SerializeToString(),)))


def read_config(path: Path) -> ModelConfig:
    """Return the message of a config.pbtxt; an empty one if the file does not exist. Raises ConfigError, OSError."""
    return parse_pbtxt(read_config_text(path), str(path))


def read_config_text(path: Path) -> str:
    """Return the text of a config.pbtxt, which `config_bytes` turns back into the same bytes; empty if the file does
    not exist. Raises OSError.
    """
    # comments may hold bytes that are not UTF-8; the server accepts them too
    return path.read_bytes().decode("utf-8", "surrogateescape") if path.is_file() else ""


def config_bytes(text: str) -> bytes:
    """Return the bytes of a text that `read_config_text` may have returned."""
    return text.encode("utf-8", "surrogateescape")


def parse_pbtxt(text: str, path: str) -> ModelConfig:
    """Return the message that `text` describes; only the error names `path`. Raises ConfigError (rule 2.5.3).

    Bytes that are not UTF-8 may stand in comments, as surrogate escapes.
    """
    if "\\" in text:
        text = _COMMENT_OR_TEXT.sub(lambda found: _as_python_reads(found, path), text)
    try:
        return text_format.Parse(text, ModelConfig())
    # raised by this parser for a number that the enum lacks, and for an enum's word that is not UTF-8
    except (text_format.ParseError, ValueError, SystemError) as error:
        text = _COMMENT_OR_TEXT.sub(lambda found: "" if found[0][0] == "#" else found[0], text)
        unfilled = ", ".join(placeholders(text))
        detail = f"{error}; not filled in: {unfilled}" if unfilled else _not_utf8(text) or str(error)
        raise ConfigError(f"failed to read text proto from {path}", detail=detail) from None


def _as_python_reads(found: re.Match[str], path: str) -> str:
    """Return a quoted text with the escapes replaced that only protobuf in C++ reads.

    Raises ConfigError for an escape that only protobuf in Python reads: it accepts any backslash (rule 2.5.4).
    """
    token = found[0]
    if token[0] == "#" or "\\" not in token:
        return token

    def read(escape: re.Match[str]) -> str:
        if escape[1]:
            return bytes.fromhex(escape[1] + escape[2]).decode("utf-16-be")
        if escape[3] in _KNOWN_ESCAPES:
            return "?" if escape[3] == "?" else escape[0]
        before = found.string[: found.start() + escape.start()]
        place = f"{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"
        raise ConfigError(
            f"failed to read text proto from {path}",
            detail=f"{place} : {escape[0]} is not an escape of this format; write a backslash as \\\\",
        )

    return _ESCAPE.sub(read, token)


def _not_utf8(text: str) -> str:
    """Return the line that is not UTF-8; "" if all are."""
    for number, line in enumerate(text.split("\n"), 1):
        if _ESCAPED.search(line):
            return f"line {number} is not UTF-8; save the file as UTF-8"
    return ""


def placeholders(text: str) -> list[str]:
    """Return the distinct `${NAME}` placeholders of a template."""
    return list(dict.fromkeys(_PLACEHOLDER.findall(text)))


def print_pbtxt(config: ModelConfig) -> str:
    """Return `config` as a person would write it, one set field per line. Parsing it gives an equal message."""
    return str(text_format.MessageToString(config, as_utf8=True, use_short_repeated_primitives=True))


def from_json(source: str | dict[str, Any]) -> ModelConfig:
    """Return the message for a JSON text or dict, in the form of the load API (rule 5.11.3).

    Field names may be original or camelCase, and a 64-bit number may be text or a number. Raises ConfigError; the words
    after the prefix are protobuf's own and differ between its implementations.
    """
    try:
        if isinstance(source, str):
            if source.lstrip()[:1] == "[":  # protobuf's Python parser would take an empty list as an empty message
                raise json_format.ParseError("Root element must be a message.")
            return json_format.Parse(source, ModelConfig())
        return json_format.ParseDict(source, ModelConfig())
    except json_format.ParseError as error:
        raise ConfigError(f"Invalid config override: {error}", detail=str(error)) from None


def to_json(config: ModelConfig) -> str:
    """Return the JSON of rule 5.2: every scalar and repeated field, in the order of the .proto file, without
    blanks."""
    return json.dumps(_message_dict(config), ensure_ascii=False, separators=(",", ":"))


def to_dict(config: ModelConfig) -> dict[str, Any]:
    """Return the content of `to_json` as a new dict."""
    return _message_dict(config)


#: 64-bit fields that Triton prints in protobuf's own JSON form, as decimal text; the others are JSON numbers.
_INT64_AS_TEXT = frozenset(
    {
        "inference.ModelOptimizationPolicy.Cuda.GraphSpec.Shape.dim",
        "inference.ModelSequenceBatching.InitialState.dims",
        "inference.ModelInstanceGroup.SecondaryDevice.device_id",
    }
)


def _message_dict(message: Any) -> dict[str, Any]:
    """Return one message by rule 5.2.1. As in Triton, a scalar of a oneof has no default and, when set, comes last."""
    result: dict[str, Any] = {}
    chosen: dict[str, Any] = {}
    for name, read, kind in _READERS.get(message.DESCRIPTOR.full_name) or _readers(message.DESCRIPTOR):
        if kind == _SAME:
            result[name] = getattr(message, name)
        elif kind == _PLAIN:
            result[name] = read(getattr(message, name))
        elif kind == _LIST:
            result[name] = list(map(read, getattr(message, name)))
        elif kind == _MAP:
            entries = getattr(message, name)
            # Triton prints maps in hash order; any order is valid, and this one is stable.
            result[name] = {str(key): read(entries[key]) for key in sorted(entries)} if entries else {}
        elif message.HasField(name):
            (chosen if kind == _CHOICE else result)[name] = read(getattr(message, name))
    result.update(chosen)
    return result


_SAME, _PLAIN, _LIST, _MAP, _MESSAGE, _CHOICE = range(6)
_READERS: dict[str, list[tuple[str, Any, int]]] = {}


def _readers(descriptor: Any) -> list[tuple[str, Any, int]]:
    """Return, and cache, the readers of a message type's fields: name, conversion, and how the field is printed."""
    readers = _READERS[descriptor.full_name] = [_reader(field) for field in descriptor.fields]
    return readers


def _reader(field: Any) -> tuple[str, Any, int]:
    is_message = field.message_type is not None
    if is_message and field.message_type.GetOptions().map_entry:
        value = _scalar_reader(field.message_type.fields_by_name["value"])
        return field.name, value, _MAP
    read = _scalar_reader(field)
    if _is_repeated(field):
        return (field.name, list, _PLAIN) if read is _same else (field.name, read, _LIST)
    if is_message:
        return field.name, read, _MESSAGE
    if field.containing_oneof is not None:
        return field.name, read, _CHOICE
    return field.name, read, _SAME if read is _same else _PLAIN


def _is_repeated(field: Any) -> bool:
    # protobuf 6 warns about `label`, and protobuf 5 has nothing else
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED)


def _scalar_reader(field: Any) -> Any:
    if field.message_type is not None:
        return _message_dict
    if field.enum_type is not None:
        return _EnumNames({value.number: value.name for value in field.enum_type.values}).__getitem__
    if field.cpp_type == field.CPPTYPE_FLOAT:
        return _float32
    if field.full_name in _INT64_AS_TEXT:
        return str
    return _same


def _same(value: Any) -> Any:
    return value


class _EnumNames(dict[int, "str | int"]):
    """The names of an enum's numbers; a number without a name stands for itself."""

    def __missing__(self, number: int) -> int:
        return number


def _float32(value: float) -> float | int:
    """Return the shortest number that is the same float32; whole numbers have no fraction (`0.3`, `1`)."""
    wire = struct.pack("f", value)
    short = next(s for digits in range(6, 18) if struct.pack("f", s := float(f"{value:.{digits}g}")) == wire)
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def renamed(config: ModelConfig, name: str) -> ModelConfig:
    """Return a copy whose name is `name`."""
    copy = ModelConfig()
    copy.CopyFrom(config)
    copy.name = name
    return copy


def with_only(config: ModelConfig, field: str) -> ModelConfig:
    """Return a copy with that field only."""
    copy = ModelConfig()
    copy.CopyFrom(config)
    for descriptor, _ in config.ListFields():
        if descriptor.name != field:
            copy.ClearField(descriptor.name)
    return copy


def dims_text(dims: Iterable[int]) -> str:
    """Return a shape as Triton prints it in messages, `[-1,4]` (rule 5.4.4)."""
    return "[" + ",".join(map(str, dims)) + "]"
