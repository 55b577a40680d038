"""The options of `%triton export`; what they do is imported when it is run, with gRPC and all that verifies."""

from __future__ import annotations

from typing import Any

from ...export.preflight.judge import DEFAULT_TARGET

#: The option of the commands that judge by a release.
TARGET = (
    ("--target",),
    {
        "default": DEFAULT_TARGET,
        "metavar": "RELEASE",
        "help": "where it is to run: 2.49, 24.08, kserve, dynamo or ray (2.51)",
    },
)
_INCLUDE = "a file or pattern that is otherwise left out: hidden, or larger than 100 MB"
#: The options after the name of the model and the directory.
OPTIONS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("--overwrite",), {"action": "store_true", "help": "replace what is there, keep a backup"}),
    (("--alone",), {"action": "store_true", "help": "without the models that its steps or its BLS calls name"}),
    (("--zip",), {"action": "store_true", "help": "also pack it, beside the repository"}),
    TARGET,
    (("--capture",), {"action": "store_true", "help": "write what other cells define in front of the model"}),
    (("--include",), {"action": "append", "default": [], "metavar": "NAME", "help": _INCLUDE}),
    (
        ("--env",),
        {"default": "none", "help": "requirements (a lock), dir or archive (relocatable), or the path of a prefix"},
    ),
    (
        ("--deploy",),
        {"default": "", "metavar": "KINDS", "help": "files beside models/ that deploy it: docker,k8s,kserve,ray"},
    ),
    (
        ("--verify",),
        {"nargs": "?", "const": DEFAULT_TARGET, "help": "prove it on real releases of Triton: --verify=2.51,2.41"},
    ),
)
