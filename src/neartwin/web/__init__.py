"""The service: many analysts, one budget, over HTTP and in a browser. Extra `web`. What each file owns:

- `app`         `create_app(house)`: the FastAPI application, its routers, middleware and error handlers.
- `house`       `House`: an opened data directory: the ledger, the store, and the registered tables.
- `datasets`    `Dataset` and `Rule`, frozen: what a curator registered, and who may ask what of it.
- `policy`      whether a plan is what its asker may ask.
- `tokens`      `Token`: made, shown once, hashed; `store/` keeps them with the data sets and the curators' acts.
- `access`      who is asking: `Caller`, `require(roles)`, cookie sessions, CSRF; rates.
- `asking`      one question from its JSON form to its plan, preview or release. Runs in worker processes alone.
- `builder`     the question page's fields, as JSON and as SQL, each from the other.
- `workers`     the pool of those processes; `work` is what each of them runs; `jobs` the states that askers see.
- `guards`      limits on bodies, security headers; `faults` errors as HTTP answers in the one shape.
- `shapes`      what requests and answers look like, with examples: the OpenAPI document comes from here.
- `certificates` signed certificates of served releases.
- `routes/`     the HTTP interface, one file a subject.
- `pages/`      the browser's pages, rendered here; `static/` their style and script.

`neartwin.client` speaks to it, and `neartwin.cli.service` starts it. Nothing here touches noise or SQL on private rows.
"""
