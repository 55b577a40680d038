"""The new directory of one model: its parts, and how it is written."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...core.config.completed_text import CompletedText, completed_text
from ...core.config.model_config import ModelConfig, config_bytes, messages, parse_pbtxt, read_config_text, with_only
from ...core.config.model_config_rules import autofill, normalize_instance_groups
from ...repository.layout import CONFIG_FILE
from ...repository.model_tree import KEEPS
from ...server.api.model import Model
from ...server.models.backend_choice import choice_words
from . import left_out
from .left_out import check_deployable, forget_backend_directory, never_ran, starts_our_stub, warnings
from .own_backends import OwnBackend, find_own_backend
from .preflight.finding import Prediction, Preflight
from .preflight.judge import subject_of
from .preflight.relocatable import is_machine_path
from .preflight.subject import Subject
from .secrets import secret_sentences


@dataclass(frozen=True)
class ModelBuild:
    """One model to be exported, in the form that pre-flight checks. `backend`: the Python-based backend
    that is exported with it; `absent`: sentences about the needed models that the export lacks."""

    model: Model
    subject: Subject
    backend: OwnBackend | None = None
    absent: Sequence[str] = ()

    @classmethod
    def of(cls, model: Model, include: Sequence[str]) -> ModelBuild:
        subject = subject_of(model, include)
        if answers := choice_words(subject.config):
            check_deployable(model.name, answers, subject.tree.files)
        backend = find_own_backend(model.name, subject.config, model.server.core.options.backend_directory, include)
        return cls(model, subject, backend)

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def incomplete(self) -> tuple[str, ...]:
        """The parts of the model that must be copied before it can be deployed."""
        backend = self.backend.tree.left_out if self.backend is not None else []
        return tuple(left_out.incomplete([*self.subject.tree.left_out, *backend]))

    @property
    def _is_kept(self) -> bool:
        return self.model.server.core.repository.is_kept(self.model.name)

    @property
    def _not_copied(self) -> set[str]:
        """The files of the model that the export has in another form, or not at all."""
        if self._is_kept:
            return set()
        return {CONFIG_FILE, *starts_our_stub(self.subject.directory, self.subject.tree.files)}

    def copied_size(self) -> int:
        """Return the bytes of the files that `write` copies."""
        return self.subject.tree.size(besides=self._not_copied)

    def write(self, new: Path, copied: Callable[[str, int], object]) -> tuple[str, ...]:
        """Write the model to `new` and return warnings. Repository models are written unchanged."""
        source, tree = self.subject.directory, self.subject.tree
        new.mkdir(parents=True)
        tree.copy(new, besides=self._not_copied, copied=copied)
        served = self.subject.config
        if self._is_kept:
            found = (*warnings(served, source, ()), *never_ran(choice_words(served)))
            return (*found, *self._about_files())
        files, authored = tree.files, source / CONFIG_FILE
        for version in self.model.metadata()["versions"]:
            (new / version).mkdir(exist_ok=True)
            if not any((new / version).iterdir()):  # an ensemble's is empty, but must exist
                (new / version / KEEPS).touch()
        text = read_config_text(authored)
        written = parse_pbtxt(text, str(authored))
        answers = choice_words(served)
        config = deployable_config(written if answers else served, written, files=files)
        completed = completed_text(text, config)
        (new / CONFIG_FILE).write_bytes(config_bytes(completed.text))
        if authored.is_file():
            shutil.copymode(authored, new / CONFIG_FILE)
        found = (*warnings(config, source, files), *_rewritten(text, completed))
        return (*found, *never_ran(answers), *self._about_files())

    def _about_files(self) -> Iterator[str]:
        """Yield sentences about files that are left out, and about exported files that look like a secret."""
        yield from left_out.sentences(self.subject.tree.left_out)
        subject = self.subject
        for sentence, remedy, _ in secret_sentences(subject.directory, subject.tree.files, subject.environment):
            yield f"{sentence}: {remedy}"


def stops(preflight: Preflight) -> Iterator[str]:
    """Yield the findings of pre-flight that make the model fail or answer differently at the target."""
    for finding in preflight.findings:
        if finding.outcome is not Prediction.ATTENTION and not is_machine_path(finding):  # warned of already
            yield str(finding)


def _rewritten(text: str, completed: CompletedText) -> Iterator[str]:
    """Yield a warning if the author's text was not kept."""
    if text.strip() and completed.printed_for:
        fields = " and ".join(completed.printed_for)
        lost = " without its comments" if "#" in text else ""
        yield f"its {CONFIG_FILE} was rewritten{lost}: {fields} had to be completed in place"


