"""From a question over HTTP to a release: free until it is paid, paid once, and served again for nothing."""

from fractions import Fraction

import neartwin as nt
from neartwin.releases.certificates import OwnerKey, check
from tests.web.conftest import ASK, bearer, released


def test_release_is_paid_once_and_repeated_in_any_form_at_no_cost(client, directory, tokens):
    ada = bearer(tokens["analyst"])
    plan = client.post("/v1/datasets/purchases/plan", json=ASK, headers=ada).json()
    assert (plan["before"], plan["after"]) == ({"epsilon": "1"}, {"epsilon": "3/4"})
    assert directory.books.account("purchases").spent == {"epsilon": 0}
    first = released(client, ASK, ada)
    assert first["state"] == "done"
    text = "SELECT cds, COUNT(*) AS orders, SUM(amount) AS total FROM purchases GROUP BY cds"
    as_sql = ASK | {"question": {"sql": text, "keys": "declared"}}
    again = released(client, as_sql, ada)
    assert again["release"] == first["release"]
    stored = client.get(f"/v1/datasets/purchases/releases/{first['position']}", headers=ada).json()
    assert stored["release"] == first["release"]
    assert directory.books.account("purchases").spent == {"epsilon": Fraction(1, 4)}
    release = nt.Release.from_json(directory.books.account("purchases").answer(first["position"]).document)
    assert release.keys == ((1,), (2,), (3,))
    certificate = client.get(f"/v1/datasets/purchases/releases/{first['position']}/certificate", headers=ada)
    assert check(certificate.text, OwnerKey.at(directory.owner_key).public).valid
    another = ASK | {"spend": {"epsilon": "0.3"}}
    refused = released(client, another, ada)["error"]
    assert (refused["code"], refused["requested"], refused["remaining"]) == ("NT-400", "3/10", "1/4")
    assert directory.books.account("purchases").spent == {"epsilon": Fraction(1, 4)}
    assert directory.books.verify().whole
