"""`WhatIfLanes`, the replies to the timeline's sliders: the effect of other settings (`whatIf.ts`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....core.status import TritonError, UnsupportedError
from ....notebook.authoring.settings import Settings
from ....record.model_record import ModelRecord
from ....server.api.model import Model
from .recorded_executions import RecordedExecutions
from .replay import ReplayedBatches
from .tuned_model import TunedModel
from .what_if import notes, numbers_text

#: Microseconds of the delay's slider.
_DELAYS: tuple[int, ...] = (0, 50, 100, 200, 300, 500, 700, 1_000, 1_500, 2_000, 3_000, 5_000, 7_000)
_DELAYS += (10_000, 15_000, 20_000, 30_000, 50_000, 100_000)
_INSTANCES = 8
#: The most arrivals that are replayed before the first reply: some 50 ms.
_AT_ONCE = 10_000
#: Seconds for which a reading of the record is used, while requests come.
_FRESH = 2.0

Send = Callable[[Mapping[str, Any], Sequence[bytes]], None]


def lanes_of(model: Model, send: Send) -> WhatIfLanes | None:
    """Return the what-if lanes of a running model, or None if its scheduler cannot be simulated."""
    subject = TunedModel(model)
    try:
        Settings.from_config(subject.config)
    except UnsupportedError:
        return None
    except TritonError:  # not loaded now; a question before its next load gets this error as its reply
        pass
    return WhatIfLanes(subject, send)


class WhatIfLanes:
    """The replay of a model's record: first the visible part, then all of it on a thread of its own. A new question
    replaces an older one.
    """

    def __init__(self, model: TunedModel, send: Send) -> None:
        self._model = model
        self._send = send
        self._lock = threading.Lock()  # guards everything below
        self._recorded: RecordedExecutions | None = None
        self._read: tuple[int, int, float] = 0, 0, 0.0
        self._newest = 0

    def reply(self, content: Mapping[str, Any]) -> None:
        """Reply to a message of the module: `choices`, `replay` or `reload`."""
        try:
            if content.get("do") == "choices":
                self._send_reply("choices", **self._choices())
            elif content.get("do") == "reload":
                self._reload(_settings(content, Settings.from_config(self._model.config)))
            elif content.get("do") == "replay":
                self._replay(content)
        except (TritonError, ValueError) as error:
            self._send_reply("problem", text=str(error))

    def _send_reply(self, what: str, buffers: Sequence[bytes] = (), **facts: Any) -> None:
        self._send({"kind": "what if", "what": what, **facts}, buffers)

    def _choices(self) -> dict[str, Any]:
        """Return the present settings, and the values of each slider."""
        config = self._model.config
        now = Settings.from_config(config)
        largest = max(now.max_batch_size * 4, 64)
        powers = [1 << n for n in range(largest.bit_length()) if 1 << n <= largest]
        sizes = sorted({*powers, now.max_batch_size}) if now.max_batch_size else [0]
        single = sorted({(size,) for size in powers[1:]} | ({now.preferred} if now.preferred else set()))
        return {
            "now": now.to_dict(),
            "max_queue_delay_microseconds": sorted({*_DELAYS, now.delay_us}) if now.max_batch_size else [0],
            "preferred_batch_size": [[], *map(list, single)] if now.max_batch_size else [[]],
            "max_batch_size": sizes,
            "instances": sorted({*now.counts(_INSTANCES), now.instances}),
        }

    def _replay(self, content: Mapping[str, Any]) -> None:
        with self._lock:
            self._newest += 1
            number = self._newest
        config = self._model.config
        now = Settings.from_config(config)
        chosen, authored = _settings(content, now), self._model.authored
        ensembles = self._model.ensembles
        recorded = self._fresh_record(self._model.record)

        def stop() -> bool:
            return self._newest != number

        def send_part(part: str, replayed: ReplayedBatches, window: tuple[int, int]) -> None:
            line = numbers_text(recorded.numbers_within(window), replayed.numbers())
            facts = {
                "text": line,
                "notes": [
                    *notes(
                        recorded, present=now, settings=chosen, replayed=replayed, window=window, ensembles=ensembles
                    ),
                    f"Execution times {recorded.times}.",
                ],
                "config": chosen.pbtxt(authored),
                "changed": chosen != now,
                "lanes": recorded.instances,
                "first": recorded.request_column("queued")[0],
            }
            reasons = list(dict.fromkeys(replayed.reason))
            self._send_reply("batches", [_rows(replayed, reasons)], part=part, reasons=reasons, **facts)

        window = _window(content, recorded)
        send_part("view", recorded.replay(config, chosen, window, stop), window)

        def replay_all() -> None:
            replayed = recorded.replay(config, chosen, stop=stop)
            if not stop():
                send_part("all", replayed, (0, 1 << 62))

        threading.Thread(target=replay_all, name="what if", daemon=True).start()

    def _reload(self, settings: Settings) -> None:
        self._send_reply("reloading")
        self._model.reload(settings)
        self._send_reply("reloaded", text=f"Loaded with {settings}. The text of its cell is unchanged.")

    def _fresh_record(self, record: ModelRecord) -> RecordedExecutions:
        with self._lock:
            epoch, total, read_at = self._read
            changed = (epoch, total) != (record.epoch, record.batches.total)
            if self._recorded is None or record.epoch != epoch or (changed and time.monotonic() - read_at > _FRESH):
                read = record.epoch, record.batches.total, time.monotonic()
                self._recorded, self._read = RecordedExecutions(record), read
            return self._recorded


def _settings(content: Mapping[str, Any], now: Settings) -> Settings:
    """Return the settings of the sliders. Raises the errors of `Settings.on`."""
    chosen = content["settings"]
    return replace(
        now.on(chosen["instances"]),
        max_batch_size=chosen["max_batch_size"],
        dynamic=chosen["dynamic_batching"],
        preferred=tuple(chosen["preferred_batch_size"]),
        delay_us=chosen["max_queue_delay_microseconds"],
    )


def _window(content: Mapping[str, Any], recorded: RecordedExecutions) -> tuple[int, int]:
    """Return the visible time and the same time before it, because a queue has a history; at most _AT_ONCE arrivals."""
    begin, end = content["window"]
    queued = recorded.request_column("queued")
    first, last = np.searchsorted(queued, (begin - (end - begin), end))
    first = max(int(first), int(last) - _AT_ONCE)
    return (int(queued[first]) if first < len(queued) else int(end)), int(end)


def _rows(replayed: ReplayedBatches, reasons: list[str]) -> bytes:
    """Return start, end, lane, size, count and the number of the reason of each batch as doubles."""
    numbers = {reason: number for number, reason in enumerate(reasons)}
    counts = [len(batch) for batch in replayed.requests]
    why = [numbers[reason] for reason in replayed.reason]
    return np.array([replayed.start, replayed.end, replayed.lane, replayed.size, counts, why], np.float64).T.tobytes()
