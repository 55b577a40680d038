"""The choice of the code that runs a model: the Python backend, or a Python-based backend, which is one
model.py for many models (section 2.11 of the rule book).

Some Python-based backends come with this package, in `tritonlab/backends/`: replacements for Triton's compiled
libraries, and backends that answer in place of a missing one (sections 2.13 to 2.17).
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

from ...core.config.model_config import ModelConfig
from ...core.status import Code, InternalError, InvalidArgumentError, ModelError, TritonError, UnsupportedError
from ...engine.life.model_stub import ModelSource
from ...ipc.processes.execution_env import PARAMETER as ENVIRONMENT
from ...ipc.processes.execution_env import ExecutionEnvironments
from ...ipc.processes.interpreter import Interpreter, InterpreterError, of_environment
from ...ipc.processes.own_stub import NAME as STUB_NAME
from ...ipc.processes.own_stub import find_own_stub, python_of_compiled
from ...ipc.processes.stub_launcher import KERNEL
from ...ipc.processes.stub_log import LogBook, LogRecord
from .backend_choice import PARAMETER, BackendChoices, Use, choice_words, offer
from .backend_config import WrittenConfig, settings_of

#: Triton's default of --backend-directory.
DEFAULT_DIRECTORY = Path("/opt/tritonserver/backends")
#: The backends that come with this package.
SHIPPED = Path(__file__).resolve().parents[2] / "backends"
#: The modules imported by several of them.
_SHARED = SHIPPED / "shared"
#: The variable in which they find the settings of `--backend-config`, as JSON.
_SETTINGS = "TRITONLAB_BACKEND_CONFIG"

#: The backends that Triton has as compiled libraries: the module that each needs, and the extra that installs it.
_REAL: dict[str, tuple[str, str]] = {
    "onnxruntime": ("onnxruntime", "onnx"),
    "pytorch": ("torch", "torch"),
    "openvino": ("openvino", "openvino"),
    "identity": ("numpy", ""),
    "repeat": ("numpy", ""),
    "square": ("numpy", ""),
}
#: The packed environment of a Python-based backend, in its directory.
PACKED_ENVIRONMENT = "pb_exec_env_model.py.tar.gz"
#: The programs that run the models of a backend, in people's words.
_ENGINES = {"onnxruntime": "ONNX Runtime", "pytorch": "PyTorch", "openvino": "OpenVINO"}
#: The directories of the backends that answer in place of another.
_INSTEAD = {Use.BORROW: "elsewhere", Use.RECORDED: "elsewhere", Use.STAND_IN: "stand_in"}

_PYTHON = "python"
_MODEL_FILE = "model.py"
_UTILS = "triton_python_backend_utils.py"
_CPU_ONLY = "FORCE_CPU_ONLY_INPUT_TENSORS"


class MissingBackend(InvalidArgumentError):
    """A model whose backend is missing here. The text is Triton's; `offer` lists the possible replacements."""

    def __init__(self, message: str, offer: str) -> None:
        super().__init__(message)
        self.offer = offer


