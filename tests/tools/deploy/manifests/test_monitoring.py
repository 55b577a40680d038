"""Alert rules and dashboard: every expression is read, and evaluated on scrapes of /metrics."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tritonlab.core.metrics.model_metrics import MODEL_METRIC_KINDS
from tritonlab.tools.deploy.manifests.files import render

from .deployments import deployment, read
from .promql import Prometheus, read_metrics

CUSTOM = """\
# TYPE parse_errors counter
parse_errors{input="image"} ERRORS
rows 10
depth 3
row_bytes_bucket{le="100"} 1
row_bytes_bucket{le="+Inf"} 2
row_bytes_count 2
row_bytes_sum 300
"""
NAMES = {"parse_errors", "rows", "depth", "row_bytes_bucket", "row_bytes_count"}


def scrape(
    success: int = 0, failure: int = 0, queue: int = 0, errors: int = 0, waiting: int = 0, custom: bool = True
) -> str:
    """Return the text of a server with both models; the numbers are those of `digits.v2`."""
    values = {"nv_inference_request_success": success, "nv_inference_queue_duration_us": queue}
    values |= {"nv_inference_exec_count": success, "nv_inference_pending_request_count": waiting}
    lines = []
    for name in MODEL_METRIC_KINDS:
        reason = ',reason="OTHER"' if name == "nv_inference_request_failure" else ""
        number = failure if reason else values.get(name, 0)
        lines.append(f'{name}{{model="digits.v2"{reason},version="1"}} {number}')
        lines.append(f'{name}{{model="counter"{reason},version="1"}} 0')
    return "\n".join(lines) + "\n" + (CUSTOM.replace("ERRORS", str(errors)) if custom else "")


def rules() -> list[dict[str, Any]]:
    (group,) = read(render("deploy/monitoring/alerts.yaml", deployment()))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def firing(before: str, after: str) -> list[tuple[str, str]]:
    """Return the alerts that fire, each with the model or metric in question."""
    data = Prometheus(read_metrics(before), read_metrics(after))
    found = []
    for rule in rules():
        vector = data.evaluate(rule["expr"])
        assert isinstance(vector, dict)
        for labels in vector:
            named = {**dict(labels), **rule["labels"]}
            found.append((rule["alert"], named.get("metric") or named["model"]))
    return found


QUIET = scrape()


def test_nothing_fires_while_all_is_well() -> None:
    assert firing(QUIET, QUIET) == []
    assert firing(QUIET, scrape(success=6000, queue=6000 * 40_000)) == []


@pytest.mark.parametrize(
    ("after", "fired"),
    [
        (scrape(success=90, failure=10), [("RequestsFail", "digits.v2")]),
        (scrape(success=600, queue=600 * 60_000), [("RequestsWait", "digits.v2")]),
        (scrape(waiting=3), []),  # only now
        (scrape(errors=1), [("CustomCounterRises", "parse_errors")]),
        (
            scrape(success=10, custom=False),
            [("CustomMetricMissing", name) for name in ("depth", "parse_errors", "row_bytes", "rows")],
        ),
        (scrape(custom=False), []),  # no request
        ("", [("ModelMissing", "digits.v2"), ("ModelMissing", "counter")]),
    ],
)
def test_an_alert_fires_for_what_it_is_about(after: str, fired: list[tuple[str, str]]) -> None:
    assert firing(QUIET, after) == fired


def test_a_model_with_waiting_requests_and_no_execution_hangs() -> None:
    assert firing(scrape(waiting=1), scrape(waiting=3)) == [("ModelHangs", "digits.v2")]
    assert firing(scrape(waiting=1), scrape(success=1, waiting=3)) == []  # slow


def test_rules_have_what_prometheus_requires() -> None:
    for rule in rules():
        assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
        assert rule["for"] in ("1m", "5m", "10m") and rule["labels"]["severity"] in ("warning", "critical")
    identities = [(rule["alert"], *rule["labels"].items()) for rule in rules()]
    assert len(set(identities)) == len(identities)


def unknown(expressions: list[str], text: str) -> set[str]:
    """Return the metrics that expressions select and the text does not have."""
    data = Prometheus(read_metrics(text), read_metrics(text))
    for expression in expressions:
        data.evaluate(expression.replace("$__rate_interval", "1m"))
    return data.metrics - set(data.after)


def test_every_metric_of_the_files_is_in_metrics() -> None:
    panels = json.loads(render("deploy/monitoring/dashboard.json", deployment()))["panels"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    for all_of in (expressions, [rule["expr"] for rule in rules()]):
        assert unknown(all_of, QUIET) == set()
        assert unknown(all_of, scrape(custom=False)) <= NAMES
    assert unknown([expressions[0].replace("nv_inference_request", "nv_inference_requests")], QUIET)
    with pytest.raises(AssertionError):
        unknown([expressions[0] + ")"], QUIET)


def test_the_dashboard_has_a_panel_for_each_metric_of_the_models() -> None:
    document = json.loads(render("deploy/monitoring/dashboard.json", deployment()))
    panels = {panel["title"]: [target["expr"] for target in panel["targets"]] for panel in document["panels"]}
    assert panels["rows (digits.v2)"] == ["rate(rows[$__rate_interval])"]
    assert panels["depth (digits.v2)"] == ["depth"]
    assert [e.partition(",")[0] for e in panels["row_bytes (digits.v2)"]] == [
        f"histogram_quantile({quantile}" for quantile in ("0.5", "0.95", "0.99")
    ]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in document["panels"]]
    assert len(set(places)) == len(places) and len({panel["id"] for panel in document["panels"]}) == len(places)
    assert document["templating"]["list"][0]["name"] == "source"
