"""Views of a model, of a recording, or of a file."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from os import PathLike
from pathlib import Path

from ....core.config.ensemble_graph import EnsembleGraph
from ....core.foreign_file import open_file
from ....core.plain_facts import by_number
from ....core.status import InvalidArgumentError
from ....core.unknown_option import did_you_mean
from ....engine.schedulers.dynamic_batch import BatchConfig
from ....engine.schedulers.ensemble_scheduler import EnsembleScheduler
from ....record.live_state import live_state, memory_use, occupancies, open_requests
from ....record.recorder import Recorder
from ....record.recording import Recording, RecordingError
from ....record.tensor_peek import TensorPeek
from ....record.triton_trace import read_trace
from ....server.api.model import Model
from ....server.models.model_lifecycle import ModelVersion
from ....tool_table import view_lanes
from ..card.model_facts import served_words
from ..ticker import ViewEnded
from .graph import Graph
from .memory import Memory
from .metrics import Metrics
from .record_view import KINDS, RecordView
from .streams import Streams
from .timeline import Profile, Timeline


def open_view(
    subject: Model | Recording | str | PathLike[str],
    kind: str = "timeline",
    model: str = "",
    profile: Profile | None = None,
) -> RecordView:
    """Return a view of `subject`: a model, a recording, or the path of a recording or of a trace file of Triton's.

    kind: one of KINDS. model: the model in a recording with several. profile: profiles the lines of the model for so
    many seconds. Raises InvalidArgumentError, OSError, and RecordingError for any other file.
    """
    if kind not in KINDS:
        advice = did_you_mean(kind, KINDS, KINDS) or ", ".join(KINDS)
        raise InvalidArgumentError(f"view '{kind}' does not exist: {advice}")
    if isinstance(subject, Model):
        return _of_model(subject, kind, profile)
    if kind not in _VIEWS:
        raise InvalidArgumentError(f"'{kind}' is not recorded: open it for a running model")
    recording = subject if isinstance(subject, Recording) else _read(Path(subject))
    names = sorted(recording.records, key=by_number)
    if not model and len(names) != 1:
        raise InvalidArgumentError(f"give one of the recording's models: {', '.join(names) or 'it has none'}")
    if model and model not in names:
        raise InvalidArgumentError(f"the recording has no model '{model}', only {', '.join(names) or 'none'}")
    return _VIEWS[kind](recording, model or names[0])


def _read(path: Path) -> Recording:
    """Read a file by its first bytes: numpy's begins with PK, Triton's with a bracket."""
    try:
        with open_file(path) as file:
            first = file.read(1)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise RecordingError(f"{path} is not a recording of tritonlab: {error.strerror}") from None
    if first == b"{":
        what = "https://ui.perfetto.dev shows it, if recording.perfetto has written it"
        raise RecordingError(f"{path} is neither a recording nor a trace file of Triton's; {what}")
    return read_trace(path) if first == b"[" else Recording.load(path)


def _of_model(model: Model, kind: str, profile: Profile | None) -> RecordView:
    recorder, instruments = Recorder.for_instruments(model.server.instruments), model.server.instruments

    def check() -> None:
        if not model.server.core.live():
            raise ViewEnded("its server has ended. Load the model again, and open another view.")
        if not any(one is recorder for one in instruments):
            raise RuntimeError("recording has stopped; open the view again. The reason is in the kernel's log.")

    view = _live(model, kind, recorder.recording, profile)
    view.check = check
    return view


def _live(model: Model, kind: str, recording: Recording, profile: Profile | None) -> RecordView:
    name, versions = model.name, model.versions
    if kind == "streams":
        return Streams(recording, name, lambda: {}, lambda: open_requests(versions()))
    if kind == "graph":
        return Graph(
            recording,
            name,
            graph=lambda: _ensemble(versions()),
            sequences=lambda: occupancies(versions()),
            answers=lambda callee: served_words(model.server.model(callee)),
        )
    if kind == "memory":
        return Memory(name, lambda: memory_use(versions(), model.server_gpus), model.server_gpus.simulated)
    if kind == "metrics":
        return Metrics(recording, name, model.server.metrics)

    def rules() -> BatchConfig:
        return BatchConfig.from_config(model.server.core.find(name, model.version).config)

    peek = TensorPeek(name)
    timeline = Timeline(
        recording,
        name,
        live=lambda: live_state(versions()),
        config=rules,
        lanes=[partial(each, model) for each in view_lanes("timeline")],
        profile=profile,
    )
    timeline.peek, instruments = peek, model.server.instruments
    timeline.watched = lambda on: instruments.add(peek) if on else instruments.remove(peek)
    return timeline


def _ensemble(versions: list[ModelVersion]) -> EnsembleGraph | None:
    """Return the graph of the latest version, if it is an ensemble."""
    scheduler = max(versions, key=lambda one: one.version).scheduler if versions else None
    return scheduler.graph if isinstance(scheduler, EnsembleScheduler) else None


#: The KINDS of a recording; `memory` needs a running model.
_VIEWS: dict[str, Callable[[Recording, str], RecordView]] = {
    "timeline": Timeline,
    "streams": Streams,
    "metrics": Metrics,
    "graph": Graph,
}
