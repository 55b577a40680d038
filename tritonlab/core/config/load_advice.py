"""What to do about a load that failed, where the reason is enough to decide it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any

from .model_config import ModelConfig

_NO_FIELD = re.compile(r'Message type "[\w.]*?(\w+)" (?:has no field named|should not have multiple) "(\w+)"')
_NO_ENUM = re.compile(r'Enum type "[\w.]*?(\w+)" has no value named (\w+)')
_UNFILLED = re.compile(r"; not filled in: (\$\{[^}]*\}(?:, \$\{[^}]*\})*)")
#: A place in a config.pbtxt, as the reason of a failed poll names it.
_CONFIG_PLACE = re.compile(r"from (?P<file>\S+\.pbtxt) \((?P<line>\d+):\d+")
_SIMULATE = (
    "on a machine without a GPU such a model loads where GPUs are simulated: tritonlab.reset(simulated_gpus=1), "
    "Options(simulated_gpus=1), tritonlab serve --simulated-gpus=1"
)
_ANY_DEVICE = "leave kind out of its instance_group, which then takes GPUs where there are some and the CPU here"
_MAKE_ENVIRONMENT = (
    "EXECUTION_ENV_PATH is a directory of an environment, or what conda-pack made of one, on the machine that serves: "
    "put it into the model's directory and write $$TRITON_MODEL_DIRECTORY/<its name>, or leave the parameter out, and "
    "the model runs in the Python of the server"
)
#: The packages of modules that have another name, as NVIDIA's examples import them.
_PACKAGES = {"cv2": "opencv-python-headless", "PIL": "pillow", "sklearn": "scikit-learn", "yaml": "pyyaml"}
_ADVICE = (
    (re.compile(r"must specify 'dims'"), "give it dims in config.pbtxt: dims: [ -1 ] is one dimension of any size"),
    (re.compile(r"must specify 'data_type'"), "give it a data_type in config.pbtxt, such as TYPE_FP32"),
    (
        re.compile(r"preferred (?:batch )?size must be <= max batch size"),
        "raise max_batch_size to the largest preferred size; where it is 0, as without it, the model does not batch",
    ),
    (
        re.compile(r"No module named '(\w+)"),
        "install {package} in the Python that runs the model, or put {0}.py beside model.py",
    ),
    (
        re.compile(r"unexpected directory name '.*?' for model '(.*?)'"),
        "call the directory '{0}', or leave the name out of config.pbtxt",
    ),
    (
        re.compile(r"Could not determine backend for model '.*?' with no backend"),
        "write model.py into its directory 1, or say in its config.pbtxt what runs the files that are there: backend: "
        '"vllm"',
    ),
    (
        re.compile(r"PytorchStreamReader failed locating file constants\.pkl"),
        'the file is not TorchScript but what torch.save has written: torch.jit.script(module).save("model.pt") writes '
        "that",
    ),
    (
        re.compile(r"onnx runtime error 7: .*Protobuf parsing failed"),
        "the file is not an ONNX model; if it is a pointer of Git LFS, git lfs pull puts the model in its place",
    ),
    (
        re.compile(r"at least one version must be available under the version policy of model '(?:.*::)?(.*?)'"),
        "make its version directory, mkdir {0}/1, also for a stand-in and what is borrowed (git keeps no empty "
        "directories), or let the version_policy of its config select one that is there",
    ),
    (re.compile(r"has kind KIND_GPU but no GPUs are available"), f"{_ANY_DEVICE}; or keep it: {_SIMULATE}"),
    (re.compile(r"invalid or unsupported gpu id \d+\..* are: (?:;|$)"), _SIMULATE),
    (re.compile(r"Failed to get the canonical path for .*\."), _MAKE_ENVIRONMENT),
    (
        re.compile(r"The Python environment should contain an 'activate' script|archive_read_open_filename\(\) failed"),
        _MAKE_ENVIRONMENT,
    ),
    (re.compile(r"has kind KIND_(?:CPU|MODEL) but specifies one or more GPUs"), f"leave gpus out; {_SIMULATE}"),
    (re.compile(r"the load was stopped"), "load it again"),
    (re.compile(r"appears in two or more repositories"), "remove one of them, or serve with model_namespacing"),
)

#: What is looked for in the reason of a failed load, in this order.
LOAD_PATTERNS = (*(pattern for pattern, _ in _ADVICE), _UNFILLED, _NO_FIELD, _NO_ENUM)


def load_advice(reason: str) -> str:
    """Return what to do about a load that failed for this reason; empty if unknown."""
    for pattern, advice in _ADVICE:
        if found := pattern.search(reason):
            groups = found.groups()
            return advice.format(*groups, package=_PACKAGES.get(groups[0], groups[0]) if groups else "")
    return config_advice(reason)


def config_place(reason: str) -> str:
    """Return the line of a config.pbtxt in the reason, as Python writes a place; empty if there is none."""
    found = _CONFIG_PLACE.search(reason)
    return f'File "{found["file"]}", line {found["line"]}' if found else ""


def config_advice(complaint: str) -> str:
    """Return what to write instead of a misspelt field or enum value of a config, or of a template's placeholders."""
    if found := _UNFILLED.search(complaint):
        return f"The config is a template: write values for {found[1]}, or run the script that fills it in"
    if found := _NO_FIELD.search(complaint):
        kinds = [m for m in _messages() if m.name == found[1]]
        names = [field.name for kind in kinds for field in kind.fields]
    elif found := _NO_ENUM.search(complaint):
        file = ModelConfig.DESCRIPTOR.file
        enums = [*file.enum_types_by_name.values(), *(e for m in _messages() for e in m.enum_types)]
        names = [value.name for enum in enums if enum.name == found[1] for value in enum.values]
    else:
        return ""
    word = found[2]
    if word in names:
        return ""  # a known name, used twice
    close = [name for name in names if name.endswith(f"_{word}")] or difflib.get_close_matches(word, names, n=2)
    return f"Did you mean {' or '.join(close)}?" if close else ""


def _messages() -> Iterator[Any]:
    """Yield every message type of model_config.proto, nested ones too."""
    pending = list(ModelConfig.DESCRIPTOR.file.message_types_by_name.values())
    while pending:
        message = pending.pop()
        yield message
        pending.extend(message.nested_types)
