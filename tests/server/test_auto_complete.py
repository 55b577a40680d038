"""Configurations that a model completes itself (rules 2.4, 1.17.4)."""

from __future__ import annotations

import pytest

from tests.serving import Lab
from tritonlab.core.status import ModelLoadError

UNUSABLE = """
class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.as_dict()["max_batch_size"] = 7
        config.as_dict()["foo"] = 1
        return config

    def execute(self, requests):
        return []
"""
WARNING = "what auto_complete_config returned is not a model configuration and is dropped: "


def warnings(lab: Lab, model: str) -> list[str]:
    return [r.text for r in lab.server.logs(model) if (r.stream, r.level) == ("server", "WARNING")]


@pytest.mark.rule("1.17.4")
def test_an_unusable_completion_is_dropped_with_a_warning_where_there_is_a_configuration(lab: Lab) -> None:
    model = lab.load("configured", UNUSABLE, 'backend: "python" max_batch_size: 2')
    assert model.config()["max_batch_size"] == 2
    (text,) = warnings(lab, "configured")
    assert text.startswith(WARNING)
    assert "foo" in text
    lab.server.unload(model)


@pytest.mark.rule("1.17.4")
def test_a_configuration_that_was_passed_is_one(lab: Lab) -> None:
    lab.write("passed", UNUSABLE)
    with pytest.raises(ModelLoadError, match="Not found: model configuration is not provided for model 'passed'"):
        lab.server.load("passed")
    assert warnings(lab, "passed") == []
    model = lab.server.load("passed", {"backend": "python", "max_batch_size": 3})
    assert model.config()["max_batch_size"] == 3
    assert len(warnings(lab, "passed")) == 1
    lab.server.unload(model)
