"""The median of an honest analyst beside 1,000 guesses a second and 1,100 slow connections, over the median alone.

    python bench/bench_guesses.py [SECONDS [GUESSES]]      by default 40 s of 1,000 guesses a second

Prints one ratio; its bar is 1.5. Strangers and analyst share the machine with the service, which takes processor time from it:
the processor time of the server for each guess stands beside the ratio.
"""

import http.client
import multiprocessing
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

import psutil

from neartwin.web.connections import allow_many_connections
from neartwin.web.data_directory import DataDirectory

SLOW, PAUSE = 1_100, 5  # connections, and the seconds between two letters of each; a head may take 15 s
HEAD = b"GET /v1/me HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer nt_0123456789abcdef_" + b"0" * 64 + b"\r\n"


def guesser(port, seconds, rate, counts):
    """Guess so often a second, each guess on a connection of its own, beside connections that send a letter now and then."""
    slow = deque((socket.create_connection(("127.0.0.1", port)), 0) for _ in range(SLOW))
    start, number, letters, open_ones = time.monotonic(), 0, 0, []
    while (now := time.monotonic() - start) < seconds:
        if letters < SLOW * now / PAUSE:
            letters += 1
            one, sent = slow.popleft()
            try:
                one.sendall(HEAD[sent : sent + 1])
            except OSError:  # the service closed it, so that another one begins
                one, sent = socket.create_connection(("127.0.0.1", port)), -1
            slow.append((one, sent + 1))
            continue
        if number > rate * now:
            time.sleep(0.001)
            continue
        number += 1
        one = socket.create_connection(("127.0.0.1", port))
        one.sendall(HEAD + b"\r\n")
        open_ones.append(one)
        if len(open_ones) > 50:  # it does not wait for answers
            open_ones.pop(0).close()
    counts.put(number)


def median(port, token, seconds):
    """The median of an analyst's requests on one connection, in ms."""
    wire, took, ends = http.client.HTTPConnection("127.0.0.1", port), [], time.monotonic() + seconds
    while time.monotonic() < ends:
        start = time.perf_counter()
        wire.request("GET", "/v1/me", headers={"Authorization": f"Bearer {token}"})
        answer = wire.getresponse().read()
        if not answer.startswith(b'{"name":"ada"'):
            sys.exit(f"the analyst was refused: {answer[:200]}")
        took.append(time.perf_counter() - start)
        time.sleep(0.02)
    return 1000 * statistics.median(took)


def main():
    """Measure alone, then beside strangers."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 40
    guesses = float(sys.argv[2]) if len(sys.argv) > 2 else 1000
    allow_many_connections()
    folder = Path(tempfile.mkdtemp(prefix="neartwin-bench-"))
    with DataDirectory(folder) as directory:
        token = directory.mint("ada", "analyst", by="bench")[1]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "neartwin", "serve", "--data", str(folder), "--port", str(port)]
    server = subprocess.Popen([*command, "--workers", "1"], stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionError:
                time.sleep(0.1)
        median(port, token, 2)
        alone, clock = median(port, token, seconds), psutil.Process(server.pid).cpu_times
        counts = multiprocessing.Queue()
        stranger = multiprocessing.Process(target=guesser, args=(port, seconds + 1, guesses, counts))
        stranger.start()
        before = clock()
        beside = median(port, token, seconds)
        used = sum(clock()[:2]) - sum(before[:2])
        number = counts.get()
        stranger.join()
    finally:
        server.terminate()
        server.wait()
    print(f"alone {alone:.2f} ms, beside {number / (seconds + 1):.0f} guesses a second {beside:.2f} ms")
    print(f"processor of the server for a guess, honest requests included: {1000 * used / number:.3f} ms")
    print(f"ratio {beside / alone:.2f}")


if __name__ == "__main__":
    main()
