"""The log settings of a server: the records that are shown, and their form (rule 5.14.3)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..status import UnavailableError, UnsupportedError

FORMATS = ("default", "ISO8601")

_MAX_INT32 = 2**31 - 1


@dataclass(frozen=True)
class LogSetting:
    """The records of the log that `tritonlab serve` writes, their file and form; the fields have Triton's names."""

    log_file: str = ""
    log_info: bool = True
    log_warning: bool = True
    log_error: bool = True
    log_verbose_level: int = 0
    log_format: str = "default"

    def shows(self, level: str) -> bool:
        """Return whether a record of that level (`INFO`, `WARNING`, `ERROR`, `VERBOSE`) is written."""
        if level == "VERBOSE":
            return self.log_verbose_level >= 1
        return bool({"INFO": self.log_info, "WARNING": self.log_warning, "ERROR": self.log_error}[level])


class LogSettings:
    """The current log settings, for clients to read and change. Any thread may call any method."""

    def __init__(self, setting: LogSetting) -> None:
        self._lock = threading.Lock()  # held during an update; readers need none, the setting is assigned whole
        self.setting = setting

    def get(self) -> dict[str, Any]:
        """Return the fields of rule 5.14.3, in Triton's order."""
        return dict(vars(self.setting))

    def update(self, settings: Mapping[str, Any]) -> None:
        """Set the named fields and ignore unknown ones. The caller has checked the types, with the errors of its
        protocol.

        As on Triton, the fields before an invalid one stay set. Raises UnsupportedError for a file, UnavailableError
        for a format that does not exist.
        """
        if "log_file" in settings:
            raise UnsupportedError("log file location can not be updated through network protocol")
        with self._lock:
            for name in ("log_info", "log_warning", "log_error"):
                if name in settings:
                    self._set(name, bool(settings[name]))
            if "log_verbose_level" in settings:
                level = int(settings["log_verbose_level"]) & 0xFFFFFFFF
                self._set("log_verbose_level", level if level <= _MAX_INT32 else 0)  # negative to Triton (measured)
            if "log_format" in settings:
                if settings["log_format"] not in FORMATS:
                    text = f"invalid argument for --log_format, got: {settings['log_format']}"
                    raise UnavailableError(text.partition("\0")[0])
                self._set("log_format", settings["log_format"])

    def _set(self, name: str, value: Any) -> None:
        self.setting = replace(self.setting, **{name: value})
