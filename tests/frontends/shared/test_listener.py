from __future__ import annotations

import errno
import os
import socket

import pytest

from tritonlab.core.status import InvalidArgumentError, UnavailableError
from tritonlab.frontends.shared.listener import FileWatch, check_free, listen, port_owner


def test_port_0_is_any_free_one() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            pass


def test_a_port_in_use_is_refused_and_its_owner_named() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(UnavailableError) as refusal:
            listen("127.0.0.1", port)
        assert str(refusal.value).startswith(f"Socket '127.0.0.1:{port}' already in use by process {os.getpid()} (")
        with pytest.raises(UnavailableError):
            check_free("127.0.0.1", port)
    check_free("127.0.0.1", port)


def test_a_port_is_shared_by_those_that_all_say_so() -> None:
    with listen("127.0.0.1", 0, shared=True) as one:
        port = one.getsockname()[1]
        check_free("127.0.0.1", port, shared=True)
        with socket.create_connection(("127.0.0.1", port)) as caller, one.accept()[0] as taken:
            assert taken.getpeername() == caller.getsockname()
        with listen("127.0.0.1", port, shared=True) as other:
            assert other.getsockname() == one.getsockname()
        for bind in (check_free, listen):
            with pytest.raises(UnavailableError):
                bind("127.0.0.1", port)
    with listen("127.0.0.1", 0) as alone, pytest.raises(UnavailableError):
        check_free("127.0.0.1", alone.getsockname()[1], shared=True)


def test_the_owner_is_found_behind_descriptors_that_close_meanwhile() -> None:
    spare = os.open(os.devnull, os.O_RDONLY)  # below the listener's: the next one opened, as to list /proc/self/fd
    with listen("127.0.0.1", 0) as listener:
        os.close(spare)
        assert port_owner(listener.getsockname()[1]).startswith(f"process {os.getpid()} (")


def test_a_forked_child_does_not_keep_the_port() -> None:
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    here, there = socket.socketpair()
    child = os.fork()
    if child == 0:
        there.send(b"begun")
        here.close()
        there.recv(1)  # until the parent closes its end
        os._exit(0)
    there.close()
    here.recv(5)
    listener.close()
    try:
        check_free("127.0.0.1", port)
    finally:
        here.close()
        os.waitpid(child, 0)


def test_nobody_owns_a_free_port() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
    assert port_owner(port) == ""


@pytest.mark.parametrize(("address", "port"), [("192.0.2.1", 0), ("no.such.host.invalid", 0), ("127.0.0.1", 70000)])
def test_what_nothing_can_listen_on(address: str, port: int) -> None:
    with pytest.raises(InvalidArgumentError, match=address):
        listen(address, port)


def test_an_address_of_version_6() -> None:
    try:
        listener = listen("::1", 0)
    except InvalidArgumentError:
        pytest.skip("this machine has no IPv6")
    with listener, socket.create_connection(("::1", listener.getsockname()[1])):
        pass


def test_each_shortage_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[str] = []
    watch = FileWatch(reports.append)

    def short(path: str, flags: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    for turn in (0, 1, 2):
        assert len(reports) == turn
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", short)
            watch.look()
            watch.look()
        watch.look()
    assert all(text.startswith("no connection can be accepted: too many open files: ") for text in reports)
