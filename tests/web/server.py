"""A real uvicorn on the loopback, with real worker processes or with a worker that is a thread."""

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from unittest.mock import patch

import uvicorn

from neartwin.web.app import create_app
from neartwin.web.connections import HeadLimit
from neartwin.web.data_directory import DataDirectory, outcome
from neartwin.web.service import Settings

PATIENCE = 120
FREE = Settings(workers=2, burst=100_000, per_second=100_000, plan_seconds=300)


class ThreadWorkers:
    """A worker in this process. A process of its own takes seconds to start; tests of processes, crowds and pages have one."""

    alive, waiting = 1, 0

    def __init__(self, *, place, ledger, **_):
        self._directory, self._pool = DataDirectory(place, ledger), ThreadPoolExecutor(1)

    def submit(self, task, *, seconds, started=dict):
        def run():
            return json.loads(json.dumps(outcome(self._directory, json.loads(json.dumps({**task, **started()})))))

        return self._pool.submit(run)

    def close(self):
        self._pool.shutdown()
        self._directory.close()


def without_processes():
    """While it lasts, services that start have a thread for a worker."""
    return patch("neartwin.web.app.Workers", ThreadWorkers)


@contextmanager
def serving(directory, settings=FREE):
    """The address of a running service; it ends with the block."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        app = create_app(directory, settings)
        config = uvicorn.Config(app, http=HeadLimit, access_log=False, log_level="error", server_header=False)
        server = uvicorn.Server(config)
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
