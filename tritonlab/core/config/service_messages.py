"""The messages of Triton's gRPC service, `messages.ModelInferRequest` and all others, and its calls."""

from __future__ import annotations

from . import model_config  # noqa: F401 - the file of the service imports that of the configuration
from .triton_messages import load_messages

messages = load_messages("service_pb2")
SERVICE = messages.DESCRIPTOR.services_by_name["GRPCInferenceService"]
