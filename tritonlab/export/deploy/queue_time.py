"""The mean time that requests wait in the queue, in the language of Prometheus.

For each model by itself, then the longest of them. A mean over all models would fall when another one is fast or idles,
and the quotient of a model without requests is 0/0, which is NaN and hides every other value in a mean or a maximum
(triton-inference-server/server#8980). So the divisor has a floor, and a model without requests has a queue time of 0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

#: Below one request in `window`, so that it changes no quotient of a model that has any.
_FLOOR = "0.001"
#: The queue time, in microseconds, above which there are too few pods. It is a choice, to be changed in `hpa.yaml`.
TARGET_MICROSECONDS = 50_000
#: The name of the metric in Kubernetes.
METRIC = "triton_queue_time_us"


def per_model(selector: str, window: str) -> str:
    """Return the expression of the mean queue time of each model in microseconds. `selector`: in its braces, which
    labels count."""
    return mean("nv_inference_queue_duration_us", selector, window)


def mean(total: str, selector: str, window: str) -> str:
    """Return the expression of a total of Triton for each successful request."""
    return (
        f"rate({total}{{{selector}}}[{window}])"
        f" / clamp_min(rate(nv_inference_request_success{{{selector}}}[{window}]), {_FLOOR})"
    )


def of_models(names: Sequence[str]) -> str:
    """Return the selector of models by their names."""
    pattern = "|".join(re.sub(r"([.+*?()\[\]{}|^$\\])", r"\\\1", name) for name in names)
    return f"model=~{json.dumps(pattern, ensure_ascii=False)}"
