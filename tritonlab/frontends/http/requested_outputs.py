"""`RequestedOutput` says how a client wants one output of its request sent (rule 6.3.1)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class OutputInfo:
    """How a client wants one output: as JSON or binary, as `classes` highest classes, or in shared memory."""

    binary: bool = False
    classes: int = 0
    region: str = ""
    offset: int = 0
    byte_size: int = 0


JSON = OutputInfo()
BINARY = OutputInfo(binary=True)
#: The only parameter that most requests have.
BINARY_OUTPUT = {"binary_data_output": True}


@dataclass(slots=True)
class RequestedOutputs:
    """How the outputs of one request are sent: `default` for those that it does not name."""

    default: OutputInfo = JSON
    by_name: dict[str, OutputInfo] = field(default_factory=dict)
