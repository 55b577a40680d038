"""The models of a server's start: several at a time, ensembles after their models."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from ...core.config.model_config_rules import is_ensemble
from ...core.status import InternalError, InvalidArgumentError, TritonError
from .dependency_graph import DependencyGraph
from .model_control import ModelControl

#: Seconds for the other loads to end after an interrupted one.
_ENDING_SECONDS = 5.0


def load_startup_models(control: ModelControl, startup_models: Sequence[str], threads: int) -> dict[str, TritonError]:
    """Load all loadable models, `threads` at a time, and return the failures by model name. `startup_models`: the
    models for the explicit mode, `*` for all. Raises InvalidArgumentError if `*` is named next to others.
    """
    if "*" in startup_models and len(startup_models) > 1:
        raise InvalidArgumentError("Wildcard model name '*' must be the ONLY startup model if specified at all.")
    every = not control.explicit or list(startup_models) == ["*"]
    repository = control.repository
    repository.allow(startup_models)
    names = repository.names() if every else [each for name in startup_models for each in repository.identifiers(name)]
    return load_models(control, names, threads)


def load_models(control: ModelControl, names: Sequence[str], threads: int) -> dict[str, TritonError]:
    """Load the loadable ones of the models, `threads` at a time, and return the failures by identifier."""
    configs = {name: config for name in names if (config := control.ensembles.config(name)) is not None}
    ensembles = {name: config for name, config in configs.items() if is_ensemble(config)}
    failed = _load_all(control, [name for name in names if name not in ensembles], threads)
    for name in DependencyGraph(ensembles).load_order(ensembles):
        failed |= _load_all(control, [name], 1)
    return failed


def _load_all(control: ModelControl, names: Sequence[str], threads: int) -> dict[str, TritonError]:
    failed: dict[str, TritonError] = {}
    unexpected: list[BaseException] = []
    waiting = list(reversed(names))

    def work() -> None:
        while waiting:
            try:
                name = waiting.pop()
            except IndexError:  # another thread was quicker
                return
            try:
                control.load_model(name)
            except TritonError as error:
                failed[name] = error
            except Exception as error:  # with any files, the other models load
                failed[name] = InternalError(f"failed to load '{name}': {type(error).__name__}: {error}")
            except BaseException as error:  # an interrupt
                waiting.clear()
                unexpected.append(error)

    workers = [threading.Thread(target=work, name="load", daemon=True) for _ in range(min(threads, len(names)) - 1)]
    for worker in workers:
        worker.start()
    try:
        work()
        for worker in workers:
            if not unexpected:
                worker.join()
        if unexpected:
            raise unexpected[0]
    except BaseException:
        waiting.clear()
        _end_loads(control, names, workers)
        raise
    return dict(sorted(failed.items()))


def _end_loads(control: ModelControl, names: Sequence[str], workers: Sequence[threading.Thread]) -> None:
    """End the running loads, repeatedly, since a load may be between two steps that can be ended."""
    until = time.monotonic() + _ENDING_SECONDS
    while any(worker.is_alive() for worker in workers) and time.monotonic() < until:
        for name in names:
            control.stop_loading(name)
        for worker in workers:
            worker.join(0.05)
