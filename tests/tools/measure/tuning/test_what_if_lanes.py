from __future__ import annotations

import queue
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tests.tools.measure.tuning.scheduler_bench import Bench, Sent, config_of
from tritonlab.core.config.model_config import ModelConfig
from tritonlab.notebook.authoring.settings import Settings
from tritonlab.record.model_record import ModelRecord
from tritonlab.tools.measure.tuning.what_if_lanes import WhatIfLanes

CONFIG = config_of("max_batch_size: 4 dynamic_batching { } instance_group { count: 1 }")
MS = 1_000_000


class FakeModel:
    """A model whose record came from the scheduler with fake instances."""

    name = "m"

    def __init__(self, requests: int = 40, config: ModelConfig = CONFIG) -> None:
        self.bench = Bench(config, 1, lambda size: 4 * MS)
        self.bench.run([Sent(MS) for _ in range(requests)])
        self.config = self.authored = config
        self.record: ModelRecord = self.bench.record
        self.loaded: list[Settings] = []
        self.ensembles: dict[str, int] = {}

    def reload(self, settings: Settings) -> None:
        self.loaded.append(settings)


class Page:
    """What the browser has got."""

    def __init__(self, subject: Any) -> None:
        self.got: queue.SimpleQueue[tuple[Mapping[str, Any], Sequence[bytes]]] = queue.SimpleQueue()
        self.lanes = WhatIfLanes(subject, lambda content, buffers: self.got.put((content, buffers)))

    def send(self, **content: Any) -> Mapping[str, Any]:
        self.lanes.reply(content)
        return self.next()[0]

    def next(self) -> tuple[Mapping[str, Any], Any]:
        content, buffers = self.got.get(timeout=30)
        return content, [np.frombuffer(one, np.float64).reshape(-1, 6) for one in buffers]


@pytest.fixture
def page() -> Page:
    return Page(FakeModel())


def test_the_sliders_offer_what_there_is_and_more(page: Page) -> None:
    document = page.send(do="choices")
    assert document["what"] == "choices"
    assert document["now"] == Settings.from_config(CONFIG).to_dict()
    assert document["instances"] == list(range(1, 9))
    assert document["max_batch_size"] == [1, 2, 4, 8, 16, 32, 64]
    assert document["preferred_batch_size"][:3] == [[], [2], [4]]


def test_of_a_model_on_two_gpus_the_sliders_offer_as_many_instances_on_each() -> None:
    config = config_of("max_batch_size: 4 instance_group { count: 1 kind: KIND_GPU gpus: [ 0, 1 ] }")
    reply = Page(FakeModel(config=config)).send(do="choices")
    assert reply["instances"] == [2, 4, 6, 8]


def test_first_comes_what_is_in_view_then_all(page: Page) -> None:
    settings = {**Settings.from_config(CONFIG).to_dict(), "instances": 2}
    page.lanes.reply({"do": "replay", "settings": settings, "window": [20 * MS, 30 * MS]})
    (view, (some,)), (whole, (every,)) = page.next(), page.next()
    assert (view["part"], whole["part"]) == ("view", "all")
    assert 0 < len(some) < len(every)
    assert every[:, 4].sum() == 40 and set(every[:, 2]) == {0, 1}
    assert some[:, 0].min() >= 10 * MS and some[:, 0].max() < 36 * MS
    assert whole["changed"] and whole["lanes"] == ["m_0_0"]
    assert "requests/s" in whole["text"] and "count: 2" in whole["config"]
    assert "Execution times fitted to" in whole["notes"][-1]


def test_in_view_only_those_that_were_refused_there_are_compared() -> None:
    full = config_of("max_batch_size: 1 dynamic_batching { default_queue_policy { max_queue_size: 3 } }")
    page = Page(FakeModel(config=full))
    page.lanes.reply({"do": "replay", "settings": Settings.from_config(full).to_dict(), "window": [30 * MS, 40 * MS]})
    refused = [int(view["notes"][-2].split()[0]) for view in (page.next()[0], page.next()[0])]
    page.lanes.reply({"do": "replay", "settings": Settings.from_config(full).to_dict(), "window": [30 * MS, 40 * MS]})
    assert 0 < refused[0] < refused[1]
    were = [int(view["notes"][-2].split("; ")[1].split()[0]) for view in (page.next()[0], page.next()[0])]
    assert were[1] == refused[1] and 0 < were[0] < were[1]


def test_an_empty_record_says_what_to_do() -> None:
    reply = Page(FakeModel(0)).send(do="replay", settings=Settings.from_config(CONFIG).to_dict(), window=[0, 1])
    assert (reply["what"], "send it requests first" in reply["text"]) == ("problem", True)


def test_the_button_loads_the_model_with_the_settings() -> None:
    subject = FakeModel()
    page = Page(subject)
    assert (
        page.send(do="reload", settings={**Settings.from_config(CONFIG).to_dict(), "instances": 3})["what"]
        == "reloading"
    )
    assert page.next()[0]["text"].startswith("Loaded with 3 instances")
    assert [settings.instances for settings in subject.loaded] == [3]


def test_what_no_replay_can_tell_is_a_sentence(page: Page) -> None:
    groups = config_of("max_batch_size: 4 instance_group { count: 1 } instance_group { count: 1 }")
    subject = FakeModel()
    subject.config = subject.authored = groups
    reply = Page(subject).send(
        do="replay", settings={**Settings.from_config(groups).to_dict(), "instances": 5}, window=[0, 1]
    )
    assert (reply["what"], "several instance groups" in reply["text"]) == ("problem", True)
    page.lanes.reply({"do": "nothing we know"})
    assert page.got.empty()


def test_a_record_that_was_replaced_and_is_empty_is_never_the_former_one(page: Page) -> None:
    subject = FakeModel()
    page = Page(subject)
    question = {"do": "replay", "settings": Settings.from_config(CONFIG).to_dict(), "window": [0, 30 * MS]}
    page.lanes.reply(question)
    assert [page.next()[0]["what"], page.next()[0]["what"]] == ["batches", "batches"]
    subject.record = FakeModel(0).record
    assert [page.send(**question)["what"], page.send(**question)["what"]] == ["problem", "problem"]
