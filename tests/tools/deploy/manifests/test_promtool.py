"""Prometheus' own promtool on the rules and on the autoscaler's metric: each alert fires for what it is about, and is
silent otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tritonlab.tools.deploy.manifests.facts import Deployment
from tritonlab.tools.deploy.manifests.files import TARGET_MICROSECONDS, deploy_files, render
from tritonlab.tools.deploy.releases import find

from .deployments import deployment, read
from .promtool import PROMTOOL, Series, failures, series

pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed; `make build/promtool` fetches it")

#: A quarter of an hour.
_MINUTES = 15


def scrapes(pod: str = "p-1", namespace: str = "live", model: str = "digits.v2", **changed: str) -> dict[str, str]:
    """Return the series of one model on one server, as Prometheus labels them; it answers 600 requests a minute, which
    wait 1 ms. `changed`: the values of a metric, without its prefix; "" if there is none."""
    labels = f'model="{model}",version="1",namespace="{namespace}",pod="{pod}",instance="{pod}:8002"'
    values = {
        "request_success": f"0+600x{_MINUTES}",
        "queue_duration_us": f"0+600000x{_MINUTES}",
        "exec_count": f"0+600x{_MINUTES}",
        "pending_request_count": f"0x{_MINUTES}",
        "request_failure": f"0x{_MINUTES}",
    }
    reason = {"request_failure": ',reason="BACKEND"'}
    found = {**values, **changed}
    return {f"nv_inference_{name}{{{labels}{reason.get(name, '')}}}": text for name, text in found.items() if text}


def custom(**changed: str) -> dict[str, str]:
    values = {"parse_errors": f"0x{_MINUTES}", "rows": f"0+6x{_MINUTES}", "depth": f"3x{_MINUTES}"}
    values |= {"row_bytes_count": f"0+6x{_MINUTES}", **changed}
    return {f'{name}{{namespace="live",pod="p-1"}}': text for name, text in values.items() if text}


WELL = {**scrapes(), **scrapes(model="counter"), **custom()}
#: What a server reports whose instances never return: nothing is executed, and what came later waits for good.
HANGS = {
    "request_success": f"600x{_MINUTES}",
    "exec_count": f"600x{_MINUTES}",
    "queue_duration_us": f"600000x{_MINUTES}",
    "pending_request_count": f"7x{_MINUTES}",
}
IDLE = {name: values for name, values in HANGS.items() if name != "pending_request_count"}
#: Of each alert: series under which it fires, and others under which it does not although they look alike.
CASES: dict[str, tuple[Series, Series]] = {
    # the model is on no server; a restart of two minutes is none
    "ModelMissing": (
        {name: text for name, text in WELL.items() if "digits" not in name},
        {**WELL, **scrapes(request_success="0 600 _ _ 0 600+600x20")},
    ),
    # 2 % fail; 1 in 200
    "RequestsFail": (
        {**WELL, **scrapes(request_failure=f"0+12x{_MINUTES}")},
        {**WELL, **scrapes(request_failure=f"0+3x{_MINUTES}")},
    ),
    # 60 ms; 40 ms
    "RequestsWait": (
        {**WELL, **scrapes(queue_duration_us="0+36000000x30", request_success="0+600x30")},
        {**WELL, **scrapes(queue_duration_us="0+24000000x30", request_success="0+600x30")},
    ),
    # one of two servers hangs, and clients' requests are rejected; both idle, and one is busy with a queue
    "ModelHangs": (
        {**WELL, **scrapes("p-2", **HANGS, request_failure=f"0+30x{_MINUTES}")},
        {**WELL, **scrapes("p-2", **IDLE), **scrapes(pending_request_count=f"9x{_MINUTES}")},
    ),
    # the model answers requests; it idles
    "CustomMetricMissing": (
        {**scrapes(), **custom(depth="")},
        {**scrapes(**IDLE), **custom(depth="")},
    ),
    "CustomCounterRises": ({**WELL, **custom(parse_errors=f"0+1x{_MINUTES}")}, WELL),
}


def alert(name: str, fires: bool, deployed: Deployment, values: Series, minutes: int, folder: Path) -> str:
    """Return what promtool says; empty if the alert does as expected after these minutes."""
    rules = str(render("deploy/monitoring/alerts.yaml", deployed))
    query_test = {"alertname": name, "eval_time": f"{minutes}m", "exp_alerts": []}
    output = failures(folder, [{"input_series": series(values), "alert_rule_test": [query_test]}], rules)
    if not fires:
        return output
    is_fired = f"alertname: {name}" in output and "got:[" in output.replace("\n", "").replace(" ", "")
    return "" if is_fired else output or "none"


@pytest.mark.parametrize("name", CASES)
def test_an_alert_fires_for_what_it_is_about_only(name: str, tmp_path: Path) -> None:
    minutes = 25 if name == "RequestsWait" else _MINUTES - 1
    for fires, values in zip((True, False), CASES[name], strict=True):
        assert alert(name, fires, deployment(), values, minutes, tmp_path) == "", fires


def test_every_alert_has_its_two_cases_and_is_silent_when_all_is_well(tmp_path: Path) -> None:
    (group,) = read(render("deploy/monitoring/alerts.yaml", deployment()))["groups"]
    assert {rule["alert"] for rule in group["rules"]} == set(CASES)
    for name in CASES:
        assert alert(name, False, deployment(), WELL, _MINUTES - 1, tmp_path) == ""


def test_an_alert_says_which_model_where(tmp_path: Path) -> None:
    """Two namespaces have the model, and it hangs in one: as one sum, the other would hide it."""
    values = {**WELL, **scrapes(namespace="trial", pod="t-1", **HANGS)}
    labels = {"namespace": "trial", "pod": "t-1", "instance": "t-1:8002", "model": "digits.v2", "version": "1"}
    rules = str(render("deploy/monitoring/alerts.yaml", deployment()))
    (group,) = read(rules)["groups"]
    (summary,) = [rule["annotations"]["summary"] for rule in group["rules"] if rule["alert"] == "ModelHangs"]
    summary = summary.replace("{{ $labels.model }}", "digits.v2").replace("{{ $labels.instance }}", "t-1:8002")
    fired = [{"exp_labels": {**labels, "severity": "critical"}, "exp_annotations": {"summary": summary}}]
    query_test = [{"alertname": "ModelHangs", "eval_time": "14m", "exp_alerts": fired}]
    failing = {**values, **scrapes("t-2", namespace="trial", request_failure=f"0+60x{_MINUTES}")}
    named = {"namespace": "trial", "model": "digits.v2", "severity": "warning"}
    text = "More than 1 % of the requests to digits.v2 fail."
    fails = [{"exp_labels": named, "exp_annotations": {"summary": text}}]
    query_test += [{"alertname": "RequestsFail", "eval_time": "14m", "exp_alerts": fails}]
    assert failures(tmp_path, [{"input_series": series(failing), "alert_rule_test": query_test}], rules) == ""


def test_a_model_that_went_from_one_namespace_is_missing_there(tmp_path: Path) -> None:
    gone = scrapes(namespace="trial", pod="t-1", request_success="0+600x9", queue_duration_us="")
    values = {**WELL, **scrapes(request_success="0+600x60"), **gone}
    assert alert("ModelMissing", True, deployment(), values, 40, tmp_path) == ""
    stays = {**values, **scrapes(namespace="trial", pod="t-1", request_success="0+600x60")}
    both = {**scrapes(request_success="0+600x60"), **scrapes(model="counter", request_success="0+600x60")}
    assert alert("ModelMissing", False, deployment(), {**stays, **both}, 40, tmp_path) == ""


def queue_time(values: Series, expected: Mapping[str, float], folder: Path, deployed: Deployment | None = None) -> str:
    """Return what promtool says of the autoscaler's metric of these pods; empty if it is as expected."""
    files = deploy_files(deployed or deployment(), ["k8s"])
    (rule,) = read(files["deploy/monitoring/prometheus-adapter.yaml"])["rules"]["custom"]
    query = rule["metricsQuery"].replace("<<.LabelMatchers>>", 'namespace="live"').replace("<<.GroupBy>>", "pod")
    samples = [{"labels": f'{{pod="{pod}"}}', "value": value} for pod, value in expected.items()]
    query_test = {"expr": query, "eval_time": "10m", "exp_samples": samples}
    return failures(folder, [{"interval": "15s", "input_series": series(values), "promql_expr_test": [query_test]}])


