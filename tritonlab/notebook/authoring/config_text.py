"""The text of a config.pbtxt as an author writes it in a cell, parsed and checked, each complaint with its line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ...core.config.load_advice import config_advice
from ...core.config.model_config import ConfigError, ModelConfig, parse_pbtxt
from ...core.config.model_config_rules import polled

#: The most faults of one text that are reported.
_MOST_FAULTS = 20
_TOKEN = re.compile(r"""#[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[-+\w.]+|[^\s\w]""")
#: Triton's error for a tensor that the maps of an ensemble's steps name.
_OF_STEP = (
    re.compile(r"non-existing (?:input|output) (?P<tensor>\S+) in model (?P<model>\S+)"),
    re.compile(r"in ensemble \S+, input \S+ in model (?P<model>\S+) is not mapped"),
    re.compile(r"in ensemble \S+, ensemble tensor (?P<tensor>\S+): inconsistent"),
    re.compile(r"at least one of its depending tensors, '(?P<tensor>[^']+)'"),
)
_PLACE = re.compile(r"^(\d+):(\d+)\s*:\s*(.*)$", re.DOTALL)


@dataclass(frozen=True)
class ConfigText:
    """A config of `model` as its author wrote it.

    `source`: its name for the author; line n of `text` is line `n + offset` there.
    """

    text: str = ""
    source: str = "the config text"
    offset: int = 0
    model: str = ""

    @cached_property
    def message(self) -> ModelConfig:
        """The parsed config, which must not be changed.

        Raises ConfigTextError for a text that the server would refuse when it reads the file (table 5.3.1).
        """
        try:
            config = parse_pbtxt(self.text, f"{self.model}/config.pbtxt")
            served = ModelConfig()
            served.CopyFrom(config)
            if not served.platform and not served.backend:
                served.backend = "python"  # as the draft will write it
            polled(served, model_name=self.model, files={"model.py"})
        except ConfigError as error:
            raise ConfigTextError(error, self) from None
        return config

    @cached_property
    def says_something(self) -> bool:
        """Whether the text has more than blanks and comments."""
        return any(line.split("#", 1)[0].strip() for line in self.text.splitlines())

    def line_of(self, word: str) -> int:
        """Return the line of the source with the first `word` outside a comment; 0 if there is none."""
        for number, line in enumerate(self.text.splitlines(), start=1 + self.offset):
            if re.search(rf"\b{re.escape(word)}\b", line.split("#", 1)[0]):
                return number
        return 0

    def place(self, line: int) -> str:
        return f"{self.source}, line {line}," if line else self.source


class ConfigTextError(ConfigError):
    """An error for a config text that Triton would refuse.

    `written`: the text. `line` and `column`: where in its source, from 1, or 0 without a place. `advice`: what to write
    instead, if known.
    """

    def __init__(self, error: ConfigError, written: ConfigText) -> None:
        super().__init__(error.reason, detail=error.detail, code=error.code)
        self.written = written
        if found := _PLACE.match(error.detail):
            self.line, self.column = int(found[1]) + written.offset, int(found[2])
            # protobuf repeats the line before its complaint; the excerpt shows that line
            self.complaint = re.sub(r"^'.*?' ?: (?=\S)", "", found[3].strip(), count=1, flags=re.DOTALL)
        else:
            self.line, self.column = _line_of_reason(error.reason, written), 0
            self.complaint = error.detail or error.reason
        self.advice = config_advice(self.complaint)

    def place(self) -> str:
        line = f", line {self.line}" + (f":{self.column}" if self.column else "") if self.line else ""
        return f"{self.written.source}{line}"

    def remedy(self) -> str:
        return self.advice

    def __str__(self) -> str:
        return f"{self.place()}: {self.complaint}" + (f" {self.advice}" if self.advice else "")

    def excerpt(self, context: int = 2) -> list[str]:
        """Return the lines around the complaint, with an arrow, as in a traceback; empty if it has no place."""
        if not self.line:
            return []
        lines = self.written.text.splitlines()
        index = min(self.line - self.written.offset, len(lines)) - 1
        excerpt_lines = [""]
        for number in range(max(0, index - context), min(len(lines), index + context + 1)):
            line = number + 1 + self.written.offset
            arrow = f"{'-' * (5 - len(str(line)))}> {line} " if number == index else f"{line:>7} "
            excerpt_lines.append(arrow + lines[number])
            if number == index and self.column:
                excerpt_lines.append(" " * (7 + self.column) + "^")
        return excerpt_lines


