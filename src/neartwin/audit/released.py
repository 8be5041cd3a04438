"""Subset counts answered by neartwin itself: one release that a ledger paid for, to be attacked like any other answers.

A person whose bit is 1 has a row for each subset that holds them, and a person whose bit is 0 has none: the secret is
whether the person is in the data, which is what the guarantee hides. Questions are groups, so that one plan answers them
all, and its noise is for a person who may be in every one.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from neartwin.accounting.targets import Target
from neartwin.audit.reconstruction import Bits, Subsets
from neartwin.audit.transition import Answerer
from neartwin.exact import FloatArray

_PERSON, _QUESTION = "person", "question"


def released(spend: Callable[[float], Target]) -> Callable[[float, np.random.Generator], Answerer]:
    """Counts from a neartwin release at each setting, for `sweep`: `released(nt.pure)`, `released(nt.gdp)`.

    spend: from a setting to what the whole release may cost. The noise is the release's own, from the system's generator:
    no seed repeats it.

    >>> from neartwin.accounting.targets import pure
    >>> subsets, bits = np.ones((2, 30), np.int8), np.ones(30, np.int8)
    >>> answers = released(pure)(10**6, np.random.default_rng(0))(subsets, bits)
    >>> bool(np.abs(answers - 30).max() < 1)
    True
    """
    return lambda setting, rng: lambda subsets, secret: _counts(subsets, secret, spend(setting))  # noqa: ARG005 - the noise is not seeded


def _counts(subsets: Subsets, secret: Bits, spend: Target) -> FloatArray:
    import pyarrow as pa

    from neartwin.queries.opening import table  # heavy rooms, for this attack alone
    from neartwin.queries.statistics import count_units
    from neartwin.releases.accounts import open_ledger

    questions, people = np.nonzero(subsets * np.asarray(secret, np.int8))
    rows = pa.table({_PERSON: pa.array(people, pa.int64()), _QUESTION: pa.array(questions, pa.int64())})
    asked = table(rows, unit=_PERSON, name="secrets")
    counted = asked.group_by(_QUESTION, keys={_QUESTION: range(len(subsets))}).agg(n=count_units())
    with tempfile.TemporaryDirectory() as folder, open_ledger(Path(folder) / "attack.db") as book:
        account = book.open(asked, spend)
        proposal = account.plan(counted, spend=spend, groups_per_unit=len(subsets))
        return np.array(account.release(proposal)["n"].values)
