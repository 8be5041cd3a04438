"""Connections of the service's socket. One that sends no whole head of a request is closed: uvicorn would wait for ever."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 15.0  # from the first byte, or the connection, to the end of a request's head


class HeadLimit(H11Protocol):
    """uvicorn's protocol, with a limit on the time that the head of a request may take."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """As uvicorn's."""
        super().__init__(*args, **kwargs)
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's
        """Expect a head."""
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Expect the rest of a head that has begun, and no longer one that is whole."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._expect()
        else:
            self._expect_no_more()

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
    try:
        import resource
    except ImportError:  # a system without such limits
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
