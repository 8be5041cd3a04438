"""The OpenAPI document is complete, and requests made from it by the hundred meet no fault of ours."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from starlette.testclient import TestClient

from neartwin.errors import NeartwinError
from neartwin.queries.wire.parse import question_of
from neartwin.web.app import create_app
from neartwin.web.service import Settings
from tests.web.conftest import bearer, registered
from tests.web.server import without_processes

UNHARMED = {("DELETE", "/v1/tokens/{identity}")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory, purchases):
    """An application that lives for all tests of this file, and a token of each role."""
    with registered(tmp_path_factory.mktemp("whole") / "house", purchases) as directory:
        tokens = [directory.mint(role, role, by="console")[1] for role in ("curator", "analyst", "auditor")]
        app = create_app(directory, Settings(workers=1, burst=10**6, per_second=10**6, waiting=10**6, patience=5))
        with without_processes(), TestClient(app):
            yield app, tokens, directory


def test_every_operation_has_a_description_and_an_example(whole):
    document = whole[0].openapi()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert len(operation["description"].split()) > 3, (method, path)
            assert {"401", "403", "422", "429"} <= set(operation["responses"]), (method, path)
            body = operation.get("requestBody")
            if body:
                name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
                shape = document["components"]["schemas"][name]
                assert "example" in shape or "examples" in shape, name
    fault = document["components"]["schemas"]["Refusal"]
    assert {"code", "error", "message", "name", "value", "rule", "remedy"} <= set(fault["properties"])


def test_the_examples_of_questions_are_questions(whole):
    directory = whole[2]
    rows = directory.rows(directory.dataset("purchases"))
    examples = whole[0].openapi()["components"]["schemas"]["Question"]["examples"]
    for example in examples:
        keys = {"keys": {"cds": [1, 2]}} if example.get("keys") == "declared" else {}
        assert question_of(example | keys, rows)


def tried(operation, tokens, seen, examples):
    """So many requests of one operation, by every role."""

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=examples < 20,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def requested(case):
        for token in tokens:
            case.headers = {**dict(case.headers or {}), **bearer(token)}
            answer = case.call()
            seen.add(answer.status_code)
            assert answer.status_code < 500, (operation.label, answer.text)
            if answer.status_code >= 400:
                assert {"code", "error", "message", "remedy"} <= set(answer.json()), operation.label

    requested()


def fuzz(whole, examples):
    """Requests made from the document, by every role: none may end in a fault of ours or in an answer of another shape."""
    import schemathesis  # it takes a second, which each worker that only collects need not spend

    app, tokens, directory = whole

    async def requests(scope, receive, send):
        assert scope["type"] == "http"  # the service runs already: a second start would outlive its ledger
        await app(scope, receive, send)

    schema = schemathesis.openapi.from_asgi("/openapi.json", requests)
    seen = set()
    for result in schema.get_all_operations():
        operation = result.ok()
        if (operation.method.upper(), operation.path) in UNHARMED:
            continue

        tried(operation, tokens, seen, examples)
    assert directory.books.verify().whole
    return seen


@pytest.mark.slow
def test_requests_made_from_the_document_meet_no_fault_of_ours(whole):
    seen = fuzz(whole, 2)
    assert {200, 422} <= seen


@pytest.mark.slow
def test_many_requests_made_from_the_document_meet_no_fault_of_ours(whole):
    assert {200, 403, 404, 422} <= fuzz(whole, 100)


def test_a_question_of_any_shape_is_refused_in_words(whole):
    directory = whole[2]
    rows = directory.rows(directory.dataset("purchases"))
    for form in ({"statistics": {}}, {"keys": 5, "sql": "SELECT COUNT(*) FROM purchases"}, {"most_common": 3}):
        with pytest.raises(NeartwinError):
            question_of(form, rows)