class Backends:
    """The code and the interpreters of models. `directory` has one directory per backend; the Python backend itself is
    this package and needs none. `log` gets reports on environments. `choices` has the chosen replacements of backends.
    `config`: the settings of `--backend-config`.
    """

    def __init__(
        self,
        directory: str | Path | None = None,
        log: LogBook | None = None,
        choices: BackendChoices | None = None,
        config: WrittenConfig | None = None,
    ) -> None:
        self.directory = DEFAULT_DIRECTORY if directory is None else Path(directory)
        self.choices = choices or BackendChoices()
        self._config = config or {}
        self._environments = ExecutionEnvironments()
        self._log = log

    def resolve(
        self,
        config: ModelConfig,
        directory: Path,
        version: int,
        check: Callable[[ModelConfig], None] = lambda config: None,
    ) -> tuple[ModelConfig, ModelSource]:
        """Return the configuration with the backend's additions, and the place of the model's code.

        `directory`: the model's. `check` is called once the backend is found, before the search for the environment; it
        may raise. Raises TritonError, with Triton's text if there is one: no such backend (rules 2.5.7, 2.11.4), an
        invalid parameter (rule 2.12.1), an unusable environment (rule 2.10.3).
        """
        filled = ModelConfig()
        filled.CopyFrom(config)
        choice = self.choices.find(config.name, config.backend, directory.parent)
        if choice is not None and choice.use is not Use.REAL:
            filled.parameters[PARAMETER].string_value = choice.parameter
            _fit_for_this_machine(filled, choice.use)
            check(filled)
            instead = SHIPPED / _INSTEAD[choice.use]
            return filled, self._based_source(filled, directory, version=version, interpreter=KERNEL, home=instead)
        home = self._home(filled, directory, version)
        check(filled)
        if home is not None and ENVIRONMENT not in filled.parameters and (home / PACKED_ENVIRONMENT).exists():
            filled.parameters[ENVIRONMENT].string_value = str(home / PACKED_ENVIRONMENT)
        force_cpu_only(filled)
        try:
            interpreter = self._interpreter(filled, directory, version, home)
        except InterpreterError as error:
            raise ModelError(str(error)) from error
        if home is None:
            return filled, _source(filled, directory, version, interpreter)
        return filled, self._based_source(filled, directory, version=version, interpreter=interpreter, home=home)

    def _home(self, config: ModelConfig, directory: Path, version: int) -> Path | None:
        """Return the directory of the Python-based backend, None for the Python backend, and fill in the runtime."""
        home = self.directory / str(config.backend)
        searched = (directory / str(version), directory, home)
        if _is_shipped(config) and not os.path.exists(home / _MODEL_FILE):
            module, extra = _REAL[config.backend]
            if importlib.util.find_spec(module) is None:
                raise _missing(config, f"pip install 'tritonlab[{extra}]' runs it here. ")
            return SHIPPED / str(config.backend)
        if not config.runtime:
            if config.backend == _PYTHON:
                return None
            _refuse_library(config, f"libtriton_{config.backend}.so", searched)
            if not os.path.exists(home / _MODEL_FILE):
                raise _missing(config, "")
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
                self._log.add(LogRecord.from_server(level, text, config.name, version))

        environment = None
        if ENVIRONMENT in config.parameters:
            environment = self._environments.find(config.parameters[ENVIRONMENT].string_value, directory, say)
        own = find_own_stub(directory, config.name)
        if own is None and home is not None and (home / _UTILS).exists() and (home / STUB_NAME).exists():
            own = find_own_stub(home, config.name)  # only as a pair: rule 2.11.3
        if own is not None:
            return Interpreter(own, str(environment or ""))
        compiled = directory / STUB_NAME
        if compiled.exists():
            built_for = python_of_compiled(compiled)
            what = f"compiled for Triton and Python {built_for}" if built_for else "compiled for Triton"
            say("INFO", f"{compiled} is {what}; it is kept, and tritonlab's stub runs the model")
        return of_environment(environment) if environment is not None else KERNEL

    def _based_source(
        self, config: ModelConfig, directory: Path, *, version: int, interpreter: Interpreter, home: Path
    ) -> ModelSource:
        """Return the source with the backend's code and the model's directory (rule 2.11.2)."""
        is_shipped = home.is_relative_to(SHIPPED)
        settings = settings_of(self._config, config.backend) if is_shipped else {}
        return ModelSource(
            model=config.name,
            version=version,
            module=_MODEL_FILE.removesuffix(".py"),
            path=os.path.abspath(home / _MODEL_FILE),
            paths=(str(home), str(_SHARED)) if is_shipped else (str(home),),
            model_dir=str(directory / str(version)),
            interpreter=interpreter,
            variables={_SETTINGS: json.dumps(settings)} if settings else {},
        )

    def close(self) -> None:
        """Release the environments; called after the last model has ended."""
        self._environments.close()


