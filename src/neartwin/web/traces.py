"""Traces by OpenTelemetry, where its package is installed: a span for each request and for each task of a worker.

A span has no question and no value. It has a duration, which may depend on data: only who may see the data reads traces.
"""

from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from typing import Any

_INSTALLED = find_spec("opentelemetry") is not None


def span(name: str, **facts: str) -> AbstractContextManager[Any]:
    """A span below the one that surrounds it, or None where the package is not installed.

    Args:
        name: The span's name.
        facts: Its attributes.
    """
    if not _INSTALLED:
        return nullcontext()
    from opentelemetry import trace

    tracer = trace.get_tracer("neartwin")  # which records no exception: its text may hold a value
    return tracer.start_as_current_span(name, attributes=facts, record_exception=False, set_status_on_exception=False)
