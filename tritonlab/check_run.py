"""`tritonlab check`: the models of a repository, checked without a notebook."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .check.check_result import CheckResult, junit_xml
from .check.run import CheckOptions, check_model
from .clients.golden import GoldenSet, golden_beside
from .core.status import TritonError
from .repository.layout import model_names
from .server.api.server import Server

#: Exit statuses: nothing was found, something was, or a model could not be checked.
PASSED, FAILED, NOTHING = 0, 1, 2


@dataclass(frozen=True)
class CheckRun:
    """What is to be checked: models of a repository, all of them if `names` is empty. `junit`: where JUnit's XML goes;
    `tests`: where a pytest of each finding goes."""

    repository: Path
    names: Sequence[str] = ()
    seconds: float = 60.0
    seed: int = 0
    relations: Sequence[str] | None = None
    side_effects: bool = False
    junit: Path | None = None
    tests: Path | None = None
    as_json: bool = False
    results: list[tuple[str, CheckResult | str]] = field(default_factory=list)

    def run(self) -> int:
        """Check them, print what was found, and return the exit status."""
        try:
            names = self._models()
        except FileNotFoundError as error:
            print(f"tritonlab: {error}", file=sys.stderr)
            return NOTHING
        with Server(self.repository, model_control_mode="explicit") as server:
            for name in names:
                result = self._checked(server, name)
                self.results.append((name, result))
                if isinstance(result, str):
                    print(f"tritonlab: {name}: {result}", file=sys.stderr, flush=True)
                elif not self.as_json:
                    print(result.text(), flush=True)
                if isinstance(result, CheckResult) and result.stopped:
                    break
        self._write()
        return self._status()

    def _models(self) -> list[str]:
        if not self.repository.is_dir():
            raise FileNotFoundError(f"there is no model repository {self.repository}")
        known = model_names(self.repository)
        for name in self.names:
            if name not in known:
                raise FileNotFoundError(f"{self.repository} has no model '{name}'; it has {', '.join(known) or 'none'}")
        if not known:
            raise FileNotFoundError(f"{self.repository} has no model: no directory with a config.pbtxt or a version")
        return list(self.names) or known

    def _checked(self, server: Server, name: str) -> CheckResult | str:
        options = CheckOptions(
            self.seconds, self.seed, self.relations, side_effects=self.side_effects, progress=self._progress(name)
        )
        golden = GoldenSet(golden_beside(self.repository))
        try:
            return check_model(server.load(name), options, golden=golden)
        except TritonError as error:
            return error.symptom().strip().partition("\n")[0]

    def _progress(self, name: str) -> Any:
        if not sys.stderr.isatty():
            return None
        return lambda doing: print(f"\r\x1b[K{name}: {doing}", end="", file=sys.stderr, flush=True)

    def _write(self) -> None:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        if self.as_json:
            print(json.dumps([_facts(name, result) for name, result in self.results], indent=1))
        if self.junit is not None:
            self.junit.parent.mkdir(parents=True, exist_ok=True)
            self.junit.write_bytes(junit_xml(self.results))
        if self.tests is not None:
            self.tests.mkdir(parents=True, exist_ok=True)
            for _, result in self.results:
                for finding in result.findings if isinstance(result, CheckResult) else ():
                    finding.to_pytest(self.tests)

    def _status(self) -> int:
        checks = [result for _, result in self.results]
        if any(isinstance(one, CheckResult) and not one.ok for one in checks):
            return FAILED
        if any(isinstance(one, str) or not one.checked or one.stopped for one in checks):
            return NOTHING
        return PASSED


def _facts(name: str, result: CheckResult | str) -> dict[str, Any]:
    """Return the result as JSON values, of a model that could not be checked its name and why."""
    return result.to_dict() if isinstance(result, CheckResult) else {"model": name, "checked": False, "error": result}
