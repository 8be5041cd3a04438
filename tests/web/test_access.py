"""Every route by every role and by none; tokens that end; sessions that other sites cannot use."""

from datetime import UTC, datetime, timedelta

import pytest
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from neartwin.web import tokens as made_tokens
from neartwin.web.auth import COOKIE
from neartwin.web.datasets import Rule
from tests.web.conftest import ASK, bearer, released, sign_in
from tests.web.matrix import EVERYONE, PAGES, ROUTES, STRANGERS

BODIES = {
    ("POST", "/v1/tokens"): {"name": "eve", "role": "analyst"},
    ("POST", "/v1/datasets"): {"name": "x", "file": "x.parquet", "unit": "id", "budget": {"epsilon": "1"}},
    ("PUT", "/v1/datasets/{name}/policy"): {"rules": [{"who": "*", "allotment": {"epsilon": "0.5"}}]},
    ("PUT", "/v1/datasets/{name}/allotments/{holder}"): {"target": {"epsilon": "0.6"}},
    ("POST", "/v1/datasets/{name}/requests"): {"target": {"epsilon": "3"}, "reason": "more"},
    ("PUT", "/v1/datasets/{name}/requests/{position}"): {"approve": True},
    ("PUT", "/v1/datasets/{name}/cap"): {"target": {"epsilon": "1.5"}},
    ("POST", "/v1/datasets/{name}/plan"): ASK,
    ("POST", "/v1/datasets/{name}/releases"): ASK,
    ("POST", "/v1/ledger/verify"): {},
}
NAMES = {"name": "purchases", "holder": "analyst:ada", "position": "4", "identity": "none"}


def walked(routes, prefix=""):
    """(method, path) of every route; files apart, whatever is of another kind is an error here."""
    for route in routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:  # how newer FastAPI keeps an included router
            yield from walked(inner.routes, prefix + route.include_context.prefix)
        elif isinstance(route, Mount):
            assert isinstance(route.app, StaticFiles), route
        else:
            assert isinstance(route, Route), route
            yield from ((method, prefix + route.path) for method in route.methods - {"HEAD", "OPTIONS"})


def test_every_route_has_a_line_in_the_matrix_and_every_line_a_route(client):
    assert set(walked(client.app.routes)) == set(ROUTES) | set(PAGES)


def test_every_route_opens_to_its_roles_and_to_nobody_else(client, directory, tokens):
    expired, revoked = directory.mint("old", "curator", by="console"), directory.mint("gone", "curator", by="console")
    _expire(directory, expired[0].id)
    directory.store.revoke(revoked[0].id, by="console")
    keys = {
        "nobody": {},
        "a wrong secret": bearer(tokens["curator"][:-1] + ("0" if tokens["curator"][-1] != "0" else "1")),
        "an unknown token": bearer("nt_0123456789abcdef_" + "0" * 64),
        "no token at all": bearer("hello"),
        "another scheme": {"Authorization": f"Basic {tokens['curator']}"},
        "an expired token": bearer(expired[1]),
        "a revoked token": bearer(revoked[1]),
    } | {role: bearer(token) for role, token in tokens.items()}
    refusals = set()
    client.app.state.service.authenticator.rates.limits["unproved"] = 10_000, 1  # guesses at one token are few
    for (method, path), allowed in ROUTES.items():
        for who, headers in keys.items():
            answer = client.request(method, path.format(**NAMES), json=BODIES.get((method, path)), headers=headers)
            if allowed == STRANGERS:
                assert answer.status_code < 500, (method, path, who)
            elif who not in EVERYONE:
                assert answer.status_code == 401, (method, path, who)
                refusals.add(answer.text)
            elif who not in allowed:
                assert (answer.status_code, answer.json()["name"]) == (403, "role"), (method, path, who)
            else:
                assert answer.status_code not in {401, 403, 500}, (method, path, who, answer.text)
    assert len(refusals) == 1  # nothing tells an expired token from one that never was


def _expire(directory, identity):
    import sqlalchemy as sa

    from neartwin.web.store import schema

    past = (datetime.now(UTC) - timedelta(seconds=1)).isoformat(timespec="seconds")
    with directory.store._database.connection(writes=True) as connection:
        connection.execute(sa.update(schema.token).where(schema.token.c.id == identity).values(expires=past))


