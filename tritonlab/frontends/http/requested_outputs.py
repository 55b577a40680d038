"""How the outputs of a request are to be sent (rule 6.3.1)."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..shared.exchange import OutputPlan

JSON = OutputPlan()
BINARY = OutputPlan(binary=True)
#: The only parameter that most requests have.
BINARY_OUTPUT = {"binary_data_output": True}


@dataclass(slots=True)
class RequestedOutputs:
    """How the outputs of one request are sent; `default` is for those that it does not name."""

    default: OutputPlan = JSON
    by_name: dict[str, OutputPlan] = field(default_factory=dict)
