"""Connections of the service's socket. One that sends no whole head of a request is closed: uvicorn would wait for ever."""

import asyncio
import json
import re
import sys
from collections.abc import Sequence
from ipaddress import IPv6Address, ip_address
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from neartwin.errors import AccessError

_REFUSAL = (
    b"HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nCache-Control: no-store\r\nRetry-After: 1\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%b"
)
_SENT = re.compile(rb"\r\n(authorization|cookie):[ \t]*([^\r\n]*)", re.IGNORECASE)
MOST_UNREAD = 2**29  # bytes of answers that wait in memory for their readers
HEAD_SECONDS = 15.0  # from the first byte, or the connection, to the end of a request's head


def address_of(client: Sequence[Any] | None) -> str:
    """The address by which strangers are told apart: of IPv6 the first 64 bits, because one host may have all others.

    Args:
        client: The other end of the connection, as ASGI has it: address and port, or None.
    """
    host = str(client[0]) if client else ""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return host
    return str(address.ipv4_mapped or IPv6Address(int(address) >> 64 << 64))


class HeadLimit(H11Protocol):
    """uvicorn's protocol, with a limit on the time that the head of a request may take."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's
        """Expect a head."""
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Refuse what is too fast, before it is parsed. Expect the rest of a head that began, and not of a whole one."""
        if self.client and self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            sent = {name.decode().lower(): value.decode("latin-1") for name, value in _SENT.findall(data)}
            try:
                self.app_state["check"](address_of(self.client), data.partition(b" ")[0].decode("latin-1"), sent)
            except AccessError as fault:
                content = json.dumps(fault.as_dict()).encode()
                self.transport.write(_REFUSAL % (len(content), content))
                self.transport.close()
                return
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._expect()
        else:
            self._expect_no_more()

    def pause_writing(self) -> None:
        """Write no more before this answer is read. Where others leave too much unread, drop the largest answer of theirs."""
        super().pause_writing()
        unread = {one: one.transport.get_write_buffer_size() for one in self.connections if one is not self}
        if sum(unread.values()) > MOST_UNREAD:
            max(unread, key=unread.__getitem__).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing."""
        self._expect_no_more()
        super().connection_lost(exc)

    def _expect(self) -> None:
        if self._late is None:
            self._late = asyncio.get_running_loop().call_later(HEAD_SECONDS, self.transport.close)

    def _expect_no_more(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def allow_many_connections() -> None:
    """Raise the limit of open files as far as the system lets this process, since each connection is one."""
    if sys.platform == "win32":  # a system without such limits
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
