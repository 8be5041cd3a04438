"""The audit room's answers to its families of reference values."""

from neartwin.audit.claims import epsilon_seen, mu_seen
from neartwin.audit.game import lower_bound, upper_bound
from neartwin.audit.one_run import one_run_pvalue

SIDES = {"lower": lower_bound, "upper": upper_bound}


def clopper_pearson(k, n, conf, side):
    return SIDES[side](int(k), int(n), confidence=conf)


def one_run(r, v, eps, delta, m):
    return one_run_pvalue(int(v), int(r), int(m), epsilon=float(eps), delta=float(delta))


def gdp_audit_mu(fpr, fnr):
    return mu_seen(float(fpr), float(fnr))


def audit_eps(fpr, fnr, delta=0):
    return epsilon_seen(float(fpr), float(fnr), delta=float(delta))


HANDLERS = {
    "clopper_pearson": clopper_pearson,
    "one_run_pvalue": one_run,
    "gdp_audit_mu": gdp_audit_mu,
    "audit_eps": audit_eps,
}
