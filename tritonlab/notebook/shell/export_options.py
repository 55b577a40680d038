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
#: What comes after the name of the first model.
OPTIONS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (
        ("place",),
        {"nargs": "*", "metavar": "[NAME ...] DIR", "help": "more models, and last the repository (model_repository)"},
    ),
    (("--overwrite",), {"action": "store_true", "help": "replace what is there, keep a backup"}),
    (("--alone",), {"action": "store_true", "help": "without the models that its steps or its BLS calls name"}),
    (("--zip",), {"action": "store_true", "help": "also pack it, beside the repository"}),
    (("--dry-run",), {"action": "store_true", "help": "write nothing, show what would be written"}),
    TARGET,
    (("--capture",), {"action": "store_true", "help": "write what other cells define in front of the model"}),
    (
        ("--artifact",),
        {"action": "append", "default": [], "metavar": "FILE=EXPR", "help": "keep a value as a file beside model.py"},
    ),
    (("--include",), {"action": "append", "default": [], "metavar": "NAME", "help": _INCLUDE}),
    (
        ("--env",),
        {"default": "none", "help": "requirements (a lock), dir or archive (relocatable), or the path of a prefix"},
    ),
    (
        ("--env-python",),
        {"default": "", "metavar": "VERSION", "help": "the Python of --env, as 3.12 (this one's; the image's)"},
    ),
    (("--env-budget",), {"type": int, "metavar": "MB", "help": "refuse an environment that is larger"}),
    (
        ("--deploy",),
        {"default": "", "metavar": "KINDS", "help": "files beside models/ that deploy it: docker,k8s,kserve,ray"},
    ),
    (
        ("--verify",),
        {"nargs": "?", "const": True, "help": "prove it on real releases of Triton: --verify=2.51,2.41 (the target)"},
    ),
)
