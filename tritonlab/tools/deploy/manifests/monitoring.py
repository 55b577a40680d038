"""What Prometheus and Grafana read: the rule of the autoscaler's metric, alert rules, and a dashboard.

Only metrics that every release of Triton has are used, and those that the models make themselves.

The mean time in the queue is taken for each model by itself, then the longest of them. A mean over all models would
fall when another one is fast or idles, and the quotient of a model without requests is 0/0, which is NaN and hides
every other value in a mean or a maximum (triton-inference-server/server#8980). So the divisor has a floor, and a model
without requests has a queue time of 0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ....core.quoting import go_template_text, json_text
from .facts import Deployment
from .yaml_text import yaml_text

#: Below one request in `window`, so that it changes no quotient of a model that has any.
_FLOOR = "0.001"
#: The queue time, in microseconds, above which there are too few pods. It is a choice, to be changed in `hpa.yaml`.
TARGET_MICROSECONDS = 50_000
#: The name of the metric in Kubernetes.
METRIC = "triton_queue_time_us"

#: Parts of the names of counters that count what should not happen.
_BAD = re.compile(r"error|fail|drop|reject|invalid|timeout|timed_out", re.IGNORECASE)
_WIDTH, _HEIGHT = 12, 8


def adapter_rule(deployed: Deployment) -> str:
    """Return the rule of prometheus-adapter, as values of its chart."""
    namespace, pod = {"resource": "namespace"}, {"resource": "pod"}
    rule = {
        "seriesQuery": 'nv_inference_queue_duration_us{namespace!="",pod!=""}',
        "resources": {"overrides": {"namespace": namespace, "pod": pod}},
        "name": {"as": METRIC},
        "metricsQuery": f"max by (<<.GroupBy>>) ({_per_model('<<.LabelMatchers>>', '1m')})",
    }
    about = (
        f"Values of prometheus-adapter's chart; {METRIC} is then a metric of pods.\n"
        "For each model by itself, then the longest: a model that idles neither hides nor dilutes one that waits.\n"
        "Prometheus has to label what it scrapes with `namespace` and `pod`, and to scrape at least twice a minute."
    )
    return yaml_text({"rules": {"custom": [rule]}}, about=about)


def alert_rules(deployed: Deployment) -> str:
    """Return the alert rules, as a file of Prometheus."""
    rules = [*_alerts_of_triton(deployed), *_alerts_of_models(deployed)]
    return yaml_text({"groups": [{"name": deployed.name, "rules": rules}]}, about="promtool check rules alerts.yaml")


def _alert(name: str, expression: str, duration: str, severity: str, summary: str, **of: str) -> dict[str, Any]:
    """`of`: labels that tell the rule from others of its name."""
    return {
        "alert": name,
        "expr": expression,
        "for": duration,
        "labels": {"severity": severity, **of},
        "annotations": {"summary": summary},
    }


def _alerts_of_triton(deployed: Deployment) -> Iterator[dict[str, Any]]:
    for model in deployed.models:
        name = go_template_text(model.name)
        yield _alert(
            "ModelMissing",
            f"absent(nv_inference_request_success{{{of_models([model.name])}}})",
            duration="5m",
            severity="critical",
            summary=f"No server has the model {name}: the server is down, or the model did not load.",
            model=name,
        )
    models = of_models([model.name for model in deployed.models])
    failed = f"sum by (model) (rate(nv_inference_request_failure{{{models}}}[5m]))"
    succeeded = f"sum by (model) (rate(nv_inference_request_success{{{models}}}[5m]))"
    yield _alert(
        "RequestsFail",
        f"{failed} / clamp_min({failed} + {succeeded}, 0.001) > 0.01",
        duration="5m",
        severity="warning",
        summary="More than 1 % of the requests to {{ $labels.model }} fail.",
    )
    yield _alert(
        "RequestsWait",
        f"max by (model) ({_per_model(models, '5m')}) > {TARGET_MICROSECONDS}",
        duration="10m",
        severity="warning",
        summary=f"Requests to {{{{ $labels.model }}}} wait more than {TARGET_MICROSECONDS // 1000} ms for an instance.",
    )


def _alerts_of_models(deployed: Deployment) -> Iterator[dict[str, Any]]:
    for model in deployed.models:
        name = go_template_text(model.name)
        served = f"sum(increase(nv_inference_request_success{{{of_models([model.name])}}}[10m])) > 0"
        for metric, kind in sorted(model.custom_metrics.items()):
            series = f"{metric}_count" if kind == "histogram" else metric
            yield _alert(
                "CustomMetricMissing",
                f"absent({series}) and on () {served}",
                duration="10m",
                severity="warning",
                summary=f"The model {name} answers requests but does not report {metric}.",
                model=name,
                metric=metric,
            )
            if kind == "counter" and _BAD.search(metric):
                yield _alert(
                    "CustomCounterRises",
                    f"sum(increase({metric}[5m])) > 0",
                    duration="5m",
                    severity="warning",
                    summary=f"{metric} of the model {name} has risen in each of the last minutes.",
                    model=name,
                    metric=metric,
                )


def dashboard(deployed: Deployment) -> str:
    """Return the dashboard of Grafana, as JSON that it imports; it asks for the data source."""
    models = of_models([model.name for model in deployed.models])
    per_second = {
        name: f"sum by (model) (rate(nv_inference_{name}{{{models}}}[$__rate_interval]))"
        for name in ("request_success", "request_failure", "count", "exec_count")
    }
    per_batch = f"{per_second['count']} / clamp_min({per_second['exec_count']}, 0.001)"
    rows: list[tuple[str, str, list[str]]] = [
        ("Requests", "reqps", [per_second["request_success"]]),
        ("Failed requests", "reqps", [per_second["request_failure"]]),
        *(
            (title, "µs", [f"max by (model) ({_mean(total, models, '$__rate_interval')})"])
            for title, total in (
                ("Time of a request, mean", "nv_inference_request_duration_us"),
                ("Time in the queue, mean", "nv_inference_queue_duration_us"),
                ("Time in execute, mean", "nv_inference_compute_infer_duration_us"),
            )
        ),
        ("Inferences of an execution, mean", "short", [per_batch]),
        *(
            (f"{metric} ({model.name})", "short", _custom(metric, kind))
            for model in deployed.models
            for metric, kind in sorted(model.custom_metrics.items())
        ),
    ]
    document = {
        "title": f"Triton: {deployed.name}",
        "uid": f"triton-{deployed.name}"[:40],
        "schemaVersion": 39,
        "editable": True,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "30s",
        "templating": {
            "list": [{"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"}]
        },
        "panels": [_panel(number, *row) for number, row in enumerate(rows)],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _custom(metric: str, kind: str) -> list[str]:
    if kind == "counter":
        return [f"rate({metric}[$__rate_interval])"]
    if kind == "histogram":
        buckets = f"sum by (le) (rate({metric}_bucket[$__rate_interval]))"
        return [f"histogram_quantile({quantile}, {buckets})" for quantile in (0.5, 0.95, 0.99)]
    return [metric]


def _panel(number: int, title: str, unit: str, expressions: list[str]) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${source}"}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": title,
        "datasource": source,
        "gridPos": {"x": number % 2 * _WIDTH, "y": number // 2 * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": source, "expr": expression, "legendFormat": "__auto"}
            for place, expression in enumerate(expressions)
        ],
    }


def _per_model(selector: str, window: str) -> str:
    """Return the expression of the mean queue time of each model in microseconds. `selector`: in its braces, which
    labels count."""
    return _mean("nv_inference_queue_duration_us", selector, window)


def _mean(total: str, selector: str, window: str) -> str:
    """Return the expression of a total of Triton for each successful request."""
    return (
        f"rate({total}{{{selector}}}[{window}])"
        f" / clamp_min(rate(nv_inference_request_success{{{selector}}}[{window}]), {_FLOOR})"
    )


def of_models(names: Sequence[str]) -> str:
    """Return the selector of models by their names."""
    pattern = "|".join("".join(map(_of_pattern, name)) for name in names)
    return f"model=~{json_text(pattern)}"


def _of_pattern(character: str) -> str:
    """Return the pattern of one character. Grafana replaces `$name` in an expression, also behind a backslash."""
    if character == "$" or not character.isprintable():
        return f"\\x{{{ord(character):x}}}"
    return f"\\{character}" if character in ".+*?()[]{}|^\\" else character
