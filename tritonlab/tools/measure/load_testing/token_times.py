"""The tokens of streams, and their times, under the names of AIPerf.

A token is whatever `output_tokens` of `load_test` counts. The first token is in the first response that has one: a
response with an empty text has none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ....core.inference.data_type import DataType
from ....core.inference.tensor import Tensor
from ....core.status import InvalidArgumentError
from .time_percentiles import Percentiles

#: Returns the number of tokens in the outputs of a response.
CountTokens: TypeAlias = Callable[[Mapping[str, Tensor]], int]


def token_counter(output_tokens: Any, outputs: Mapping[str, DataType]) -> CountTokens | None:
    """Return the function that counts the tokens of a response; None if none are to be counted.

    Args:
        output_tokens: the name of an output, each element of which is a token, or each text that is not empty; or a
            function of the outputs of a response, a dict of arrays by name, which returns their number.
        outputs: the datatypes of the outputs of the model.

    Raises InvalidArgumentError for a name that the model does not have.
    """
    if output_tokens is None:
        return None
    if callable(output_tokens):
        return lambda found: int(output_tokens({name: tensor.numpy() for name, tensor in found.items()}))
    if output_tokens not in outputs:
        known = ", ".join(map(repr, outputs))
        raise InvalidArgumentError(f"output_tokens must be a function or one of the outputs {known}")
    if outputs[output_tokens] is DataType.BYTES:
        return lambda found: sum(map(bool, found[output_tokens].numpy().flat)) if output_tokens in found else 0
    return lambda found: prod(found[output_tokens].shape) if output_tokens in found else 0


class TokenLog:
    """The tokens of ended requests, from any thread."""

    def __init__(self, count: CountTokens) -> None:
        self.count = count
        #: (due, first token, last token, end of the request, tokens), nanoseconds of the monotonic clock
        self.rows: deque[tuple[int, int, int, int, int]] = deque()
        #: (time, nanoseconds since the response with tokens before)
        self.gaps: deque[tuple[int, int]] = deque()


class TokenStream:
    """The tokens of one request under way."""

    __slots__ = ("_first", "_last", "_log", "_tokens")

    def __init__(self, log: TokenLog) -> None:
        self._log = log
        self._first = self._last = self._tokens = 0

    def take(self, outputs: Mapping[str, Tensor], now: int) -> None:
        """Count the tokens of a response that came `now`."""
        tokens = self._log.count(outputs)
        if not tokens:
            return
        if self._last:
            self._log.gaps.append((now, now - self._last))
        else:
            self._first = now
        self._last = now
        self._tokens += tokens

    def end(self, due: int, now: int) -> None:
        """Note the end of a request that has not failed."""
        if self._tokens:
            self._log.rows.append((due, self._first, self._last, now, self._tokens))


@dataclass(frozen=True)
class TokenTimes:
    """The times of tokens at one level of load; times are microseconds.

    Args:
        time_to_first_token: from the sending of a request (in an open loop, from its due time) to its first token.
        inter_token_latency: of each request with two tokens or more, the time from its first token to its last one,
            divided by the tokens after the first one. vLLM's benchmark calls it the time per output token.
        inter_chunk_latency: the times between two responses with tokens. vLLM's benchmark calls it the inter-token
            latency.
        output_sequence_length: the mean number of tokens of a request.
        output_tokens: the number of all tokens.
        output_token_throughput: tokens per second.
        output_token_throughput_per_user: tokens per second of one stream after its first token, in the mean.
    """

    time_to_first_token: Percentiles | None
    inter_token_latency: Percentiles | None
    inter_chunk_latency: Percentiles | None
    output_sequence_length: float
    output_tokens: int
    output_token_throughput: float
    output_token_throughput_per_user: float | None

    @classmethod
    def from_log(cls, log: TokenLog, begin: int, end: int) -> TokenTimes:
        """Measure the requests that ended after `begin` and not after `end`."""
        rows = np.array([row for row in list(log.rows) if begin < row[3] <= end], np.int64).reshape(-1, 5)
        gaps = np.array([gap for time, gap in list(log.gaps) if begin < time <= end], np.int64)
        due, first, last, _, tokens = rows.T
        several = tokens > 1
        each: NDArray[np.float64] = (last - first)[several] / (tokens - 1)[several]
        count = int(tokens.sum())
        rates = 1e9 / each[each > 0]
        return cls(
            Percentiles.from_nanoseconds(first - due),
            Percentiles.from_nanoseconds(each),
            Percentiles.from_nanoseconds(gaps),
            output_sequence_length=count / len(rows) if len(rows) else 0.0,
            output_tokens=count,
            output_token_throughput=count / max((end - begin) / 1e9, 1e-9),
            output_token_throughput_per_user=float(rates.mean()) if len(rates) else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the times as JSON values; `_us` are microseconds."""
        named = {name: value for name, value in vars(self).items() if isinstance(value, (int, float))}
        times = {f"{name}_us": asdict(value) for name, value in vars(self).items() if isinstance(value, Percentiles)}
        return {**times, **named}
