"""The choice of the code that runs a model: the Python backend, or a Python-based backend, which is one
model.py for many models (section 2.11 of the rule book)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from ...core.config.model_config import ModelConfig
from ...core.status import InternalError, InvalidArgumentError, ModelError, UnsupportedError
from ...instances.life.model_stub import ModelSource
from ...ipc.processes.execution_env import PARAMETER as ENVIRONMENT
from ...ipc.processes.execution_env import ExecutionEnvironments
from ...ipc.processes.interpreter import Interpreter, InterpreterError, of_environment
from ...ipc.processes.own_stub import NAME as STUB_NAME
from ...ipc.processes.own_stub import find_own_stub
from ...ipc.processes.stub_launcher import KERNEL
from ...ipc.processes.stub_log import LogBook, LogRecord

#: Triton's default of --backend-directory.
DEFAULT_DIRECTORY = Path("/opt/tritonserver/backends")

_PYTHON = "python"
_MODEL_FILE = "model.py"
_PACKED_ENVIRONMENT = "pb_exec_env_model.py.tar.gz"
_UTILS = "triton_python_backend_utils.py"
_CPU_ONLY = "FORCE_CPU_ONLY_INPUT_TENSORS"


class Backends:
    """The code and the interpreters of models. `directory` holds one directory per backend; the Python backend
    itself is this package and needs none there. `log` gets what is to report of environments."""

    def __init__(self, directory: str | Path | None = None, log: LogBook | None = None) -> None:
        self.directory = DEFAULT_DIRECTORY if directory is None else Path(directory)
        self._environments = ExecutionEnvironments()
        self._log = log

    def resolve(
        self,
        config: ModelConfig,
        directory: Path,
        version: int,
        check: Callable[[ModelConfig], None] = lambda config: None,
    ) -> tuple[ModelConfig, ModelSource]:
        """Return the configuration with what the backend adds to it, and where the model's code is.

        `directory`: the model's. `check` is called when the backend is found, before the environment is looked for;
        it may raise. Raises TritonError with Triton's text where it has one: no such backend (rules 2.5.7,
        2.11.4), a wrong parameter (rule 2.12.1), an environment that cannot be used (rule 2.10.3).
        """
        filled = ModelConfig()
        filled.CopyFrom(config)
        home = self._home(filled, directory, version)
        check(filled)
        if home is not None and ENVIRONMENT not in filled.parameters and (home / _PACKED_ENVIRONMENT).exists():
            filled.parameters[ENVIRONMENT].string_value = str(home / _PACKED_ENVIRONMENT)
        force_cpu_only(filled)
        try:
            interpreter = self._interpreter(filled, directory, version, home)
        except InterpreterError as error:
            raise ModelError(str(error)) from error
        if home is None:
            return filled, _source(filled, directory, version, interpreter)
        return filled, _based_source(filled, directory, version, interpreter, home)

    def _home(self, config: ModelConfig, directory: Path, version: int) -> Path | None:
        """Return the directory of the Python-based backend, None for the Python backend, and fills in the runtime."""
        home = self.directory / str(config.backend)
        searched = (directory / str(version), directory, home)
        if not config.runtime:
            if config.backend == _PYTHON:
                return None
            _refuse_library(config, f"libtriton_{config.backend}.so", searched)
            if not os.path.exists(home / _MODEL_FILE):
                raise InvalidArgumentError(
                    f"unable to find backend library for backend '{config.backend}', "
                    "try specifying runtime on the model configuration."
                )
            config.runtime = _MODEL_FILE
        if config.runtime == _MODEL_FILE:
            if not os.path.exists(home / _MODEL_FILE):
                raise InvalidArgumentError(
                    f"unable to find Python backend based backend library '{_MODEL_FILE}' for model '{config.name}', "
                    f"searched: '{home / _MODEL_FILE}'"
                )
            return home
        if (config.backend, config.runtime) == (_PYTHON, "libtriton_python.so"):
            return None
        _refuse_library(config, config.runtime, searched)
        places = "".join(f"'{place}' " for place in searched)
        raise InvalidArgumentError(
            f"unable to find backend library '{config.runtime}' for model '{config.name}', searched: {places}"
        )

    def _interpreter(self, config: ModelConfig, directory: Path, version: int, home: Path | None) -> Interpreter:
        def say(level: str, text: str) -> None:
            if self._log is not None:
                self._log.add(
                    LogRecord(
                        time_ns=time.time_ns(),
                        model=config.name,
                        version=version,
                        instance="",
                        stream="server",
                        level=level,
                        text=text,
                    )
                )

        environment = None
        if ENVIRONMENT in config.parameters:
            environment = self._environments.find(config.parameters[ENVIRONMENT].string_value, directory, say)
        own = find_own_stub(directory, config.name)
        if own is None and home is not None and (home / _UTILS).exists() and (home / STUB_NAME).exists():
            own = find_own_stub(home, config.name)  # only as a pair: rule 2.11.3
        if own is not None:
            return Interpreter(own, str(environment or ""))
        return of_environment(environment) if environment is not None else KERNEL

    def close(self) -> None:
        """Release what it holds; called after the last model has ended."""
        self._environments.close()


def force_cpu_only(config: ModelConfig) -> bool:
    """Return whether inputs are delivered in CPU memory whatever the client sent (rule 2.12.1). Raises
    UnsupportedError.
    """
    value = config.parameters[_CPU_ONLY].string_value if _CPU_ONLY in config.parameters else "yes"
    if value not in ("yes", "no"):
        raise UnsupportedError(f"Incorrect value for {_CPU_ONLY}: {value}'")
    return bool(value == "yes")


def _refuse_library(config: ModelConfig, library: str, searched: tuple[Path, ...]) -> None:
    """Refuse a compiled backend, which is found before a model.py (rule 2.11.5): Triton would load it, but nothing
    here can.
    """
    for place in searched:
        path = place / library
        if not os.path.exists(path):  # nor is a name that is too long
            continue
        if not Path(os.path.normpath(path)).is_relative_to(os.path.normpath(place)):
            raise InvalidArgumentError(
                f"backend library name '{library}' escapes backend directory '{place}', for model '{config.name}', "
                "check model config runtime field"
            )
        raise UnsupportedError(
            f"model '{config.name}' is run by the compiled backend '{path}'; tritonlab runs the Python backend and "
            "Python-based backends only"
        )


def _source(config: ModelConfig, directory: Path, version: int, interpreter: Interpreter) -> ModelSource:
    """Return where a model's code is (rules 2.1.2, 2.1.4, 2.1.5). A default_model_filename may have directories; then
    they count as Triton counts: what is above the file is the version directory to the stub.
    """
    name = config.default_model_filename
    if not name.endswith(".py"):
        # Triton's text, for more names than Triton: it looks at the last letter only, and fails at the import
        raise InternalError(f"Model name must end with '.py'. Model name is \"{name}\".")
    file = directory / str(version) / name
    return ModelSource(
        model=config.name,
        version=version,
        module=f"{file.parent.name}.{file.name.removesuffix('.py')}",
        path=os.path.abspath(file),
        paths=(str(file.parent), str(file.parent.parent)),
        model_dir=str(file.parent),
        interpreter=interpreter,
    )


def _based_source(
    config: ModelConfig, directory: Path, version: int, interpreter: Interpreter, home: Path
) -> ModelSource:
    """Return the source that has the backend's code and the model's directory (rule 2.11.2)."""
    return ModelSource(
        model=config.name,
        version=version,
        module=_MODEL_FILE.removesuffix(".py"),
        path=os.path.abspath(home / _MODEL_FILE),
        paths=(str(home),),
        model_dir=str(directory / str(version)),
        interpreter=interpreter,
    )
