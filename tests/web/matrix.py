"""Who may use which route. A route without a line here fails the test that walks them all.

A line: the roles that may use it, and what a stranger is answered: 401, or for a page 303 to where one signs in.
"""

EVERYONE = {"curator", "analyst", "auditor"}
STRANGERS = "no token is asked for"

ROUTES = {
    ("GET", "/openapi.json"): STRANGERS,
    ("GET", "/v1/health"): STRANGERS,
    ("POST", "/v1/session"): STRANGERS,
    ("DELETE", "/v1/session"): EVERYONE,
    ("GET", "/v1/me"): EVERYONE,
    ("GET", "/v1/tokens"): {"curator", "auditor"},
    ("POST", "/v1/tokens"): {"curator"},
    ("DELETE", "/v1/tokens/{identity}"): {"curator"},
    ("GET", "/v1/datasets"): EVERYONE,
    ("POST", "/v1/datasets"): {"curator"},
    ("GET", "/v1/datasets/{name}"): EVERYONE,
    ("GET", "/v1/datasets/{name}/policy"): {"curator", "auditor"},
    ("PUT", "/v1/datasets/{name}/policy"): {"curator"},
    ("GET", "/v1/datasets/{name}/allotments"): EVERYONE,
    ("PUT", "/v1/datasets/{name}/allotments/{holder}"): {"curator"},
    ("PUT", "/v1/datasets/{name}/cap"): {"curator"},
    ("POST", "/v1/datasets/{name}/plan"): {"analyst", "curator"},
    ("POST", "/v1/datasets/{name}/preview"): {"analyst", "curator"},
    ("POST", "/v1/datasets/{name}/releases"): {"analyst"},
    ("GET", "/v1/jobs/{identity}"): {"analyst"},
    ("GET", "/v1/datasets/{name}/history"): EVERYONE,
    ("GET", "/v1/datasets/{name}/releases/{position}"): EVERYONE,
    ("GET", "/v1/datasets/{name}/releases/{position}/certificate"): EVERYONE,
    ("GET", "/v1/ledger"): {"curator", "auditor"},
    ("POST", "/v1/ledger/verify"): {"curator", "auditor"},
    ("GET", "/v1/ledger/acts"): {"curator", "auditor"},
}
