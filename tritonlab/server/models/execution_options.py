"""The options of a server for executing; made once and used where a model version loads."""

from __future__ import annotations

from dataclasses import dataclass

from ...instances.execution.rate_limiter import Limits, RateLimiter, make_rate_limiter
from .response_cache import ResponseCache, parse_cache_config


@dataclass(frozen=True)
class ExecutionOptions:
    """The options. `limiter` and `cache` are None where the server has none. `count_warmup`: whether warmup shows
    in statistics.
    """

    limiter: RateLimiter | None = None
    cache: ResponseCache | None = None
    count_warmup: bool = True

    @staticmethod
    def from_settings(
        cache_config: str, rate_limit: str, rate_limit_resource: Limits | None, count_warmup: bool
    ) -> ExecutionOptions:
        """Make the options from the server's arguments. Raises InvalidArgumentError."""
        size = parse_cache_config(cache_config)
        limiter = make_rate_limiter(rate_limit, rate_limit_resource)
        return ExecutionOptions(limiter, ResponseCache(size) if size else None, count_warmup)