def deployable_config(served: ModelConfig, authored: ModelConfig, *, files: Collection[str]) -> ModelConfig:
    """Return `served`, the config as this server normalised it, in a form for another machine.

    `authored` is the author's own. Every input, output, instance group, batcher, policy and parameter stays. Left out,
    unless the author wrote it, is anything that a server fills in again by itself (rules 2.11.1, 5.1.1, 5.1.3, 5.1.4),
    and anything that describes this machine: whether instances run on the CPU or on a GPU, and the numbers of its GPUs.
    """
    config = ModelConfig()
    config.CopyFrom(served)
    _forget_devices(config, authored)
    forget_backend_directory(config, authored)
    if not _wrote(authored, "model_transaction_policy") and not config.model_transaction_policy.decoupled:
        config.ClearField("model_transaction_policy")  # auto_complete_config returned the default
    # `1/model.savedmodel/variables/x`: `model.savedmodel/`
    names = {"".join(file.partition("/")[2].partition("/")[:2]) for file in files if "/" in file}

    def filled_in(shorter: ModelConfig) -> list[ModelConfig]:
        """Return the config after a server has filled it in, without a GPU and with one."""
        filled = autofill(shorter, model_name=served.name, files=names)
        return [normalize_instance_groups(filled, gpu_ids=gpus) for gpus in ((), (0,))]

    complete = filled_in(config)
    for shorter in _shorter(config, authored):
        if filled_in(shorter) == complete:
            config.CopyFrom(shorter)
    return config


def _shorter(config: ModelConfig, authored: ModelConfig) -> Iterator[ModelConfig]:
    """Yield copies of `config`, each without the filled-in part of one field; `config` may change between two."""
    for descriptor, _ in authored.ListFields():
        shorter = ModelConfig()
        shorter.CopyFrom(config)
        shorter.ClearField(descriptor.name)
        shorter.MergeFrom(with_only(authored, descriptor.name))
        yield shorter
    for field in _FILLED_IN:
        if not _wrote(authored, field):
            shorter = ModelConfig()
            shorter.CopyFrom(config)
            shorter.ClearField(field)
            yield shorter
    if config.HasField("dynamic_batching") and not authored.HasField("dynamic_batching"):
        shorter = ModelConfig()
        shorter.CopyFrom(config)
        shorter.dynamic_batching.ClearField("preferred_batch_size")
        yield shorter


def _forget_devices(config: ModelConfig, authored: ModelConfig) -> None:
    """Remove this machine's devices from instance groups that did not name any (rule 5.1.4). The next machine has
    others: KIND_CPU from here would keep a model off its GPU."""
    for index, group in enumerate(config.instance_group):
        has_written = index < len(authored.instance_group)
        written = authored.instance_group[index] if has_written else messages.ModelInstanceGroup()
        group.kind = written.kind  # without a kind that is KIND_AUTO, which is not printed
        if not written.gpus:
            del group.gpus[:]


def _wrote(config: ModelConfig, field: str) -> bool:
    return any(descriptor.name == field for descriptor, _ in config.ListFields())


#: Fields that every server fills in if they are missing.
_FILLED_IN = ("version_policy", "optimization", "default_model_filename")
