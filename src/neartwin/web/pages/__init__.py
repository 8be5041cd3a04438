"""The browser's pages. They work without scripts and load only this package's own files.

- `layout`     renders pages and refusals.
- `signin`     signing in and out.
- `datasets`   data sets, their budgets, history, and the guided registration.
- `ask`        the question page, with a preview while the analyst types, answers, certificates, and saved questions.
- `admin`      policy, allotments, requests for budget, spending over time, tokens, the ledger.
- `policy`     the policy as a form, with a review before each change.
- `budget`     the meaning of an account's amounts: epsilon, mu, best guess, curve.
"""

from fastapi import APIRouter

from neartwin.web.pages import admin, ask, datasets, policy, signin
from neartwin.web.pages.layout import refusal

router = APIRouter()
for _part in (signin, datasets, ask, admin, policy):
    router.include_router(_part.router)

__all__ = ["refusal", "router"]
