"""The repository agents of a configuration (rule 5.1.8): `checksum`, the only one in NVIDIA's containers."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ..core.config.model_config import ConfigError, ModelConfig
from .layout import read_file

_SEARCHED = "/opt/tritonserver/repoagents"


def run_agents(config: ModelConfig, directory: Path) -> None:
    """Run the agents of a model on its directory. Raises ConfigError, with Triton's texts."""
    agents = config.model_repository_agents.agents
    for agent in agents:
        if agent.name != "checksum":
            library = f"libtritonrepoagent_{agent.name}.so"
            raise ConfigError(f"unable to find '{library}' for repo agent '{agent.name}', searched: {_SEARCHED}")
    for agent in agents:
        for key, expected in agent.parameters.items():
            _compare_checksum(directory, key, expected)


def _compare_checksum(directory: Path, key: str, expected: str) -> None:
    algorithm, colon, path = key.partition(":")
    if not colon:
        raise ConfigError(f"failed to parse key: {key}")
    if algorithm.lower() != "md5":
        raise ConfigError(f"Unsupported checksum algorithm: {algorithm}")
    try:
        content = read_file(directory / path)
    except OSError as error:
        raise ConfigError(f"failed to open text file for read {path}: {error.strerror}") from None
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != expected:
        raise ConfigError(f"Mismatched MD5 hash for file {path}, expect: {expected}, got: {found}")
