"""What `tritonlab serve` logs about its open ports: who can reach them, and what they may do
there."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping

from ..endpoints import EndpointOptions
from ..shared.access import AccessRules

Record = tuple[str, str]


def openness(options: EndpointOptions, places: Mapping[str, str], model_control_mode: str) -> Iterator[Record]:
    """Return level and text of each log record. `places` maps each open service to its `address:port`."""
    access = options.access
    for service, address in places.items():
        yield "INFO", f"{service} at {address} is open to {_allowed_clients(service, address, options)}"
    clients = "clients with the token" if access.token else "clients"
    if model_control_mode == "explicit" and access.model_control and (free := _unrestricted(options, places)):
        yield _model_control(access, free)
    if access.settings:
        yield "INFO", f"Trace and log settings: {clients} may change them; '--allow-settings=false' ends that"
    if options.client_shm:
        yield "INFO", f"Shared memory: {clients} may have this server read and write any region that its user may"


def _allowed_clients(service: str, place: str, options: EndpointOptions) -> str:
    address = place.rpartition(":")[0].strip("[]")
    if _is(address, "is_loopback") or address == "localhost":
        found = "every user of this machine"
    elif _is(address, "is_unspecified"):
        found = "every machine that reaches this one"
    else:
        found = f"every machine that reaches {address}"
    needs = ["the token"] if options.access.token else []
    if service == "GRPC" and options.grpc_options.use_ssl_mutual:
        needs.append("a certificate")
    return f"{found}, with {' and '.join(needs)}" if needs else found


def _is(address: str, what: str) -> bool:
    try:
        return bool(getattr(ipaddress.ip_address(address), what))
    except ValueError:  # a name
        return False


def _unrestricted(options: EndpointOptions, places: Mapping[str, str]) -> list[str]:
    """Return the services whose model control needs no key (rule 6.1.3)."""
    restricted = {"HTTP": options.http_options.restricted_api, "GRPC": options.grpc_options.restricted}
    return [service for service in places if "model-repository" not in restricted.get(service, ("model-repository",))]


def _model_control(access: AccessRules, services: list[str]) -> Record:
    what = "load any model, which is to run any code as the user of this server"
    if access.token:
        return "INFO", f"Model control: clients with the token may {what}"
    return (
        "WARNING",
        f"Model control: everyone who reaches {' or '.join(services)} may {what}; "
        "'--allow-model-control=false' ends that, '--token-file=<file>' requires a token",
    )
