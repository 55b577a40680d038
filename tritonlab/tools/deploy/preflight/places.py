"""P8, P10, P11, P13, P15 and P16: shared memory, files that should not be shipped, mode bits that storage may drop, and
names that Triton's stub does not support or confuses with others."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from ....core.config.model_config import ConfigError
from ....core.source.undefined_names import defined_names
from ....ipc.processes.interpreter import STUB
from ....ipc.processes.own_stub import NAME
from ....repository.layout import read_version
from ....repository.model_names import stub_fault
from ....repository.model_repository_manager import select_versions
from .. import left_out
from ..releases import Target
from ..secrets import secret_sentences
from .finding import Finding, Prediction
from .subject import Subject

#: The size in a container without --shm-size.
_DEFAULT_SHM = 64 << 20


def shared_memory(subject: Subject, target: Target) -> Iterator[Finding]:
    """P8: the model needs more shared memory than the default of a container, or than the target provides."""
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
    """P10: files that an export leaves out, and exported files that look like a secret."""
    missing = left_out.incomplete(subject.tree.left_out)
    for sentence in left_out.sentences(subject.tree.left_out):
        text, _, remedy = sentence.rpartition(": ")
        outcome = Prediction.LOAD if sentence in missing else Prediction.ATTENTION
        yield Finding("P10", text, remedy, outcome=outcome)
    for sentence, remedy, line in secret_sentences(subject.directory, subject.tree.files, subject.environment):
        yield Finding("P10", sentence, remedy, line)


def mode_bits(subject: Subject) -> Iterator[Finding]:
    """P11: programs that would lose their execute permission in object storage, and files that the server's user may
    not read."""
    paths = ((file, subject.directory / file) for file in subject.tree.files)
    if found := [file for file, path in paths if path.exists() and not path.stat().st_mode & stat.S_IROTH]:
        more, many = (f" and {len(found) - 1} more", True) if len(found) > 1 else ("", False)
        sentence = f"{found[0]}{more} may be read by {'their' if many else 'its'} owner only"
        remedy = "make it readable (chmod a+r): where models/ is mounted, a container's user, 1000, is another"
        yield Finding("P11", sentence, remedy.replace("it", "them", 1) if many else remedy)
    environment = subject.environment
    if subject.has_environment_directory:
        what = f"{environment}/bin/python"
        remedy = f"pack {environment} as a tar.gz, which keeps modes"
    elif subject.stub_python:
        what, remedy = NAME, "serve the model from a writable copy, where Triton sets the mode itself"
    else:
        return
    yield Finding("P11", f"{what} has to be executable, and object storage (S3, GCS, Azure) keeps no modes", remedy)


def name_of_the_model(subject: Subject) -> Iterator[Finding]:
    """P13: a model of the Python backend at a path from which its stub cannot start or import."""
    if subject.config.backend in ("python", "") and (fault := stub_fault(subject.name)):
        yield Finding("P13", f"its name '{subject.name}' {fault}", "rename it", outcome=Prediction.LOAD)


#: The module that Triton's stub imports by its name, and the names that it uses of it (rule 2.1.9).
_UTILS = "triton_python_backend_utils"
_TAKEN = ("deserialize_bytes_tensor", "serialize_byte_tensor", "ModelConfig")
#: The files that Python imports as the module, in order of preference.
_FORMS = (f"{_UTILS}/__init__.py", f"{_UTILS}.*.so", f"{_UTILS}.so", f"{_UTILS}.py")


def stray_directories(subject: Subject) -> Iterator[Finding]:
    """P15: directories that Triton reads as versions, because their names start with a number (rule 2.1.1)."""
    with os.scandir(subject.directory) as scanned:
        entries = sorted(scanned, key=lambda entry: entry.name)
    numbers: dict[str, int] = {}
    for entry in entries:
        try:
            number = read_version(entry)
        except ConfigError:
            text = f"its directory '{entry.name}' is a version of more than 64 bits, which ends Triton"
            yield Finding("P15", text, _RENAME, outcome=Prediction.LOAD)
        else:
            if number is not None:
                numbers[entry.name] = number
    there = sorted(set(numbers.values()))
    selected = select_versions(subject.config, there) if subject.config.HasField("version_policy") else there[-1:]
    for name, number in numbers.items():
        if number >= 0 and (subject.directory / str(number)).is_dir():
            continue
        text = f"its directory '{name}' is read as version {number}"
        if number in selected:
            text += ", which the version policy selects: 2.51 waits for ever, and newer ones fail the load"
            yield Finding("P15", text, _RENAME, outcome=Prediction.LOAD)
        else:
            yield Finding("P15", f"{text}, which the version policy does not select now", _RENAME)


_RENAME = "rename it to begin with a letter, or move it away"


def modules_of_the_stub(subject: Subject) -> Iterator[Finding]:
    """P16: modules of the model that replace modules of Triton's stub (rule 2.1.9)."""
    if subject.config.backend not in ("python", "") or subject.config.platform:
        return
    used = (_utils_of(subject.tree.files, version) for version in subject.versions)
    for file in dict.fromkeys(each for each in used if each):
        text, outcome = f"{file} takes the place of a module of Triton's stub", Prediction.ATTENTION
        source = next((each for each in subject.sources if each.path == str(subject.directory / file)), None)
        if source is not None and source.tree is None:
            text, outcome = f"{text}, which cannot read it as Python", Prediction.LOAD
        elif source is not None and (defined := defined_names(source)) is not None and "__getattr__" not in defined:
            missing = next((name for name in _TAKEN if name not in defined), "")
            if missing:
                text, outcome = f"{text}, which finds no {missing} in it", Prediction.LOAD
        yield Finding("P16", text, "delete or rename it", outcome=outcome)
    found = subject.modules.get(_UTILS, "")
    if found and not Path(found).is_relative_to(STUB.parent) and _UTILS not in subject.own_modules:
        text = f"it ran with {found} as triton_python_backend_utils, in the place of Triton's"
        yield Finding("P16", text, "delete or rename that file, and load the model again")


def _utils_of(files: Sequence[str], version: str) -> str:
    """Return the file of a model that a version imports instead of the stub's module; empty if there is none."""
    forms = (f"{folder}{form}" for folder in (f"{version}/", "") for form in _FORMS)
    return next((file for form in forms for file in files if fnmatchcase(file, form)), "")
