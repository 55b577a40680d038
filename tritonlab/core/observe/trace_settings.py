"""`TraceSettings`, a server's trace settings: the global ones, and those that models override (rule 5.14.1).

A model's field has its own override, else the global setting, else the value the server started with.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..status import InvalidArgumentError, UnsupportedError

OFF = "OFF"
#: The levels of tracing, in the order Triton prints them.
LEVELS = ("TIMESTAMPS", "TENSORS")
MODES = ("triton", "opentelemetry")

_MAX_UINT32 = (1 << 32) - 1
_MAX_INT32 = (1 << 31) - 1

#: field -> its values, as clients read and write them
Values = dict[str, list[str]]


@dataclass(frozen=True)
class TraceSetting:
    """The requests of a model that are traced, and the file. `level`: of TIMESTAMPS and TENSORS; empty traces nothing.
    `rate`: one of this many requests is traced. `count`: how many are still to be traced, -1 without a limit.
    `log_frequency`: traces per file, 0 for all in one. `options`: the server's options of mode opentelemetry.
    """

    level: tuple[str, ...] = ()
    rate: int = 1000
    count: int = -1
    log_frequency: int = 0
    file: str = ""
    mode: str = "triton"
    options: tuple[tuple[str, str], ...] = ()

    @property
    def flaw(self) -> str:
        """Return why this setting traces nothing; such a setting is allowed only with level OFF (rule 5.14.2)."""
        if not self.level:
            return "tracing is disabled"
        if self.rate == 0:
            return "sample rate must be non-zero"
        if self.mode == "triton" and not self.file:
            return "trace file name is not given"
        return ""

    def values(self) -> Values:
        """Return the settings as clients read them, in Triton's order."""
        common = {
            "trace_level": list(self.level) or [OFF],
            "trace_rate": [str(self.rate)],
            "trace_count": [str(self.count)],
        }
        if self.mode == "opentelemetry":
            return {**common, "trace_mode": [self.mode], **{name: [value] for name, value in self.options}}
        return {
            **common,
            "log_frequency": [str(self.log_frequency)],
            "trace_file": [self.file],
            "trace_mode": [self.mode],
        }


class _Sampler:
    """The setting of the server or of one model, and the number of requests counted with it."""

    def __init__(self, setting: TraceSetting, own: frozenset[str]) -> None:
        self.setting = setting
        self.own = own  # the overridden fields
        self.seen = 0


