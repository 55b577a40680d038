"""The text of a config.pbtxt as an author writes it in a cell, parsed and checked, each complaint with its line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from ...core.config.load_advice import config_advice
from ...core.config.model_config import ConfigError, ModelConfig, parse_pbtxt
from ...core.config.model_config_rules import polled

_PLACE = re.compile(r"^(\d+):(\d+)\s*:\s*(.*)$", re.DOTALL)


@dataclass(frozen=True)
class ConfigText:
    """A config of `model` as its author wrote it.

    `source` is the name that a person knows; line n of `text` is line `n + offset` there.
    """

    text: str = ""
    source: str = "the config text"
    offset: int = 0
    model: str = ""

    @cached_property
    def message(self) -> ModelConfig:
        """The parsed config, which nobody may change.

        Raises ConfigTextError for what the server would refuse when it reads the file (table 5.3.1).
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

    @property
    def says_something(self) -> bool:
        """Return whether there is anything but blanks and comments."""
        return any(line.split("#", 1)[0].strip() for line in self.text.splitlines())

    def line_of(self, word: str) -> int:
        """Return the line of the source on which `word` first stands outside a comment; 0 if it does not."""
        for number, line in enumerate(self.text.splitlines(), start=1 + self.offset):
            if re.search(rf"\b{re.escape(word)}\b", line.split("#", 1)[0]):
                return number
        return 0

    def place(self, line: int) -> str:
        return f"{self.source}, line {line}," if line else self.source


class ConfigTextError(ConfigError):
    """Why Triton would refuse a config text.

    `said`: the text. `line` and `column`: where in its source, from 1, or 0 if the complaint has no place. `advice`:
    what to write instead, if that is known.
    """

    def __init__(self, error: ConfigError, said: ConfigText) -> None:
        super().__init__(error.reason, detail=error.detail, code=error.code)
        self.said = said
        if found := _PLACE.match(error.detail):
            self.line, self.column = int(found[1]) + said.offset, int(found[2])
            # protobuf repeats the line before it says what is wrong with it; the excerpt shows that
            self.complaint = re.sub(r"^'.*?' ?: (?=\S)", "", found[3].strip(), count=1, flags=re.DOTALL)
        else:
            self.line, self.column = _line_of_reason(error.reason, said), 0
            self.complaint = error.detail or error.reason
        self.advice = config_advice(self.complaint)

    def place(self) -> str:
        line = f", line {self.line}" + (f":{self.column}" if self.column else "") if self.line else ""
        return f"{self.said.source}{line}"

    def remedy(self) -> str:
        return self.advice

    def __str__(self) -> str:
        return f"{self.place()}: {self.complaint}" + (f" {self.advice}" if self.advice else "")

    def excerpt(self, context: int = 2) -> list[str]:
        """Return the lines around the complaint, with an arrow, as a traceback has them; empty if the complaint has no
        place.
        """
        if not self.line:
            return []
        lines = self.said.text.splitlines()
        index = min(self.line - self.said.offset, len(lines)) - 1
        shown = [""]
        for number in range(max(0, index - context), min(len(lines), index + context + 1)):
            line = number + 1 + self.said.offset
            arrow = f"{'-' * (5 - len(str(line)))}> {line} " if number == index else f"{line:>7} "
            shown.append(arrow + lines[number])
            if number == index and self.column:
                shown.append(" " * (7 + self.column) + "^")
        return shown


def _line_of_reason(reason: str, said: ConfigText) -> int:
    """Return the line that a rule's reason is about, if it names a field or value that stands in the text; else 0."""
    words = re.findall(r"'(\w+)'", reason)
    words += [f"{word}_batch_size" for word in re.findall(r"\b(preferred) size", reason)]
    return next((line for word in words if (line := said.line_of(word))), 0)
