"""The service: many analysts, one budget, over HTTP and in a browser. Extra `web`. What each file owns:

- `app`             `create_app(directory)`: the FastAPI application, its routers, middleware and error handlers.
- `data_directory`  `DataDirectory`: the ledger, the store, and the registered tables of one service.
- `datasets`        `Dataset`, `JoinableTable` and `Rule`, frozen: what a curator registered, and who may ask what of it.
- `policy`          whether a plan is what its asker may ask.
- `tokens`          `Token`: made, shown once, hashed; `store/` keeps them with the data sets and the curators' acts.
- `auth`            who is asking: `Caller`, `require(roles)`, cookie sessions, CSRF; rates.
- `tasks`           one question from its wire form to its plan, preview or release. Runs in worker processes alone.
- `builder`         the question page's fields, which write SQL.
- `workers`         the pool of those processes; `worker` is what each of them runs; `jobs` the states that askers see.
- `middleware`      limits on bodies, security headers; `errors` errors as HTTP answers in the one shape.
- `schemas`         what requests and answers look like, with examples: the OpenAPI document comes from here.
- `routes/`         the HTTP interface, one file a subject.
- `pages/`          the browser's pages, rendered here; `static/` their style and script.

`neartwin.client` speaks to it, and `neartwin.cli.service` starts it. Nothing here touches noise or SQL on private rows.
"""
