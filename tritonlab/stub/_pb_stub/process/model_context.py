"""The author's model inside the stub: it imports and constructs the model, and calls its methods in
the right phase.

Order and texts are those of section 2 of the rule book. Every method raises the error of the author's code, or
ModelFailure with Triton's text if the model broke a rule.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import linecache
import os
import sys
import threading
from importlib import machinery
from types import ModuleType
from typing import Any, Dict, List, Optional, Set

from ..api import own_threads
from ..api.bridge import Bridge
from ..api.signal_gate import run_authors
from .module_facts import file_of, search_path_of
from .needed_calls import AwaitedCoroutine
from .prints import print_error

#: Seconds for which a coroutine that blocks its loop may delay `finalize`.
_LOOP_END = 1.0


class ModelFailure(Exception):
    """A model's breach of Triton's rules; the text is Triton's."""


class ModelContext:
    """One author's model in this process."""

    def __init__(self, bridge: Bridge, backend_directory: str) -> None:
        self._bridge = bridge
        self._backend_directory = backend_directory
        self._module: Any = None
        self._model: Any = None
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._loop_thread: Optional[threading.Thread] = None
        self.model_path = ""

    def load(self, module: str, paths: List[str], model_path: str) -> None:
        """Import the model's module (`1.model`, or `model` of a Python-based backend) with Triton's sys.path (rules
        2.1.4, 2.1.5, 2.11.2). Raises ModelFailure if the file does not exist."""
        self._bridge.phase = "import"
        self.model_path = model_path
        sys.path.insert(0, "")  # Triton's embedded interpreter searches the working directory first
        sys.path.extend([*paths, self._backend_directory])
        # byte-code is never written into a model repository: a poller would take it for a change
        sys.dont_write_bytecode = True
        importlib.invalidate_caches()
        found = machinery.PathFinder.find_spec("triton_python_backend_utils", sys.path)
        if found is None or os.path.dirname(found.origin or "") != self._backend_directory:
            # a backend or a model may have its own module (rule 2.11.3), but a warm stub has imported the stub's
            sys.modules.pop("triton_python_backend_utils", None)
        if not os.path.exists(model_path):
            # rule 2.5.6: Triton logs this and reports an unhealthy stub some 10 s later
            raise ModelFailure("Python model file not found in '%s'" % model_path)
        known = set(sys.modules)
        run_authors(__import__, module)
        _warn_of_working_directory(set(sys.modules) - known)
        self._module = sys.modules[module]
        _keep_source(file_of(module) or model_path)
        utils = importlib.import_module("triton_python_backend_utils")
        for name in ("deserialize_bytes_tensor", "serialize_byte_tensor"):
            run_authors(getattr, utils, name)  # rule 2.1.9: the module may be the model's own
        compiled = importlib.import_module("c_python_backend_utils")
        compiled.attach(utils)  # not earlier: rule 1.1.2

    def completes_config(self) -> bool:
        """Return whether `auto_complete_config` may do anything: the model has such a method, or the call raises, for a
        module without a model, or one with a module `triton_python_backend_utils` of its own (rule 2.1.9)."""
        kind = vars(self._module).get("TritonPythonModel") if type(self._module) is ModuleType else None
        is_ours = os.path.dirname(file_of("triton_python_backend_utils")) == self._backend_directory
        return kind is None or not is_ours or _has(kind, "auto_complete_config")

    def auto_complete_config(self, config: str) -> Optional[str]:
        """Return the config JSON of the model's auto_complete_config for `config`; None without it (rule 2.4.1)."""
        self._bridge.phase = "auto_complete"
        kind, utils = self._module.TritonPythonModel, sys.modules["triton_python_backend_utils"]
        wrapper_kind = run_authors(getattr, utils, "ModelConfig")
        wrapper = run_authors(wrapper_kind, config)
        if not _has(kind, "auto_complete_config"):
            return None
        name = wrapper.as_dict().get("name", "")
        returned = run_authors(kind.auto_complete_config, wrapper)
        if not isinstance(returned, wrapper_kind):
            raise ModelFailure(
                "auto_complete_config function in model '%s' must return a valid pb.ModelConfig object." % name
            )
        return json.dumps(returned.as_dict())

    def initialize(self, args: Dict[str, str]) -> None:
        """Construct the model and call its `initialize`, if it has one (rule 2.3)."""
        self._bridge.phase = "construct"
        self._model = run_authors(self._module.TritonPythonModel)
        self._bridge.phase = "initialize"
        if _has(self._model, "initialize"):
            run_authors(self._model.initialize, args)
        self._bridge.phase = "execute"

    def execute(self, requests: List[Any]) -> Any:
        """Call the model's `execute` and return its result: a coroutine for an `async def execute`."""
        try:
            execute = self._model.execute
        except Exception:  # as in `_has`
            raise ModelFailure("Python model %s does not implement `execute` method." % self.model_path) from None
        return execute(requests)

    def run(self, coroutine: Any) -> AwaitedCoroutine:
        """Start the coroutine on the model's event loop, which lives in a daemon thread until finalize (rule 3.8)."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._loop_thread = own_threads.start("async execute", _run_forever, self._loop, runs_authors=True)
        assert self._loop_thread is not None
        return AwaitedCoroutine(coroutine, self._loop, self._loop_thread.ident or 0)

    @property
    def loop(self) -> Optional[asyncio.AbstractEventLoop]:
        """The model's event loop, once it exists."""
        return self._loop

    @property
    def loop_thread(self) -> int:
        """The ident of the thread of the event loop; 0 without one."""
        return 0 if self._loop_thread is None else self._loop_thread.ident or 0

    def is_ready(self) -> Optional[bool]:
        """Call the model's `is_ready`, plain or `async def`; None without one (rules 2.7.1, 2.7.2)."""
        if not _has(self._model, "is_ready"):
            return None
        value = self._model.is_ready()
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
        if type(value) is not bool:
            raise ModelFailure("is_ready() must return a boolean value")
        return value

    def finalize(self) -> None:
        """Stop the event loop, then call the model's `finalize`, if it has one (rule 2.8)."""
        self._bridge.phase = "finalize"
        if self._loop is not None and self._loop_thread is not None:
            # thread-safe: Triton calls stop() itself from this thread, and an idle loop does not notice (rule 2.8.3)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop_thread.join(_LOOP_END)
        if self._model is not None and _has(self._model, "finalize"):
            run_authors(self._model.finalize)