def test_a_token_is_kept_as_a_hash_alone_and_ends_when_it_is_revoked(client, directory, tokens):
    curator = bearer(tokens["curator"])
    new = client.post("/v1/tokens", json={"name": "bob", "role": "analyst"}, headers=curator).json()
    secret = new["token"].split("_")[2]
    kept = b"".join(path.read_bytes() for path in directory.place.rglob("*") if path.is_file())
    assert secret.encode() not in kept
    assert b"$argon2id$" in kept
    assert secret not in client.get("/v1/tokens", headers=curator).text
    assert client.get("/v1/me", headers=bearer(new["token"])).json()["name"] == "bob"
    assert client.delete(f"/v1/tokens/{new['id']}", headers=curator).status_code == 204
    assert client.get("/v1/me", headers=bearer(new["token"])).status_code == 401
    assert [act["what"] for act in client.get("/v1/ledger/acts", headers=curator).json()][-2:] == ["token", "revoke"]


def test_a_session_reads_with_its_cookie_and_writes_only_with_its_secret(client, tokens):
    signed = sign_in(client, tokens["curator"])
    flags = signed.headers["set-cookie"].lower()
    assert all(flag in flags for flag in ("httponly", "samesite=strict", "path=/"))
    csrf = client.get("/v1/me").json()["csrf"]
    wish = {"name": "eve", "role": "analyst"}
    assert client.post("/v1/tokens", json=wish).json()["name"] == "csrf"
    assert client.post("/v1/tokens", json=wish, headers={"X-CSRF-Token": "x" + csrf}).status_code == 403
    far = {"X-CSRF-Token": csrf, "Sec-Fetch-Site": "cross-site"}
    assert client.post("/v1/tokens", json=wish, headers=far).status_code == 403
    assert client.post("/v1/tokens", json=wish, headers={"X-CSRF-Token": csrf}).status_code == 201
    cookie = client.cookies[COOKIE]
    assert client.post("/signout").status_code == 403
    assert client.get("/v1/me").status_code == 200
    assert client.post("/signout", data={"csrf": csrf}, follow_redirects=False).status_code == 303
    client.cookies.set(COOKIE, cookie)
    assert client.get("/v1/me").status_code == 401


def test_a_release_of_what_one_may_not_see_is_refused_before_it_is_a_job(client, directory):
    bob = directory.mint("bob", "analyst", by="console")[1]
    directory.set_policy("purchases", (Rule(who="analyst:ada"),), by="console")
    hidden, missing = (
        client.post(f"/v1/datasets/{name}/releases", json=ASK, headers=bearer(bob)) for name in ("purchases", "orders")
    )
    assert hidden.status_code == missing.status_code == 404
    assert hidden.json()["rule"] == missing.json()["rule"]
    assert "job" not in hidden.json()


def test_a_session_ends_with_the_token_it_was_made_from(client, directory, tokens):
    sign_in(client, tokens["analyst"])
    assert client.get("/v1/me").status_code == 200
    directory.store.revoke(tokens["analyst"].split("_")[1], by="console")
    assert client.get("/v1/me").status_code == 401


def test_an_analyst_sees_what_is_the_analysts_own_and_no_one_elses(client, directory, tokens):
    bob = directory.mint("bob", "analyst", by="console")[1]
    ada = released(client, ASK, bearer(tokens["analyst"]))
    place = f"/v1/datasets/purchases/releases/{ada['position']}"
    for path in (place, f"{place}/certificate", f"/v1/jobs/{ada['job']}"):
        assert client.get(path, headers=bearer(bob)).status_code == 404
        assert client.get(path.replace(str(ada["position"]), "99999"), headers=bearer(bob)).status_code == 404
    assert client.get("/v1/datasets/purchases/history", headers=bearer(bob)).json() == []
    assert client.get("/v1/datasets/purchases/allotments", headers=bearer(bob)).json() == []
    assert client.get(place, headers=bearer(tokens["auditor"])).json()["release"] == ada["release"]
    again = released(client, ASK, bearer(bob))
    assert again["release"] == ada["release"]  # asked anew, served for nothing, and from now on bob's to read
    assert client.get(place, headers=bearer(bob)).status_code == 200
    assert [part["spent"] for part in client.get("/v1/datasets/purchases/allotments", headers=bearer(bob)).json()] == [
        {"epsilon": "0"}
    ]


@pytest.mark.parametrize("days", [0, -1])
def test_a_token_has_an_end_in_the_future(days):
    with pytest.raises(ValueError, match="days"):
        made_tokens.new_token("ada", "analyst", days=days)
