"""Acts that weaken a promise, where two people are needed for them. The first one's wish and the second one's consent are
acts in the chain, and the act itself is in the second one's transaction.
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from neartwin.errors import AccessError
from neartwin.ledger import records
from neartwin.ledger.store import Reading, Writing

CONSOLE = "console"  # who acts from the machine's own terminal
DAYS = 7  # that a wish waits


@dataclass(frozen=True, slots=True)
class Wish:
    """An act that waits for a second person.

    Attributes:
        position: The position of its record.
        who: The first person.
        act: The act as canonical JSON, with its kind as "do".
    """

    position: int
    who: str
    act: str


@dataclass(frozen=True, slots=True)
class Standing:
    """The rule of two people in a ledger, as its acts so far make it.

    Attributes:
        needed: Whether two people are needed.
        waiting: The acts that wait for the second, oldest first.
        makers: Who made, and so has read, the tokens of each curator, and who had made theirs. A terminal is left out.
    """

    needed: bool
    waiting: tuple[Wish, ...]
    makers: Mapping[str, set[str]]

    def two(self, first: str, second: str) -> bool:
        """Whether two names are two people, so that nobody holds the tokens of both.

        Args:
            first: A name.
            second: Another name.
        """
        return self.makers.get(first, set()).union([first]).isdisjoint([second, *self.makers.get(second, ())])


def standing(page: Reading) -> Standing:
    """The rule of two people, as the acts so far make it."""
    needed, waiting, makers = False, dict[int, Wish](), defaultdict[str, set[str]](set)
    oldest = datetime.now(UTC) - timedelta(days=DAYS)
    for act in page.acts():
        if act.what == "wish" and datetime.fromisoformat(act.time) > oldest:
            waiting[act.position] = Wish(act.position, act.who, act.body)
        elif act.what == "agree":
            done = waiting.get(json.loads(act.body)["wish"])
            waiting = {at: one for at, one in waiting.items() if done is None or one.act != done.act}
        elif act.what == "two people":
            needed = True
        elif act.what == "token" and act.who != CONSOLE:
            token = json.loads(act.body)
            makers[token["name"]].update([act.who, *makers[act.who]] * (token["role"] == "curator"))
    return Standing(needed, tuple(waiting.values()), makers)


def agreed(page: Writing, who: str, do: str, act: dict[str, object]) -> bool:
    """Whether an act may be done now: one person suffices, or somebody else wished the very same. If not, it is wished.

    Args:
        page: The transaction that will do it.
        who: The person.
        do: The kind of the act.
        act: All that it is. A "dataset" in it names its account.
    """
    now = standing(page)
    if not now.needed:
        return True
    body, account = records.canonical({"do": do} | act), str(act.get("dataset", ""))
    same = [wish for wish in now.waiting if wish.act == body]
    other = next((wish for wish in same if now.two(wish.who, who)), None)
    if other is not None:
        done = records.canonical({"wish": other.position})
        page.append(records.Acted(account=account, who=who, what="agree", body=done))
    elif who not in [wish.who for wish in same]:
        page.append(records.Acted(account=account, who=who, what="wish", body=body))
    return other is not None


def refusal(do: str) -> AccessError:
    """The answer to the first of two people. Raise it after the transaction, which has the wish."""
    rule = f"needs a second person: it is recorded as a wish, which waits {DAYS} days"
    remedy = "have another curator do the very same, and none who made the token of the first"
    return AccessError(428, "act", do, rule, remedy=remedy)
