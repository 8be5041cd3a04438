"""The program of a worker process: `python -m neartwin.web.worker`.

It reads tasks from standard input and writes outcomes to standard output, each as one line of JSON. The first line names
the data directory. Other output is discarded, because an engine's messages may hold data.
"""

import json
import os
import sys

from neartwin.web.data_directory import DataDirectory, outcome


def main() -> None:
    """Work until there are no more lines."""
    tasks = os.fdopen(os.dup(0), encoding="utf-8")
    outcomes = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1, 2):  # an engine that prints must not end up between two outcomes
        os.dup2(nowhere, handle)
    first = json.loads(tasks.readline() or "null")
    if first is None:
        return
    _limit_memory(first["memory"])
    with DataDirectory(first["place"], first["ledger"]) as directory:
        outcomes.write('"ready"\n')
        outcomes.flush()
        for line in tasks:
            outcomes.write(json.dumps(outcome(directory, json.loads(line))) + "\n")
            outcomes.flush()


def _limit_memory(most: int) -> None:
    """Let this process have so many bytes of private memory: asking for more fails its question, and not the machine."""
    if sys.platform == "win32":  # a system without such limits
        return
    import resource

    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


if __name__ == "__main__":
    main()
    sys.exit(0)