def in_own_words(source: ModelSource, error: ModelError) -> TritonError:
    """Return the load error of a backend of this package in the form of a compiled backend: with the code and text from
    its model.py, without Python's traceback. Return other errors unchanged.
    """
    if not Path(source.path).is_relative_to(SHIPPED):
        return error
    found = _OWN_WORDS.match(error.message)
    if found is None:
        return error
    code = next(each for each in Code if each.text == found["code"])
    return ModelError(found["text"], code=code, log=error.log)


#: `BackendError` of such a model.py in the text of a failed load (rule 2.5.2).
_OWN_WORDS = re.compile(
    rf"BackendError: (?P<code>{'|'.join(code.text for code in Code)}): (?P<text>.*?)\n\nAt:\n", re.DOTALL
)


def runs_shipped(config: ModelConfig) -> bool:
    """Return whether code of this package answers for the model of a served config."""
    return PARAMETER in config.parameters or _is_shipped(config)


def answer_words(config: ModelConfig) -> str:
    """Return a model's source of answers in plain words; "" for a Python model or an ensemble."""
    if PARAMETER in config.parameters:
        return choice_words(config)
    if not _is_shipped(config):
        return ""
    return f"real: the model itself, run by {_ENGINES.get(config.backend, 'tritonlab')} here"


def _is_shipped(config: ModelConfig) -> bool:
    """Return whether this package has the backend. A model with its own `runtime` uses that file."""
    return config.backend in _REAL and config.runtime in ("", f"libtriton_{config.backend}.so")


def _missing(config: ModelConfig, remedy: str) -> MissingBackend:
    text = (
        f"unable to find backend library for backend '{config.backend}', "
        "try specifying runtime on the model configuration."
    )
    return MissingBackend(text, remedy + offer(config.name, config.backend))


def _fit_for_this_machine(config: ModelConfig, use: Use) -> None:
    """Remove fields from a config that are for the backend that does not run here: its file, its devices and its
    tuning. A running server also batches, keeps sequences and caches by itself.
    """
    config.ClearField("runtime")
    config.ClearField("model_warmup")
    config.ClearField("optimization")
    count = sum(max(group.count, 1) for group in config.instance_group) or 1
    config.ClearField("instance_group")
    config.instance_group.add(kind="KIND_CPU", count=count if use is Use.STAND_IN else 1)
    if use is not Use.STAND_IN:
        for batching in ("dynamic_batching", "sequence_batching", "response_cache", "batch_input", "batch_output"):
            config.ClearField(batching)
        for tensor in (*config.input, *config.output):  # its client's shapes go to the server, not the model's
            tensor.ClearField("reshape")


def force_cpu_only(config: ModelConfig) -> bool:
    """Return whether inputs are always delivered in CPU memory (rule 2.12.1). Raises UnsupportedError."""
    value = config.parameters[_CPU_ONLY].string_value if _CPU_ONLY in config.parameters else "yes"
    if value not in ("yes", "no"):
        raise UnsupportedError(f"Incorrect value for {_CPU_ONLY}: {value}'")
    return bool(value == "yes")


def _refuse_library(config: ModelConfig, library: str, searched: tuple[Path, ...]) -> None:
    """Refuse a compiled backend, which precedes a model.py (rule 2.11.5): Triton would load it; tritonlab cannot."""
    for directory in searched:
        path = directory / library
        if not os.path.exists(path):  # nor is a name that is too long
            continue
        if not Path(os.path.normpath(path)).is_relative_to(os.path.normpath(directory)):
            raise InvalidArgumentError(
                f"backend library name '{library}' escapes backend directory '{directory}', for model '{config.name}', "
                "check model config runtime field"
            )
        raise UnsupportedError(
            f"model '{config.name}' is run by the compiled backend '{path}'; tritonlab runs the Python backend and "
            "Python-based backends only"
        )


def _source(config: ModelConfig, directory: Path, version: int, interpreter: Interpreter) -> ModelSource:
    """Return the place of a model's code (rules 2.1.2, 2.1.4, 2.1.5). If a default_model_filename has directories,
    then, as on Triton, the file's own directory is the version directory for the stub.
    """
    name = config.default_model_filename
    if not name.endswith(".py"):
        # Triton's text, for more names than in Triton, which looks only at the last letter and fails at the import
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
