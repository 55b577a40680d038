"""`ExecuteTimes`, the times of the parts of one execution."""

from __future__ import annotations


class ExecuteTimes:
    """The nanoseconds of one `execute`: marshalling in, the call in the stub, marshalling out (rule 3.11.3)."""

    __slots__ = ("compute_infer", "compute_input", "compute_output")

    def __init__(self, compute_input: int, compute_infer: int, compute_output: int) -> None:
        self.compute_input = compute_input
        self.compute_infer = compute_infer
        self.compute_output = compute_output
