"""`TunedModel`, the tuner's view of a running model: its configuration, its record, and the loading of it with other
settings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....core.config.model_config import ModelConfig, to_dict
from ....core.status import InvalidArgumentError
from ....notebook.authoring.settings import Settings
from ....notebook.authoring.workspace import Workspace
from ....record.model_record import ModelRecord
from ....record.recorder import Recorder
from ....server.api.model import Model
from ....server.models.dependency_graph import composing_models
from .recorded_executions import RecordedExecutions
from .what_if import WhatIf

#: Settings of a model that differ from its config, and a function that loads it with others.
Written = tuple[Settings | None, Callable[[Settings | None], object]]


class TunedModel:
    """A model of a server in this process."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def config(self) -> ModelConfig:
        """The normalised configuration of the serving version."""
        return self.model.server.core.find(self.model.name, self.model.version).config

    @property
    def authored(self) -> ModelConfig:
        """The same configuration with the instance groups as the author wrote them, none if there are none."""
        version = self.model.server.core.find(self.model.name, self.model.version)
        config = ModelConfig()
        config.CopyFrom(version.config)
        del config.instance_group[:]
        config.instance_group.extend(version.files.config.instance_group)
        return config

    @property
    def ensembles(self) -> dict[str, int]:
        """The `max_batch_size` of each serving ensemble that has the model as a step. If a reload makes the model's
        smaller, the ensemble stops serving, as in Triton (rule 5.7.4).
        """
        loaded = self.model.server.core.models.known()
        configs = {one.identifier: version.config for one in loaded for version in one.versions.values()}
        return {
            name: config.max_batch_size
            for name, config in configs.items()
            if self.model.name in composing_models(config)
        }

    @property
    def record(self) -> ModelRecord:
        return Recorder.for_instruments(self.model.server.instruments).recording.model(self.model.name)

    def recorded_executions(self) -> RecordedExecutions:
        """Return the record since the last load. Raises InvalidArgumentError if it is empty."""
        try:
            return RecordedExecutions(self.record)
        except ValueError as error:
            raise InvalidArgumentError(str(error)) from None

    def reload(self, settings: Settings) -> Callable[[], object]:
        """Load the model with settings; return a function that loads it as before. Raises the errors of a load, after
        which the old version still serves, and InvalidArgumentError if an ensemble that contains the model would stop
        serving.
        """
        settings.check_serving(self.ensembles)
        former = self.restorer()
        written = self._written()
        if written is not None:
            written[1](settings)
        else:
            self.model.server.core.control.load(self.model.name, to_dict(settings.written(self.authored)), None)
        return former

    def _written(self) -> Written | None:
        """Return how a notebook has written the model; None for a model that none has written."""
        workspace: Workspace | None = getattr(self.model.server, "workspace", None)
        return workspace.written(self.name) if workspace is not None else None

    def restorer(self) -> Callable[[], object]:
        """Return a function that loads the model as it is now."""
        written = self._written()
        if written is not None:
            former, load = written
            return lambda: load(former)
        core, name, config = self.model.server.core, self.model.name, to_dict(self.authored)
        return lambda: core.control.load(name, config, None)


def what_if(model: Model, **differing: Any) -> WhatIf:
    """Run `Model.what_if`."""
    tuned = TunedModel(model)
    config = tuned.config
    settings = Settings.from_config(config).changed(**differing)
    return WhatIf(
        tuned.name,
        recorded=tuned.recorded_executions(),
        config=config,
        authored=tuned.authored,
        settings=settings,
        reload=tuned.reload,
        ensembles=tuned.ensembles,
    )
