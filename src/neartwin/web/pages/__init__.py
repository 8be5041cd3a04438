"""The browser's pages, rendered here, usable without scripts, from nothing but this package's own files.

- `frame`      how a page is rendered, and how a refusal looks.
- `entrance`   signing in and out.
- `shelves`    data sets, their budgets, history.
- `asking`     the question page: preview while one types, release.
- `answers`    releases and their certificates.
- `office`     policy, allotments, spending over time, tokens, the ledger: for curators and auditors.
- `rules`      the policy as a form: reviewed, then changed.
- `budget`     what amounts of an account mean: epsilon, mu, best guess, curve.
"""

from fastapi import APIRouter

from neartwin.web.pages import answers, asking, entrance, office, rules, shelves

router = APIRouter()
for _part in (entrance, shelves, asking, answers, office, rules):
    router.include_router(_part.router)

__all__ = ["router"]