class TraceSettings:
    """The trace settings, which select the traced requests. Any thread may call any method."""

    def __init__(
        self, setting: TraceSetting, model_ready: Callable[[str], bool], on_change: Callable[[], None] | None = None
    ) -> None:
        """`setting` is the setting at the start. `model_ready(name)` returns whether a model can answer. `on_change()`
        is called after each change, and when a count has run out.
        """
        self._start = setting
        self._model_ready = model_ready
        self._on_change = on_change
        self._lock = threading.Lock()  # guards all fields below
        self._global = _Sampler(setting, frozenset())
        self._models: dict[str, _Sampler] = {}

    def get(self, model: str = "") -> Values:
        """Return the values for a model, or the global ones. Raises InvalidArgumentError for a model that is not ready
        (rule 5.14.2).
        """
        self._require(model)
        with self._lock:
            return self._models.get(model, self._global).setting.values()

    def update(self, model: str, settings: Mapping[str, Sequence[str] | None], got: str = "") -> None:
        """Set the named fields; None clears an override; unknown fields and levels are ignored (rule 5.14.1). `got` is
        the text of the protocol's error between `got:` and a value below -1.

        Raises the errors of `get`, UnsupportedError for a file, InvalidArgumentError for an impossible value.
        """
        self._require(model)
        if "trace_file" in settings:
            raise UnsupportedError("trace file location can not be updated through network protocol")
        parsed = {name: parse(name, settings[name], got) for name in _FIELDS if name in settings}
        with self._lock:
            if model:
                self._models[model] = self._updated(self._models.get(model), self._global.setting, parsed)
            else:
                changed = self._updated(self._global, self._start, parsed)
                self._models = {n: self._updated(s, changed.setting, {}) for n, s in self._models.items()}
                self._global = changed
        if self._on_change is not None:
            self._on_change()

    def _updated(
        self, sampler: _Sampler | None, fallback: TraceSetting, parsed: Mapping[str, _Parsed | None]
    ) -> _Sampler:
        """Return the sampler that replaces `sampler`. It counts from the start, as Triton's does (measured: an update
        of any field restores a `trace_count` that has run down)."""
        changes: dict[str, _Parsed] = {name: getattr(sampler.setting, name) for name in sampler.own} if sampler else {}
        for field, value in parsed.items():
            name = _FIELDS[field]
            if value is None:
                changes.pop(name, None)
            elif value != _UNCHANGED:
                changes[name] = value
        setting = replace(fallback, **changes)  # type: ignore[arg-type]
        if setting.level and setting.flaw:
            raise InvalidArgumentError(f"Attempting to set invalid trace setting :{setting.flaw}")
        return _Sampler(setting, frozenset(changes))

    def start(self, setting: TraceSetting) -> None:
        """Apply `setting` to every model from now on, and forget overrides; only the server's owner may call it. Raises
        InvalidArgumentError for a setting that traces nothing.
        """
        if setting.flaw:
            raise InvalidArgumentError(f"Attempting to set invalid trace setting :{setting.flaw}")
        self._replace(setting)

    def stop(self) -> None:
        """Return to the setting of the server's start."""
        self._replace(self._start)

    def _replace(self, setting: TraceSetting) -> None:
        with self._lock:
            self._global = _Sampler(setting, frozenset())
            self._models = {}
        if self._on_change is not None:
            self._on_change()

    def sample(self, model: str, forced: bool = False) -> TraceSetting | None:
        """Return the setting to trace this request of `model` with, or None if it is not traced. Traced are every
        `rate`-th request and, in mode opentelemetry, a `forced` one.
        """
        with self._lock:
            sampler = self._models.get(model, self._global)
            setting = sampler.setting
            if setting.flaw:
                return None
            turn = False
            if setting.count:
                sampler.seen += 1
                turn = sampler.seen % setting.rate == 0
            if turn and setting.count > 0:
                sampler.setting = replace(setting, count=setting.count - 1)
        if turn and setting.count == 1 and self._on_change is not None:
            self._on_change()
        return setting if turn or (forced and setting.mode == "opentelemetry") else None

    def active(self) -> bool:
        """Return whether any request of any model can still be traced."""
        with self._lock:
            settings = [sampler.setting for sampler in (self._global, *self._models.values())]
        return any(not s.flaw and (s.count != 0 or s.mode == "opentelemetry") for s in settings)

    def _require(self, model: str) -> None:
        if model and not self._model_ready(model):
            raise InvalidArgumentError(f"Request for unknown model : {model}")


_Parsed = int | tuple[str, ...]

#: A list without an existing level changes nothing (measured).
_UNCHANGED: tuple[str, ...] = ("",)

#: The fields that clients may write, in the order Triton reads them.
_FIELDS = {"trace_level": "level", "trace_rate": "rate", "trace_count": "count", "log_frequency": "log_frequency"}


def parse(name: str, values: Sequence[str] | None, got: str = "") -> _Parsed | None:
    """Return the value of one field as `update` stores it; None clears it. Raises InvalidArgumentError."""
    if values is None:
        return None
    if name == "trace_level":
        if OFF in values:
            if len(values) > 1:
                raise InvalidArgumentError("Expect only one trace level 'OFF' is specified")
            return ()
        return tuple(level for level in LEVELS if level in values) or _UNCHANGED
    if len(values) != 1:
        raise InvalidArgumentError(f"expect only 1 value for '{name}'")
    if name != "trace_count":
        return _number(name, values[0], 0, _MAX_UINT32)
    count = _number(name, values[0], -1, _MAX_INT32)
    if count < -1:
        raise InvalidArgumentError(f"Unable to parse 'trace_count'. Expecting value >= -1, got:{got}{values[0]}")
    return count


def _number(name: str, text: str, least: int, most: int) -> int:
    """Return the number that C++'s stoi would read (measured): it ignores text after the digits, and accepts negative
    numbers for unsigned types, whatever range the error's text names.
    """
    digits = text.strip()
    end = 1 if digits[:1] in ("-", "+") else 0
    while digits[end : end + 1].isdigit() and digits[end].isascii():
        end += 1
    try:
        number = int(digits[:end])
    except ValueError:
        raise InvalidArgumentError(f"Unable to parse '{name}', got: {text}") from None
    if not -_MAX_INT32 - 1 <= number <= _MAX_INT32:
        raise InvalidArgumentError(f"Unable to parse '{name}', value is out of range [ {least}, {most} ], got: {text}")
    return number & _MAX_UINT32 if least == 0 else number
