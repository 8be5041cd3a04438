"""The browser's pages, rendered here, usable without scripts, from nothing but this package's own files.

- `layout`     how a page is rendered, and how a refusal looks.
- `signin`     signing in and out.
- `datasets`   data sets, their budgets, history.
- `ask`        the question page: preview while one types, release.
- `answers`    releases and their certificates.
- `admin`      policy, allotments, spending over time, tokens, the ledger: for curators and auditors.
- `policy`     the policy as a form: reviewed, then changed.
- `budget`     what amounts of an account mean: epsilon, mu, best guess, curve.
"""

from fastapi import APIRouter

from neartwin.web.pages import admin, answers, ask, datasets, policy, signin

router = APIRouter()
for _part in (signin, datasets, ask, answers, admin, policy):
    router.include_router(_part.router)

__all__ = ["router"]
