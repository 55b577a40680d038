"""The base of live views, without a frontend."""

from __future__ import annotations

import gc
import importlib.util
import weakref
from collections.abc import Mapping
from typing import Any

import pytest
from ipywidgets.widgets.widget import _instances

from tritonlab.notebook.views import widget as module
from tritonlab.notebook.views.widget import LiveView


def open_views() -> set[str]:
    """Return the ids of the views whose widgets ipywidgets keeps."""
    return {widget.view for widget in list(_instances.values()) if hasattr(widget, "view")}


class Counter(LiveView):
    MODULE = "panel.js"

    def __init__(self) -> None:
        super().__init__(count=0)
        self.received: list[Mapping[str, Any]] = []

    def text(self) -> str:
        return f"counted {self.state['count']}"

    def html(self) -> str:
        return f"<b>{self.text()}</b>"

    def on_message(self, content: Mapping[str, Any]) -> None:
        self.received.append(content)


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return what is displayed, and how, as in a kernel."""
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []
    monkeypatch.setattr(module, "_display", lambda bundle, **how: found.append((bundle, how)))
    monkeypatch.setattr(module, "in_kernel", lambda: True)
    return found


def test_a_view_has_a_static_form_and_a_live_one(displayed: list[Any]) -> None:
    view = Counter()
    view.show()
    (static, how), (live, _) = displayed
    assert static["text/plain"] == repr(view) == "counted 0"
    begin, _, rest = static["text/html"].partition("<link ")  # which hides the live one where nothing runs it
    assert begin.endswith(f"<div class='tl-static tl-static-{view.id}'>") and rest.endswith("><b>counted 0</b></div>")
    assert how == {"display_id": view.id}
    assert live["application/vnd.jupyter.widget-view+json"]["model_id"] == view.widget.model_id
    assert live["text/plain"] == live["text/html"] == ""  # where there is no kernel it leaves nothing behind


def test_both_forms_follow_the_state(displayed: list[Any]) -> None:
    view = Counter()
    view.show()
    view.update(count=3)
    assert view.widget.state == {"count": 3}
    view.freeze()
    assert displayed[-1][0]["text/plain"] == "counted 3"
    assert displayed[-1][1] == {"display_id": view.id, "update": True}


def test_what_is_as_it_was_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    view = Counter()
    sent: list[Any] = []
    view.widget.observe(sent.append, names="state")
    view.update(count=0)
    assert sent == []
    view.update(count=1)
    assert len(sent) == 1


def test_the_browser_asks_through_the_widget_or_while_a_cell_runs_through_a_comm() -> None:
    view = Counter()
    view.widget._handle_custom_msg({"do": "more"}, [])

    class Comm:
        def on_msg(self, callback: Any) -> None:
            self.callback = callback

    comm = Comm()
    module._opened(comm, {"header": {}})
    comm.callback({"header": {}, "content": {"data": {"view": view.id, "content": {"do": "less"}}}})
    comm.callback({"header": {}, "content": {"data": {"view": "of a kernel before", "content": {}}}})
    assert view.received == [{"do": "more"}, {"do": "less"}]


class Follower(Counter):
    subject = "a model"


def test_the_next_view_of_a_subject_fixes_the_stored_form_of_the_one_before(displayed: list[Any]) -> None:
    one, other, apart = Follower(), Follower(), Counter()
    for view in (one, apart, other):
        view.show()
    displayed.clear()
    for view in (one, other, apart):
        view.update(count=7)
        view.freeze()
    assert [how["display_id"] for _, how in displayed] == [other.id, apart.id]
    assert one.widget.state == {"count": 7}  # the live form goes on


def test_old_views_end_but_not_those_of_other_subjects(displayed: list[Any]) -> None:
    """ipywidgets keeps every widget, and with it its view, that nobody closes; a cell that runs again shows another."""
    apart, other = Counter(), Follower()
    other.subject = "another model"
    for view in (apart, other):
        view.show()
    views = [Follower() for _ in range(10)]
    for view in [*views, views[2], views[2]]:
        view.show()  # one is shown again, and is the youngest then
    living = open_views()
    assert living >= {view.id for view in (apart, other, views[2], *views[3:])}
    assert not living & {view.id for view in views[:2]}
    first = weakref.ref(views[0])
    views[9].close()
    del views, view, displayed[:]
    gc.collect()
    assert first() is None


def test_a_view_that_is_displayed_again_leaves_its_first_output_as_it_was(displayed: list[Any]) -> None:
    view = Counter()
    view.show()
    view.update(count=2)
    view.show()
    view.update(count=5)
    view.freeze()
    outputs = [how["display_id"] for bundle, how in displayed if "display_id" in how]
    assert outputs[0] == view.id and outputs[1] == outputs[2] != view.id


def test_a_closed_view_keeps_its_static_form(displayed: list[Any]) -> None:
    view = Counter()
    view.show()
    view.update(count=2)
    view.close()
    view.update(count=3)
    assert displayed[-1][0]["text/plain"] == "counted 2"


def test_without_anywidget_there_is_the_static_form(displayed: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    view = Counter()
    view.show()
    view.update(count=1)
    view.freeze()
    assert [bundle["text/plain"] for bundle, _ in displayed] == ["counted 0", "counted 1"]
