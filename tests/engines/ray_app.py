"""A Ray cluster of one machine with an application of ours, run by Ray's own Python: `python -m tests.engines.ray_app
REPOSITORY PORT MODEL...`.

Reads one JSON array a line: `["replicas", least, most]` deploys. Answers each with one line of JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import ray
from ray import serve

from tritonlab.ray import make_application


def main(repository: str, port: str, *models: str) -> None:
    ray.init(num_cpus=16, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20)
    serve.start(http_options={"host": "127.0.0.1", "port": int(port)})
    try:
        for line in sys.stdin:
            _, *arguments = json.loads(line)
            try:
                answer = deploy(repository, models, *arguments)
            except Exception as error:
                answer = {"error": str(error)}
            print("ANSWER " + json.dumps(answer), flush=True)
    finally:
        serve.shutdown()
        ray.shutdown()


def deploy(repository: str, models: tuple[str, ...], least: int, most: int) -> Any:
    application = make_application(
        repository, models, num_cpus=0.1, min_replicas=least, max_replicas=most, target_ongoing_requests=2
    )
    serve.run(application, name="models", route_prefix="/")
    return "deployed"


if __name__ == "__main__":
    main(*sys.argv[1:])