def line_of_step(reason: str, written: ConfigText) -> int:
    """Return the source's line with the tensor of an ensemble's step that Triton's reason names; 0 if there is none."""
    found = next((found for pattern in _OF_STEP if (found := pattern.search(reason))), None)
    if found is None:
        return 0
    names = found.groupdict()
    lines = [line.split("#", 1)[0] for line in written.text.splitlines()]
    of_model = re.compile(rf"""model_name\s*:\s*(["']){re.escape(names.get("model") or "")}\1""")
    first = next((index for index, line in enumerate(lines) if of_model.search(line)), 0)
    if "tensor" not in names:
        return first + 1 + written.offset
    quoted = re.compile(rf"""(["']){re.escape(names["tensor"])}\1""")
    return next((index + 1 + written.offset for index in range(first, len(lines)) if quoted.search(lines[index])), 0)


def _line_of_reason(reason: str, written: ConfigText) -> int:
    """Return the line that a rule's reason is about, if it names a field or value of the text; else 0."""
    if line := line_of_step(reason, written):
        return line
    words = re.findall(r"'(\w+)'", reason)
    words += [f"{word}_batch_size" for word in re.findall(r"\b(preferred) size", reason)]
    return next((line for word in words if (line := written.line_of(word))), 0)


def faults(written: ConfigText) -> Iterator[ConfigTextError]:
    """Yield the faults of a config text that the server would refuse. A parser ends at the first fault, so the text is
    parsed again without the wrong field, as long as that field can be found."""
    text, parsed = written.text, False
    for _ in range(_MOST_FAULTS):
        try:
            if parsed:
                parse_pbtxt(text, f"{written.model}/config.pbtxt")
            else:
                written.message  # noqa: B018 - parsing is what raises
            return
        except ConfigTextError as found:
            error = found
        except ConfigError as found:
            error = ConfigTextError(found, written)
        yield error
        without = _without_field(text, error.line - written.offset, error.column) if error.column else None
        if without is None:
            return
        text, parsed = without, True


def _without_field(text: str, line: int, column: int) -> str | None:
    """Return the text with the innermost field at the place, name and value, replaced by blanks; None if no complete
    field is there."""
    offset = sum(len(one) for one in text.splitlines(keepends=True)[: line - 1]) + column - 1
    for start, end in _fields(text):
        if start <= offset < end:
            return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    return None


def _fields(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each field, inner fields before those that contain them."""
    starts: list[int | None] = [None]  # of the field that is open, by depth of messages
    listed, valued = [False], [False]
    for token in _TOKEN.finditer(text):
        word, ends = token[0], False
        if word in "{<":
            starts.append(None)
            listed.append(False)
            valued.append(False)
        elif word in "}>":
            if len(starts) == 1:
                return
            for stack in (starts, listed, valued):
                stack.pop()
            ends = not listed[-1]
        elif word in "[]":
            listed[-1], ends = word == "[", word == "]"
        elif word == ":":
            valued[-1] = True
        elif word[0] not in "#,;" and not listed[-1]:
            ends = valued[-1]
            starts[-1] = starts[-1] if ends else token.start()
        if ends and (start := starts[-1]) is not None:
            yield start, token.end()
        if ends:
            starts[-1], valued[-1] = None, False