def test_the_autoscaler_makes_up_for_a_pod_that_hangs(tmp_path: Path) -> None:
    """Its mean time in the queue is 0: by itself it would be a reason to take pods away."""
    hangs, works = long(scrapes("p-2", **HANGS)), long(scrapes("p-1"))
    assert queue_time({**hangs, **works}, {"p-1": 1000, "p-2": 2 * TARGET_MICROSECONDS}, tmp_path) == ""
    idle = long(scrapes("p-2", **IDLE))
    assert queue_time({**idle, **works}, {"p-1": 1000, "p-2": 0}, tmp_path) == ""
    # a queue is not a model that hangs
    busy = long(scrapes("p-1", pending_request_count=f"9x{_MINUTES}"))
    assert queue_time(busy, {"p-1": 1000}, tmp_path) == ""


def test_a_release_that_does_not_report_waiting_requests_keeps_the_mean(tmp_path: Path) -> None:
    older = deployment(release=find("2.36"))
    works = {name: text for name, text in long(scrapes("p-1")).items() if "pending" not in name}
    assert queue_time(works, {"p-1": 1000}, tmp_path, older) == ""
    assert "ModelHangs" not in str(render("deploy/monitoring/alerts.yaml", older))
    assert queue_time(works, {"p-1": 1000}, tmp_path) != ""  # the control: a missing series hides the mean


def long(values: Series) -> dict[str, str]:
    """Return the values for scrapes every 15 s, which the autoscaler's metric needs."""
    found = {}
    for name, text in values.items():
        start, _, times = text.partition("x")
        first, plus, step = start.partition("+")
        found[name] = f"{first}{plus}{int(step) // 4 if plus else step}x{4 * int(times)}"
    return found
