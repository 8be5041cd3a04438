"""The browser's pages. They work without scripts and load only this package's own files.

- `layout`     renders pages and refusals.
- `signin`     signing in and out.
- `datasets`   data sets, their budgets, history, and the guided registration. For curators: policies with a review before each
               change, allotments, requests for budget, spending over time, tokens, the ledger.
- `ask`        the question page, with a preview while the analyst types, answers, certificates, and saved questions.
- `budget`     the meaning of an account's amounts: epsilon, mu, best guess, curve.
"""

from fastapi import APIRouter

from neartwin.web.pages import ask, datasets, signin
from neartwin.web.pages.layout import refusal

router = APIRouter()
for _part in (signin, datasets, ask):
    router.include_router(_part.router)

__all__ = ["refusal", "router"]
