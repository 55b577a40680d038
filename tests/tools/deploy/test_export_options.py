"""The options of an export, made of what a call, a line or a window gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tritonlab.core.unknown_option import UnknownOption
from tritonlab.tools.deploy.environment.placed import EnvironmentOptions
from tritonlab.tools.deploy.export_options import ExportOptions


def test_without_options_and_with_none_they_are_the_same() -> None:
    plain, nothing = ExportOptions(), ExportOptions.from_keywords(env=None, verify=None, artifacts=None, last=None)
    for name in ("overwrite", "alone", "target", "env", "capture", "artifacts", "last", "dry_run"):
        assert getattr(plain, name) == getattr(nothing, name)
    assert (nothing.include, nothing.deploy, nothing.verify) == ([], [], [])
    assert plain.cancel is not nothing.cancel


def test_words_and_lists_are_lists() -> None:
    texts = ExportOptions.from_keywords(include="a,b.bin", deploy="docker, k8s", verify="2.51,2.41")
    assert (texts.include, texts.deploy, texts.verify) == (["a,b.bin"], ["docker", "k8s"], ["2.51", "2.41"])
    lists = ExportOptions.from_keywords(include=["a,b.bin"], deploy=["docker", "k8s"], verify=["2.51", "2.41"])
    assert (texts.include, texts.deploy, texts.verify) == (lists.include, lists.deploy, lists.verify)
    assert ExportOptions.from_keywords(verify=True, target="kserve").verify == ["kserve"]
    assert ExportOptions.from_keywords(overwrite="replace").overwrite is True


def test_the_environment_is_for_the_target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert ExportOptions.from_keywords(env="dir", target="2.49").env == EnvironmentOptions("dir", "2.49")
    assert ExportOptions.from_keywords(env="~/own").env.choice == f"{tmp_path}/own"
    own = EnvironmentOptions("dir", python="3.12")
    assert ExportOptions.from_keywords(env=own, target="kserve").env == EnvironmentOptions("dir", "kserve", "3.12")


def test_an_option_that_is_not_known_is_refused() -> None:
    with pytest.raises(UnknownOption, match="did you mean 'deploy'"):
        ExportOptions.from_keywords(deplyo="docker")
