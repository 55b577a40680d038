"""`GRPCOptions`, apart from the server that uses them, which imports gRPC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...server.options import MAX_UNREAD_SIZE
from .access import AccessRules


@dataclass(frozen=True)
class GRPCOptions:
    """The `--grpc-*` flags of tritonserver; None leaves gRPC's own value. Times are milliseconds if the name ends in
    `_ms`.

    `access`: the access rules. `reuse_port`: whether other servers with this option may have the same port; otherwise a
    port in use is an error. `restricted`: category -> (key, value) that a client must send, the key after
    RESTRICTED_PREFIX. `compression`: of infer responses. `max_unread_size`: bytes of responses that may wait for the
    client of a stream. Files of certificates are PEM; with `use_ssl_mutual` clients need a certificate.
    """

    access: AccessRules = field(default_factory=AccessRules)
    reuse_port: bool = False
    header_forward_pattern: str | None = None
    restricted: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    compression: str = "none"
    use_ssl: bool = False
    use_ssl_mutual: bool = False
    server_cert: str | None = None
    server_key: str | None = None
    root_cert: str | None = None
    keepalive_time_ms: int | None = 7_200_000
    keepalive_timeout_ms: int | None = 20_000
    keepalive_permit_without_calls: bool | None = False
    http2_max_pings_without_data: int | None = 2
    http2_min_recv_ping_interval_without_data_ms: int | None = 300_000
    http2_max_ping_strikes: int | None = 2
    max_connection_age_ms: int | None = None
    max_connection_age_grace_ms: int | None = None
    max_unread_size: int = MAX_UNREAD_SIZE

    def channel_arguments(self) -> list[tuple[str, int]]:
        """Return the options under gRPC's names."""
        options = {
            "grpc.keepalive_time_ms": self.keepalive_time_ms,
            "grpc.keepalive_timeout_ms": self.keepalive_timeout_ms,
            "grpc.keepalive_permit_without_calls": self.keepalive_permit_without_calls,
            "grpc.http2.max_pings_without_data": self.http2_max_pings_without_data,
            "grpc.http2.min_ping_interval_without_data_ms": self.http2_min_recv_ping_interval_without_data_ms,
            "grpc.http2.max_ping_strikes": self.http2_max_ping_strikes,
            "grpc.max_connection_age_ms": self.max_connection_age_ms,
            "grpc.max_connection_age_grace_ms": self.max_connection_age_grace_ms,
        }
        return [
            ("grpc.max_send_message_length", -1),  # `InferResponseWriter` checks before it writes
            ("grpc.so_reuseport", int(self.reuse_port)),
            *((name, int(value)) for name, value in options.items() if value is not None),
        ]
