"""A time limit for the end of a test that has reached its own, and for the end of the process that runs tests; and an
end of interrupts that leave a test.

pytest-timeout raises once in a test. The test may go on to wait for ever, as the end of a `with` does for the threads
of a pool, and with it a run whose output then has no stack to look at.
"""

from __future__ import annotations

import faulthandler
import signal
from collections.abc import Generator
from typing import Any

import pytest


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Generator[None, object, object]:
    """Raise in the test again whenever half of its time has passed once more."""
    is_set = yield
    if signal.getitimer(signal.ITIMER_REAL)[0]:
        signal.setitimer(signal.ITIMER_REAL, settings.timeout, settings.timeout / 2)
    return is_set


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, object, object]:
    """Stop the clock while pytest writes down the failure, where an exception would end the run."""
    left, repeated = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        return (yield)
    finally:
        if left:
            signal.setitimer(signal.ITIMER_REAL, left, repeated)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that an interrupt leaves, which would end the worker and with it the run."""
    try:
        return (yield)
    except KeyboardInterrupt as interrupt:
        if not hasattr(item.config, "workerinput"):
            raise
        raise RuntimeError("an interrupt left the test") from interrupt


def pytest_unconfigure(config: pytest.Config) -> None:
    """Print all stacks and exit if threads that tests have left keep this process for half of a test's time. Workers
    wait for each other, and are killed at the end.
    """
    seconds = float(config.getoption("timeout", None) or config.getini("timeout") or 0)
    if seconds and not hasattr(config, "workerinput"):
        faulthandler.dump_traceback_later(seconds / 2, exit=True, file=2)
