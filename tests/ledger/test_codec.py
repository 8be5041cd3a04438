"""One event, one line, one hash: written in one way and read back as it was."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neartwin.errors import LedgerError
from neartwin.ledger import records
from neartwin.ledger.records import Record

WORDS = st.text(max_size=20)
WHOLE = st.integers(min_value=0, max_value=10**30)
PRICES = st.lists(st.tuples(WORDS, WHOLE), max_size=3).map(tuple)
POOLS = st.lists(st.tuples(WORDS, st.fractions(min_value=Fraction(1, 10**30), max_value=1)), max_size=3).map(tuple)
ASKED = {
    "account": WORDS,
    "plan_digest": WORDS,
    "snapshot": WORDS,
    "description": WORDS,
    "price": PRICES,
    "holders": st.lists(WORDS, max_size=3).map(tuple),
}
EVENTS = st.one_of(
    st.builds(records.Begun, ledger=WORDS),
    st.builds(
        records.Opened, account=WORDS, unit=WORDS, relation=WORDS, source=WORDS, rule=WORDS, pools=POOLS, caps=PRICES
    ),
    st.builds(records.Sourced, account=WORDS, source=WORDS),
    st.builds(records.Raised, account=WORDS, caps=PRICES, reason=WORDS),
    st.builds(records.Allotted, account=WORDS, holder=WORDS, caps=PRICES),
    st.builds(records.Acted, account=WORDS, who=WORDS, what=WORDS, body=WORDS, happened=WORDS),
    st.builds(records.Reserved, **ASKED, key=WORDS),
    st.builds(records.Refused, **ASKED, pool=WORDS, holder=WORDS),
    st.builds(records.Settled, account=WORDS, reserved=WHOLE, digest=WORDS, size=WHOLE),
    st.builds(records.Failed, account=WORDS, reserved=WHOLE),
)
RECORDS = st.builds(Record, position=WHOLE, previous=WORDS, time=WORDS, event=EVENTS)


@given(RECORDS)
def test_a_record_is_read_back_as_it_was_from_one_ascii_line(record):
    line = records.write(record)
    assert line.isascii()
    assert "\n" not in line
    assert records.read_strictly(line) == record


@given(RECORDS, RECORDS)
def test_distinct_records_have_distinct_lines(left, right):
    assert (records.write(left) == records.write(right)) == (left == right)


LINE = records.write(Record(position=7, previous="00", time="now", event=records.Failed(account="a", reserved=3)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"position":7', '"position":7.0'),
        ('"position":7', '"position":"7"'),
        ('"position":7', '"position":true'),
        ('"reserved":3', '"reserved":null'),
        ('"reserved":3', '"reserved":3,"more":1'),
        ('"reserved":3', '"kept":3'),
        ('"time":"now"', '"when":"now"'),
        ('"account":"a"', '"account":["a"]'),
        (LINE, "[]"),
        (LINE, "null"),
        (LINE, "{"),
        (LINE, "[" * 100_000),
    ],
)
def test_malformed_record_is_not_read(before, after):
    assert records.read(LINE).event == records.Failed(account="a", reserved=3)
    assert before in LINE
    with pytest.raises(ValueError):
        records.read(LINE.replace(before, after))


@pytest.mark.parametrize(("before", "after"), [('"version":1', '"version":2'), ('"kind":"fail"', '"kind":"refund"')])
def test_a_kind_of_the_future_is_not_guessed_at(before, after):
    with pytest.raises(LedgerError, match="install a newer one"):
        records.read(LINE.replace(before, after))


def test_the_same_in_other_letters_is_not_canonical():
    for other in (LINE.replace(":", ": "), LINE.replace('"a"', '"\\u0061"'), LINE + " "):
        assert records.read(other) == records.read(LINE)
        with pytest.raises(ValueError, match="canonical"):
            records.read_strictly(other)
