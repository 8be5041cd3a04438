"""The service: many analysts share one budget, over HTTP and in a browser. It needs the extra `web`. Its files:

- `app`             `create_app(directory)`: the FastAPI application, its routers, middleware and error handlers.
- `data_directory`  `DataDirectory`: the ledger, the store, and the registered tables of one service.
- `datasets`        `Dataset`, `JoinableTable` and `Rule`, frozen: the registered data sets and their rules.
- `policy`          decides whether an analyst may ask a plan.
- `tokens`          `Token`: its making, its text, its hash.
- `store/`          the database tables of data sets, tokens and sessions, and the curators' acts.
- `oidc`            sign-in at an organisation's server.
- `auth`            `Caller`, `require(roles)`, cookie sessions, CSRF, rate limits.
- `tasks`           turns one question from its wire form into a plan, preview or release, in worker processes alone.
- `builder/`        the question page's fields, which write SQL.
- `workers`         the pool of worker processes.
- `worker`          the program of each worker process.
- `jobs`            the states of releases that analysts see.
- `middleware`      limits on bodies, and security headers.
- `errors`          errors as HTTP answers of one shape.
- `schemas`         requests and answers with examples, from which the OpenAPI document is made.
- `routes/`         the HTTP interface, one file a subject.
- `pages/`          the browser's pages; `static/` has their style and script.

`neartwin.client` speaks to the service, and `neartwin.cli.service` starts it. Nothing here draws noise or writes SQL on
private rows.
"""
