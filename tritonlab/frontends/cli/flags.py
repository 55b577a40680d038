"""The flags of `tritonlab serve`: tritonserver's, including its newest, and ours, for access
(`access.py`).

A tritonserver flag without effect here is accepted, so that tritonserver's command lines work here. At its start the
server logs each such flag with the reason, which is also in the help.
"""

from __future__ import annotations

from ...tool_table import ports
from ..shared.listener import GRPC_PORT, HTTP_PORT, LOOPBACK, METRICS_PORT
from .command_line import Flag, Groups
from .flag_values import (
    BACKEND_SETTINGS,
    BOOLEAN,
    CACHE_SETTINGS,
    FLOAT,
    INTEGER,
    NAME,
    PAIRS,
    PATTERN,
    POLICY_SETTINGS,
    RESOURCES,
    RESTRICTED_APIS,
    RESTRICTED_PROTOCOLS,
    SETTINGS,
    SIZE,
    SWITCH,
    TEXT,
    TEXTS,
    TRACE_LEVELS,
    TRACE_SETTINGS,
    Kind,
    one_of,
)


def _inert(name: str, kind: Kind, why: str) -> Flag:
    return Flag(name, kind, "", why)


_OUTSIDE = "Where it listens; 0.0.0.0 lets other machines in."
_PORT = "The port; 0 is any free one."
_REUSE = "Whether several servers that all set this may share the port; each gets a part of the connections."
_FORWARD = "Headers in whose name this regular expression of RE2 is found, capitals or not, become request parameters."
_RESTRICT = "Parts of the protocol that need a header with this value."
_ORIGIN = "A web page's origin that may send requests, or *. May be repeated."
_HOST = "A host name clients may use beside addresses, localhost and the machine's own, or *. May be repeated."
_LEAVES = (
    "Whether a client that closes its connection, or its side of it, cancels its request. Default: false, as Triton; "
    "true in a notebook."
)
_PAGE = "Show the models at / for a browser, with examples to send, and serve /openapi.json."
_STRICT = "Require every config.pbtxt to be complete."