def _has(owner: Any, name: str) -> bool:
    """Return whether the author's object has the attribute, as pybind11 does: one that raises does not exist."""
    try:
        getattr(owner, name)
    except Exception:
        return False
    return True


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped. A SystemExit or KeyboardInterrupt of one coroutine goes to its awaiter, but
    asyncio also leaves the loop with it; Triton's loop then answers no more.
    """
    while True:
        try:
            loop.run_forever()
            return
        except (SystemExit, KeyboardInterrupt):
            pass


def _warn_of_working_directory(imported: Set[str]) -> None:
    """Warn of modules from the working directory: a deployed server has another one, and does not find them."""
    try:
        here = os.getcwd()
    except OSError:
        return  # it was removed
    for name in sorted(imported):
        if "." not in name and os.path.dirname([file_of(name), *search_path_of(name)][-1]) == here:
            print_error(
                "warning: '%s' was imported from the working directory %s, where a deployed server does not find it: "
                "put it beside model.py\n" % (name, here)
            )


def _keep_source(path: str) -> None:
    """Keep the imported source of the model, for stacks and tracebacks: this process may still run when the file has
    changed and is loaded again.
    """
    linecache.getlines(path)
    entry = linecache.cache.get(path)
    if entry is not None and len(entry) == 4:
        size, _, lines, name = entry
        linecache.cache[path] = (size, None, lines, name)  # without a time it is never checked
