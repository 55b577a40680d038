"""The metadata of the server."""

from __future__ import annotations

SERVER_NAME = "triton"
#: The release whose newest behaviour the rule book describes (rule 0.1).
SERVER_VERSION = "2.73.0"
#: The server's extensions (rule 6.2), in Triton's order.
EXTENSIONS = (
    "classification",
    "sequence",
    "model_repository",
    "model_repository(unload_dependents)",
    "schedule_policy",
    "model_configuration",
    "system_shared_memory",
    "cuda_shared_memory",
    "binary_tensor_data",
    "parameters",
    "statistics",
    "trace",
    "logging",
)
