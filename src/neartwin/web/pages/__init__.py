"""The browser's pages. They work without scripts and load only this package's own files.

- `layout`     renders pages and refusals.
- `signin`     signing in and out.
- `datasets`   data sets, their budgets, history, and the guided registration; for curators their allotments, requests for budget,
               spending over time, tokens, the ledger.
- `ask`        the question page, with a preview while the analyst types, answers, certificates, and saved questions.
- `policy`     the policy as a form, with a review before each change.
- `budget`     the meaning of an account's amounts: epsilon, mu, best guess, curve.
"""

from fastapi import APIRouter

from neartwin.web.pages import ask, datasets, policy, signin
from neartwin.web.pages.layout import refusal

router = APIRouter()
for _part in (signin, datasets, ask, policy):
    router.include_router(_part.router)

__all__ = ["refusal", "router"]
