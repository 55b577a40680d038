"""A kernel process of its own, for tests that kill, interrupt or fork one: `python kernel.py REPOSITORY CODE`.

It serves the repository's SCRIPTED model and runs CODE with `server`, `script` and `say` (a line of JSON to stdout).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from tests.serving import SCRIPTED, SCRIPTED_CONFIG, Script, write_model
from tritonlab.server.api.server import Server


def say(value: Any) -> None:
    os.write(1, json.dumps(value).encode() + b"\n")


def main() -> None:
    repository, code = Path(sys.argv[1]), sys.argv[2]
    write_model(repository, "script", SCRIPTED, SCRIPTED_CONFIG)
    server = Server(repository, model_control_mode="explicit")
    script = Script(server.load("script"))
    exec(code, {"server": server, "script": script, "say": say, "os": os, "sys": sys})
    server.stop()


if __name__ == "__main__":
    main()