GROUPS: Groups = {
    "Server": (
        Flag("help", SWITCH, "process.help", "Shows this.", default=False),
        Flag("id", TEXT, "server.server_id", "The server's name, in its metadata.", default="triton"),
        Flag(
            "exit-timeout-secs",
            INTEGER,
            "process.exit_timeout",
            "Seconds requests in flight get at the end.",
            default=30,
        ),
    ),
    "Logging": (
        Flag("log-verbose", INTEGER, "log.log_verbose_level", "Verbose records are written from 1 on.", default=0),
        Flag("log-info", BOOLEAN, "log.log_info", "Whether INFO records are written.", default=True),
        Flag("log-warning", BOOLEAN, "log.log_warning", "Whether WARNING records are written.", default=True),
        Flag("log-error", BOOLEAN, "log.log_error", "Whether ERROR records are written.", default=True),
        Flag(
            "log-format",
            one_of("default", "ISO8601", exact=True),
            "log.log_format",
            "How time and level look.",
            default="default",
        ),
        Flag("log-file", TEXT, "log.log_file", "The file for records; what models print stays on stdout."),
    ),
    "Model repository": (
        Flag("model-store", TEXTS, "server.repositories", "The same as --model-repository."),
        Flag("model-repository", TEXTS, "server.repositories", "A directory of models. May be repeated."),
        Flag(
            "exit-on-error",
            BOOLEAN,
            "process.exit_on_error",
            "End if a model cannot be loaded at the start.",
            default=True,
        ),
        Flag("disable-auto-complete-config", SWITCH, "server.strict_model_config", _STRICT),
        Flag("strict-readiness", BOOLEAN, "server.strict_readiness", "Ready only if all models are.", default=True),
        Flag(
            "model-control-mode",
            one_of("none", "poll", "explicit"),
            "server.model_control_mode",
            "none: load all models at the start. poll: follow the repository. explicit: load what clients ask for.",
            default="none",
        ),
        Flag(
            "repository-poll-secs",
            INTEGER,
            "server.repository_poll_secs",
            "Seconds between polls; 0 is never.",
            default=15,
        ),
        Flag("load-model", TEXTS, "server.startup_models", "In explicit mode: what to load at the start; * is all."),
        Flag(
            "model-config-name",
            NAME,
            "server.model_config_name",
            "A model's configs/<name>.pbtxt counts instead of its config.pbtxt, where it has one.",
            default="",
        ),
        Flag(
            "model-load-thread-count", INTEGER, "server.model_load_thread_count", "Loads at the same time.", default=4
        ),
        Flag(
            "model-load-retry-count",
            INTEGER,
            "server.model_load_retry_count",
            "How often a version that fails to load is tried again; a negative count is without end.",
            default=0,
        ),
        Flag(
            "model-namespacing",
            BOOLEAN,
            "server.model_namespacing",
            "Whether a name that two repositories have is served from both, each to the ensembles beside it.",
            default=False,
        ),
        _inert("enable-peer-access", BOOLEAN, "a GPU reads another's memory wherever the driver lets it."),
    ),
    "HTTP": (
        Flag("allow-http", BOOLEAN, "endpoints.http", "Whether HTTP is served.", default=True),
        Flag("http-address", TEXT, "endpoints.http_address", _OUTSIDE, default=LOOPBACK),
        Flag("http-port", INTEGER, "endpoints.http_port", _PORT, default=HTTP_PORT),
        Flag("reuse-http-port", BOOLEAN, "http.reuse_port", _REUSE, default=False),
        Flag("http-header-forward-pattern", PATTERN, "http.header_forward_pattern", _FORWARD),
        Flag("http-cancel-on-disconnect", BOOLEAN, "endpoints.http_cancel_on_disconnect", _LEAVES, ours=True),
        Flag("http-max-input-size", SIZE, "http.max_input_size", "Bytes of JSON, or of a raw body.", default=64 << 20),
        _inert("http-thread-count", INTEGER, "one event loop serves HTTP."),
        Flag("http-restricted-api", RESTRICTED_APIS, "http.restricted_api", _RESTRICT),
        Flag("models-page", SWITCH, "http.models_page", _PAGE, default=False, ours=True),
        Flag("allowed-origin", TEXTS, "access.origins", _ORIGIN, ours=True),
        Flag("allowed-host", TEXTS, "access.hosts", _HOST, ours=True),
    ),
    "gRPC": (
        Flag("allow-grpc", BOOLEAN, "endpoints.grpc", "Whether gRPC is served.", default=True),
        Flag("grpc-address", TEXT, "endpoints.grpc_address", _OUTSIDE, default=LOOPBACK),
        Flag("grpc-port", INTEGER, "endpoints.grpc_port", _PORT, default=GRPC_PORT),
        Flag("reuse-grpc-port", BOOLEAN, "grpc.reuse_port", _REUSE, default=False),
        Flag("grpc-header-forward-pattern", PATTERN, "grpc.header_forward_pattern", _FORWARD),
        _inert("grpc-infer-allocation-pool-size", INTEGER, "messages are not kept for reuse."),
        Flag("grpc-use-ssl", BOOLEAN, "grpc.use_ssl", "Whether the server shows a certificate.", default=False),
        Flag(
            "grpc-use-ssl-mutual", BOOLEAN, "grpc.use_ssl_mutual", "Whether clients must show one, too.", default=False
        ),
        Flag("grpc-server-cert", TEXT, "grpc.server_cert", "File of the server's certificate, PEM."),
        Flag("grpc-server-key", TEXT, "grpc.server_key", "File of the server's key, PEM."),
        Flag("grpc-root-cert", TEXT, "grpc.root_cert", "File of the root certificate, PEM."),
        Flag(
            "grpc-infer-response-compression-level",
            one_of("none", "low", "medium", "high"),
            "grpc.compression",
            "How much responses are compressed.",
            default="none",
        ),
        Flag("grpc-keepalive-time", INTEGER, "grpc.keepalive_time_ms", "Milliseconds between pings."),
        Flag("grpc-keepalive-timeout", INTEGER, "grpc.keepalive_timeout_ms", "Milliseconds to answer a ping."),
        Flag(
            "grpc-keepalive-permit-without-calls",
            BOOLEAN,
            "grpc.keepalive_permit_without_calls",
            "Whether an idle connection is pinged.",
        ),
        Flag(
            "grpc-http2-max-pings-without-data",
            INTEGER,
            "grpc.http2_max_pings_without_data",
            "Pings sent while there is nothing else to send; 0 is any number.",
        ),
        Flag(
            "grpc-http2-min-recv-ping-interval-without-data",
            INTEGER,
            "grpc.http2_min_recv_ping_interval_without_data_ms",
            "Milliseconds between a client's pings below which they are bad.",
        ),
        Flag(
            "grpc-http2-max-ping-strikes",
            INTEGER,
            "grpc.http2_max_ping_strikes",
            "Bad pings that close a connection; 0 is any number.",
        ),
        Flag("grpc-max-connection-age", INTEGER, "grpc.max_connection_age_ms", "Milliseconds a connection lasts."),
        Flag(
            "grpc-max-connection-age-grace",
            INTEGER,
            "grpc.max_connection_age_grace_ms",
            "Milliseconds the calls of a connection of that age get.",
        ),
        Flag("grpc-restricted-protocol", RESTRICTED_PROTOCOLS, "grpc.restricted", _RESTRICT),
    ),
    "Access": (
        Flag(
            "token-file",
            TEXT,
            "access.token_file",
            "A file of mode 0600 with a token that HTTP, gRPC and metrics want: 'Authorization: Bearer <token>'.",
            ours=True,
        ),
        Flag(
            "allow-model-control",
            BOOLEAN,
            "access.model_control",
            "Whether clients may load and unload models, which runs code. Default: true; false in a notebook.",
            ours=True,
        ),
        Flag(
            "allow-settings",
            BOOLEAN,
            "access.settings",
            "Whether clients may use the settings of traces and log. Default: true; false in a notebook.",
            ours=True,
        ),
    ),
    "Clients' shared memory": (
        Flag("allow-client-shm", BOOLEAN, "endpoints.client_shm", "Whether clients may register any.", default=False),
    ),
    "Clouds": (
        _inert("allow-sagemaker", BOOLEAN, "SageMaker's protocol is not served."),
        _inert("sagemaker-port", INTEGER, "SageMaker's protocol is not served."),
        _inert("sagemaker-safe-port-range", TEXT, "SageMaker's protocol is not served."),
        _inert("sagemaker-thread-count", INTEGER, "SageMaker's protocol is not served."),
        _inert("allow-vertex-ai", BOOLEAN, "Vertex AI's protocol is not served."),
        _inert("vertex-ai-port", INTEGER, "Vertex AI's protocol is not served."),
        _inert("vertex-ai-thread-count", INTEGER, "Vertex AI's protocol is not served."),
        _inert("vertex-ai-default-model", TEXT, "Vertex AI's protocol is not served."),
    ),
    "Metrics": (
        Flag("allow-metrics", BOOLEAN, "endpoints.metrics", "Whether /metrics is served.", default=True),
        Flag("allow-gpu-metrics", BOOLEAN, "metrics.gpu", "Whether GPUs are measured.", default=True),
        Flag("allow-cpu-metrics", BOOLEAN, "metrics.cpu", "Whether CPU and memory are measured.", default=True),
        Flag("metrics-address", TEXT, "endpoints.metrics_address", "Where it listens; where HTTP does if left out."),
        Flag("metrics-port", INTEGER, "endpoints.metrics_port", _PORT, default=METRICS_PORT),
        Flag("metrics-interval-ms", FLOAT, "metrics.interval_ms", "Milliseconds between two measurements."),
        Flag(
            "metrics-config", SETTINGS, "metrics.settings", "A setting such as summary_latencies=true. May be repeated."
        ),
    ),
    "Tracing": (
        Flag(
            "trace-config",
            TRACE_SETTINGS,
            "trace.settings",
            "level, rate, count, mode; triton,file and triton,log-frequency. May be repeated.",
        ),
    ),
    "Backend": (
        Flag("backend-directory", TEXT, "server.backend_directory", "Where Python-based backends are."),
        Flag(
            "backend-config", BACKEND_SETTINGS, "backend.settings", "A setting of the Python backend. May be repeated."
        ),
        Flag(
            "backend-choice",
            SETTINGS,
            "choices.backends",
            "What answers for a model, or for those of a backend: mlp=stand-in, tensorrt=borrow:host:8001, real, "
            "recorded. May be repeated; tritonlab.toml beside the repository can say more.",
            ours=True,
        ),
        _inert("repoagent-directory", TEXT, "there are no repository agents."),
    ),
    "Response cache": (
        Flag("cache-config", CACHE_SETTINGS, "cache.settings", "local,size=<bytes> switches it on."),
        _inert("cache-directory", TEXT, "the local cache is the only one, and needs no library."),
    ),
    "Rate limiter": (
        Flag(
            "rate-limit",
            one_of("execution_count", "off"),
            "server.rate_limit",
            "Whether rate_limiter of a config counts.",
            default="off",
        ),
        Flag(
            "rate-limit-resource", RESOURCES, "resources.resources", "How much there is of a resource. May be repeated."
        ),
    ),
    "Memory and devices": (
        Flag(
            "max-message-size",
            SIZE,
            "endpoints.max_message_size",
            "Bytes of one request, and of one gRPC answer; all requests may have twice as many. Default: a quarter "
            "of the memory; for a request over gRPC an eighth.",
            ours=True,
        ),
        Flag(
            "max-unread-size",
            SIZE,
            "endpoints.max_unread_size",
            "Bytes of responses that may wait for a client that does not read its stream. Default: 256 MB.",
            ours=True,
        ),
        _inert("pinned-memory-pool-byte-size", SIZE, "tensors cross in memory the model's process shares."),
        Flag(
            "cuda-memory-pool-byte-size",
            PAIRS,
            "pools.cuda",
            "The GPU memory in which tensors cross to models, 64 MB each. May be repeated.",
        ),
        _inert("cuda-virtual-address-size", PAIRS, "states of sequences are in host memory."),
        _inert("min-supported-compute-capability", FLOAT, "GPUs are used from 6.0 on, Triton's default."),
        _inert("buffer-manager-thread-count", INTEGER, "a tensor is copied by the thread that sends it."),
        _inert("host-policy", POLICY_SETTINGS, "model processes run where the system puts them."),
        Flag(
            "simulated-gpus",
            INTEGER,
            "server.simulated_gpus",
            "How many GPUs to simulate in the place of this machine's.",
            default=0,
            ours=True,
        ),
        _inert("model-load-gpu-limit", TEXT, "a model that does not fit fails to load."),
    ),
    "Tools": (
        *(
            Flag(f"{port.name}-port", INTEGER, f"tool_ports.{port.name}", port.about, ours=True)
            for port in ports().values()
        ),
    ),
    "Deprecated": (
        Flag("strict-model-config", BOOLEAN, "server.strict_model_config", _STRICT, default=False),
        Flag("response-cache-byte-size", SIZE, "cache.byte_size", "The same as --cache-config local,size."),
        Flag("trace-file", TEXT, "trace.file", "The same as --trace-config triton,file."),
        Flag("trace-level", TRACE_LEVELS, "trace.levels", "The same as --trace-config level."),
        Flag("trace-rate", INTEGER, "trace.rate", "The same as --trace-config rate."),
        Flag("trace-count", INTEGER, "trace.count", "The same as --trace-config count."),
        Flag("trace-log-frequency", INTEGER, "trace.log_frequency", "The same as --trace-config triton,log-frequency."),
    ),
}

#: The flags that only `%triton serve` has: its ports need a token that it makes.
NOTEBOOK: Groups = {
    "Notebook": (
        Flag("no-token", SWITCH, "access.no_token", "Let in everyone who reaches the ports, with a token or without."),
        *(
            Flag(port.name, SWITCH, f"tool_switches.{port.name}", f"The same as --{port.name}-port {port.usual}.")
            for port in ports().values()
        ),
    ),
}
