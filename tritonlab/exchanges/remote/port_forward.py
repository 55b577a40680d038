"""Ports of a Kubernetes service on this machine, as `kubectl port-forward` makes them, by kr8s."""

from __future__ import annotations

import importlib
import random
import re
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from ...core.status import UnavailableError, UnsupportedError

_PLACE = re.compile(r"(?P<namespace>[^/:]+)/(?P<service>[^/:]+):(?P<port>[\w-]+)")


class PortForward:
    """A port of a service, of one of its ready pods, as a port of this machine: `address`. Close it."""

    def __init__(self, place: str, options: Mapping[str, Any]) -> None:
        """Open the port.

        place: `namespace/service:port`, the port of the service by its number or name. options: of `kr8s.api`, such as
        `context` and `kubeconfig`.

        Raises UnsupportedError without kr8s, ValueError for another form of `place`, UnavailableError if there is no
        cluster, service, port or ready pod.
        """
        found = _PLACE.fullmatch(place)
        if found is None:
            raise ValueError(f"'{place}' is not a service: write kube://namespace/service:port")
        try:
            kr8s: Any = importlib.import_module("kr8s")
            objects: Any = importlib.import_module("kr8s.objects")
        except ModuleNotFoundError:
            raise UnsupportedError("kube:// needs kr8s: pip install 'tritonlab[kubernetes]'") from None
        self._open = ExitStack()
        try:
            service = objects.Service.get(found["service"], namespace=found["namespace"], api=kr8s.api(**options))
            pods = service.ready_pods()
        except Exception as error:  # of kr8s, of httpx, or of a file that is not a kubeconfig
            raise _failure(place, error) from None
        if not pods:
            raise UnavailableError(f"kube://{place}: no pod of the service is ready")
        pod = random.SystemRandom().choice(pods)
        port = _port_of_pod(place, service.raw["spec"]["ports"], found["port"], pod.raw)
        try:
            opened = self._open.enter_context(pod.portforward(port, local_port="auto"))
        except Exception as error:
            raise _failure(place, error) from None
        self.address = f"127.0.0.1:{opened}"

    def close(self) -> None:
        self._open.close()


def _failure(place: str, error: Exception) -> UnavailableError:
    return UnavailableError(f"kube://{place}: {type(error).__name__}: {error}")


def _port_of_pod(place: str, ports: Any, wanted: str, pod: Mapping[str, Any]) -> int:
    """Return the number of the pod's port that the service's port leads to. Raises ValueError."""
    known = {str(each.get(key)): each for each in ports for key in ("name", "port") if each.get(key)}
    if wanted not in known:
        raise ValueError(f"kube://{place}: the service has no port '{wanted}', but {', '.join(known)}")
    target = known[wanted].get("targetPort", known[wanted]["port"])
    if isinstance(target, int):
        return target
    named = {
        port["name"]: int(port["containerPort"])
        for container in pod["spec"]["containers"]
        for port in container.get("ports", ())
        if "name" in port
    }
    if target not in named:
        raise ValueError(f"kube://{place}: the port leads to '{target}', which no container of the pod names")
    return named[target]
