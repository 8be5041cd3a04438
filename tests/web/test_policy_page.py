"""A curator changes a policy by looking at what would change, and only at that; nothing unseen, nothing unrecorded."""

import html
import json
import re
import shlex

import pytest
from starlette.testclient import TestClient

from neartwin.accounting.budgets import pure
from neartwin.errors import LedgerError
from neartwin.web.app import create_app
from neartwin.web.datasets import Rule
from neartwin.web.pages import datasets as policy
from tests.web.conftest import registered
from tests.web.server import FREE, without_processes

CENSUS = {
    "who_0": "project:census",
    "columns_0": ["cds", "amount"],
    "group_columns_0": ["cds"],
    "own_bounds_0": "on",
    "max_spend_0": "epsilon=0.1",
    "allotment_0": "epsilon=1/2",
}
WANTED = Rule(
    who="project:census",
    columns=("cds", "amount"),
    group_columns=("cds",),
    discover=False,
    own_keys=False,
    max_spend=pure("0.1"),
    allotment=pure("0.5"),
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory, purchases):
    with registered(tmp_path_factory.mktemp("policed") / "house", purchases) as opened:
        yield opened


@pytest.fixture(scope="module")
def client(directory):
    with without_processes(), TestClient(create_app(directory, FREE)) as opened:
        opened.get("/signin")
        opened.post("/signin", data={"token": directory.mint("carol", "curator", by="console")[1]})
        yield opened


@pytest.fixture
def form(client, directory):
    """The hidden fields of the page as it stands."""
    before = directory.dataset("purchases").policy
    yield hidden(client.get("/data/purchases/policy"))
    directory.set_policy("purchases", before, by="console")


def hidden(answer):
    return {name: re.search(rf'name="{name}" value="([^"]*)"', answer.text)[1] for name in ("csrf", "base", "reviewed")}


def send(client, fields, action):
    return client.post("/data/purchases/policy", data=fields | {"action": action}, follow_redirects=False)


def test_what_was_reviewed_is_what_changes_and_it_stands_in_the_chain(client, directory, form):
    before, head = directory.dataset("purchases").policy, directory.books.head()
    shown = send(client, form | CENSUS, "review")
    assert "What would change" in shown.text
    assert shown.text.count('<tr class="now">') == 2  # the rule that goes, and the one that comes
    assert (directory.dataset("purchases").policy, directory.books.head()) == (before, head)
    done = send(client, form | CENSUS | hidden(shown), "confirm")
    assert (done.status_code, done.headers["location"]) == (303, "/data/purchases/office")
    assert directory.dataset("purchases").policy == (WANTED,)
    act = directory.books.acts()[-1]
    assert (act.who, act.what, json.loads(act.body)["policy"]) == ("carol", "policy", [WANTED.as_dict()])
    assert directory.verify().whole
    link = re.search(r'href="([^"]*)">Changes of the policy', client.get("/data/purchases/office").text)[1]
    assert re.search("policy changed.*carol", client.get(link).text)


def test_nothing_changes_that_was_not_reviewed(client, directory, form):
    before, head = directory.dataset("purchases").policy, directory.books.head()
    assert send(client, form | CENSUS, "confirm").status_code == 200  # straight away
    reviewed = hidden(send(client, form | CENSUS, "review"))
    other = CENSUS | {"max_spend_0": "epsilon=0.9"}
    assert "What would change" in send(client, form | other | reviewed, "confirm").text  # edited after the review
    assert send(client, form | CENSUS | reviewed | {"csrf": "guessed"}, "confirm").status_code == 403
    assert (directory.dataset("purchases").policy, directory.books.head()) == (before, head)


def test_two_curators_do_not_overwrite_each_other_unseen(client, directory, form):
    reviewed = hidden(send(client, form | CENSUS, "review"))
    mine = (Rule(who="analyst:ada"),)
    before = directory.dataset("purchases")
    directory.set_policy("purchases", mine, by="dora")
    late = send(client, form | CENSUS | reviewed, "confirm")
    assert (late.status_code, "changed by somebody else meanwhile" in late.text) == (409, True)
    with pytest.raises(LedgerError, match="changed meanwhile"):
        directory.set_policy("purchases", (WANTED,), by="carol", instead_of=before)
    assert directory.dataset("purchases").policy == mine


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"who_0": "everybody"}, "must be &#39;*&#39;"),
        ({"columns_0": ["secret"]}, "secret"),
        ({"max_spend_0": "a lot"}, "must be name=value"),
        ({"allotment_0": "rho=1"}, "must be of the budget"),
    ],
)
def test_a_rule_that_breaks_a_rule_is_not_even_reviewed(client, directory, form, wrong, words):
    before = directory.dataset("purchases").policy
    answer = send(client, form | CENSUS | wrong, "review")
    assert answer.status_code == 422
    assert words in answer.text
    assert "What would change" not in answer.text
    assert directory.dataset("purchases").policy == before


def test_rules_are_added_moved_and_removed_in_the_form_alone():
    one, two = {"who": "analyst:a"}, {"who": "analyst:b"}
    assert policy.changed((one,), "add") == (one, policy.typed(Rule()))
    assert policy.changed((one, two), "up:1") == (two, one)
    assert policy.changed((one, two), "remove:0") == (two,)
    for nonsense in ("up:0", "up:2", "remove:2", "remove:-1", "remove:x", "up:", "review"):
        assert policy.changed((one, two), nonsense) == (one, two)
    many = (one,) * policy.MOST_RULES
    assert policy.changed(many, "add") == many


def test_the_command_beside_it_says_the_same_policy(client, directory, form):
    shown = html.unescape(send(client, form | CENSUS, "review").text)
    *_, body = shlex.split(re.search(r'id="code-http">(.*?)</pre>', shown, flags=re.DOTALL)[1].replace("\\\n", ""))
    assert [Rule.from_dict(rule) for rule in json.loads(body)["rules"]] == [WANTED]
    assert Rule.from_dict(policy.typed(WANTED)) == WANTED
