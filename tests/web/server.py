"""A real uvicorn on the loopback, with real worker processes, for one test."""

import socket
import threading
import time
from contextlib import contextmanager

import uvicorn

from neartwin.web.app import create_app
from neartwin.web.service import Settings

PATIENCE = 120
FREE = Settings(workers=2, burst=100_000, per_second=100_000, plan_seconds=300)


@contextmanager
def serving(directory, settings=FREE):
    """The address of a running service; it ends with the block."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        app = create_app(directory, settings)
        server = uvicorn.Server(uvicorn.Config(app, access_log=False, log_level="error", server_header=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            deadline = time.monotonic() + PATIENCE
            while not server.started:
                assert thread.is_alive()
                assert time.monotonic() < deadline
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
