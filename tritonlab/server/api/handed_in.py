"""`HandedIn` holds what the API of servers calls above itself: views, load tests and tuning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from ...core.infer_request import InferenceRequest


class HandedIn:
    """Keeps what is called upward. `runtime` sets each of these when `tritonlab` is imported, and imports what they
    need at their first use."""

    #: opens a view of a model: (model, kind)
    view: ClassVar[Callable[[Any, str], Any]]
    #: tests a model under load: (model, the options of `load_test`)
    load_test: ClassVar[Callable[[Any, Mapping[str, Any]], Any]]
    #: shows the progress of a `LoadTest` that is waited for, and returns what ends that
    show_progress: ClassVar[Callable[[Any], Callable[[], None]]]
    #: (model, settings that differ) -> `tuning.what_if.WhatIf`
    what_if: ClassVar[Callable[[Any, Mapping[str, Any]], Any]]
    #: (model, options) -> `tuning.tune_result.TuneResult`
    tune: ClassVar[Callable[[Any, Mapping[str, Any]], Any]]
    #: of a model that a notebook has written: its `tuning.settings.Settings` that differ from its config, and what
    #: loads it with others; None of any other model
    written: ClassVar[Callable[[Any], tuple[Any, Callable[[Any], object]] | None]]
    #: shows a `KeptFailure` in a notebook
    failure_pane: ClassVar[Callable[[Any], Any]]
    #: writes the test of a failure: (its requests, the model's config, its headline)
    failure_test: ClassVar[Callable[[Sequence[InferenceRequest], dict[str, Any], str], Any]]
