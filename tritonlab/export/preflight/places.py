"""P8, P10 and P11: shared memory, files that nobody wants to ship, and mode bits that storage may drop."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from ...ipc.processes.own_stub import NAME
from .. import left_out
from ..releases import Target
from .finding import Finding, Prediction
from .subject import Subject

#: What a container has without --shm-size.
_DEFAULT_SHM = 64 << 20
_SECRETS = ("*.pem", "*.key", "id_rsa*", "id_ed25519*", "*credentials*.json", "*.p12", "*.pfx", "*secret*.json")


def shared_memory(subject: Subject, target: Target) -> Iterator[Finding]:
    """P8: the model needs more shared memory than a container has by default, or than the target gives."""
    limit = target.shm_bytes or _DEFAULT_SHM
    if subject.shm_bytes <= limit:
        return
    needed, text = f"{subject.shm_bytes >> 20} MB", f"{limit >> 20} MB"
    if target.shm_bytes is not None:
        yield Finding(
            "P8",
            f"it took {needed} of shared memory here, and {target.about} gives {text}",
            "mount a memory-backed emptyDir at /dev/shm, twice as large",
            outcome=Prediction.LOAD,
        )
    else:
        yield Finding(
            "P8",
            f"it took {needed} of shared memory here, and a container has {text} unless it is given more",
            f"start it with --shm-size={2 * subject.shm_bytes >> 20}m, in Kubernetes with an emptyDir of medium Memory",
        )


def secrets_and_clutter(subject: Subject) -> Iterator[Finding]:
    """P10: what an export leaves out, and what it takes although it looks like a secret."""
    missing = left_out.incomplete(subject.tree.left_out)
    for sentence in left_out.sentences(subject.tree.left_out):
        text, _, remedy = sentence.rpartition(": ")
        outcome = Prediction.LOAD if sentence in missing else Prediction.ATTENTION
        yield Finding("P10", text, remedy, outcome=outcome)
    found = [file for file in subject.tree.files if _is_secret(file, subject.environment)]
    if found:
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield Finding(
            "P10",
            f"{found[0]}{more} looks like a secret and would be exported",
            "take it out of the model's directory, and mount it where the model runs",
            str(subject.directory / found[0]),
        )


def _is_secret(file: str, environment: str) -> bool:
    if environment and file.startswith(environment + "/"):
        return False  # certificates of libraries
    return any(fnmatchcase(file.rpartition("/")[2].lower(), pattern) for pattern in _SECRETS)


def mode_bits(subject: Subject) -> Iterator[Finding]:
    """P11: programs that object storage would bring without the right to execute them."""
    environment = subject.environment
    if subject.has_environment_directory:
        what = f"{environment}/bin/python"
        remedy = f"pack {environment} as a tar.gz, which keeps modes"
    elif subject.stub_python:
        what, remedy = NAME, "serve the model from a writable copy, where Triton sets the mode itself"
    else:
        return
    yield Finding("P11", f"{what} has to be executable, and object storage (S3, GCS, Azure) keeps no modes", remedy)
