"""Who may use which route. A route without a line here fails the test that walks them all.

A line: the roles that may use it.
"""

EVERYONE = {"curator", "analyst", "auditor"}
STRANGERS = "no token is asked for"

ROUTES = {
    ("GET", "/openapi.json"): STRANGERS,
    ("GET", "/healthz"): STRANGERS,
    ("GET", "/readyz"): STRANGERS,
    ("GET", "/metrics"): {"curator", "auditor"},
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
    ("GET", "/v1/datasets/{name}/requests"): EVERYONE,
    ("POST", "/v1/datasets/{name}/requests"): {"analyst"},
    ("PUT", "/v1/datasets/{name}/requests/{position}"): {"curator"},
    ("DELETE", "/v1/datasets/{name}/requests/{position}"): {"analyst"},
    ("PUT", "/v1/datasets/{name}/cap"): {"curator"},
    ("POST", "/v1/datasets/{name}/plan"): {"analyst", "curator"},
    ("POST", "/v1/datasets/{name}/releases"): {"analyst"},
    ("GET", "/v1/jobs/{identity}"): {"analyst"},
    ("GET", "/v1/datasets/{name}/history"): EVERYONE,
    ("GET", "/v1/datasets/{name}/releases/{position}"): EVERYONE,
    ("GET", "/v1/datasets/{name}/releases/{position}/certificate"): EVERYONE,
    ("GET", "/v1/ledger"): {"curator", "auditor"},
    ("POST", "/v1/ledger/verify"): {"curator", "auditor"},
    ("GET", "/v1/ledger/acts"): {"curator", "auditor"},
    ("GET", "/mcp"): EVERYONE,  # each tool asks for its own roles
    ("POST", "/mcp"): EVERYONE,
    ("DELETE", "/mcp"): EVERYONE,
}

# pages lead a stranger to the entrance (303) and show a refusal (403) as a page
PAGES = {
    ("GET", "/signin"): STRANGERS,
    ("POST", "/signin"): STRANGERS,
    ("GET", "/signin/begin"): STRANGERS,
    ("GET", "/signin/back"): STRANGERS,
    ("GET", "/"): EVERYONE,
    ("POST", "/signout"): EVERYONE,
    ("GET", "/data"): EVERYONE,
    ("GET", "/data/{name}"): EVERYONE,
    ("GET", "/data/{name}/history"): EVERYONE,
    ("GET", "/data/{name}/releases/{position}"): EVERYONE,
    ("GET", "/data/{name}/releases/{position}/csv"): EVERYONE,
    ("GET", "/data/{name}/releases/{position}/certificate"): EVERYONE,
    ("GET", "/data/{name}/dashboard"): EVERYONE,
    ("POST", "/data/{name}/dashboard"): {"analyst", "curator"},
    ("GET", "/data/{name}/budget"): EVERYONE,
    ("POST", "/data/{name}/budget"): {"analyst"},
    ("POST", "/data/{name}/budget/{position}"): {"curator"},
    ("POST", "/data/{name}/budget/{position}/withdraw"): {"analyst"},
    ("GET", "/data/{name}/ask"): {"analyst", "curator"},
    ("POST", "/data/{name}/ask"): {"analyst", "curator"},
    ("GET", "/jobs/{identity}"): {"analyst"},
    ("GET", "/data/{name}/office"): {"curator", "auditor"},
    ("GET", "/data/{name}/policy"): {"curator"},
    ("POST", "/data/{name}/policy"): {"curator"},
    ("POST", "/data/{name}/allot"): {"curator"},
    ("POST", "/data/{name}/cap"): {"curator"},
    ("GET", "/register"): {"curator"},
    ("POST", "/register"): {"curator"},
    ("GET", "/people"): {"curator", "auditor"},
    ("POST", "/people"): {"curator"},
    ("POST", "/people/{identity}/revoke"): {"curator"},
    ("GET", "/ledger"): {"curator", "auditor"},
    ("POST", "/ledger"): {"curator", "auditor"},
}
