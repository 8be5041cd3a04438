"""The adversary's side: games, attackers, reconstruction, statistical lower bounds on the loss."""

from neartwin.audit.asking import Estimate, averaged, differenced
from neartwin.audit.bands import ErrorBand, band
from neartwin.audit.claims import (
    BelowCurve,
    Claim,
    EpsilonDelta,
    GaussianPrivacy,
    claim_approx,
    claim_gdp,
    claim_pure,
)
from neartwin.audit.finding import Event, Finding
from neartwin.audit.finite import Knots, Violation, exact_gap, exact_tradeoff, exact_violation
from neartwin.audit.floats import (
    SumTwins,
    naive_laplace,
    order_spread,
    reachable,
    repeated_rounding_twins,
    sum_excess,
)
from neartwin.audit.game import audit, examine, measured
from neartwin.audit.losses_seen import epsilon_seen, mu_seen
from neartwin.audit.one_run import one_run_curve_pvalue, one_run_epsilon, one_run_parameter, one_run_pvalue
from neartwin.audit.playing import Batched, Mechanism, Raised, Transcript, play
from neartwin.audit.programs import exact_law
from neartwin.audit.proportions import lower_bound, upper_bound
from neartwin.audit.reconstruction import (
    every_subset,
    exhaustive,
    least_squares,
    linear_program,
    random_subsets,
    wrong_share,
)
from neartwin.audit.released import released
from neartwin.audit.replicas import ReleaseGame, collected, in_process, written
from neartwin.audit.risk import Keeping, Risk, advantage_of, keeping, largest_parameter, power_at, risks
from neartwin.audit.stated import claim_of
from neartwin.audit.timing import TimingFinding, correlated, time_follows_noise
from neartwin.audit.tracing import Traced, traced, tracing_scores
from neartwin.audit.transition import Attempt, bounded_noise, gaussian_noise, laplace_noise, sweep
from neartwin.audit.twins import Twins, answer_patterns, known, searched, table_corners

__all__ = [
    "Attempt",
    "Batched",
    "BelowCurve",
    "Claim",
    "EpsilonDelta",
    "ErrorBand",
    "Estimate",
    "Event",
    "Finding",
    "GaussianPrivacy",
    "Keeping",
    "Knots",
    "Mechanism",
    "Raised",
    "ReleaseGame",
    "Risk",
    "SumTwins",
    "TimingFinding",
    "Traced",
    "Transcript",
    "Twins",
    "Violation",
    "advantage_of",
    "answer_patterns",
    "audit",
    "averaged",
    "band",
    "bounded_noise",
    "claim_approx",
    "claim_gdp",
    "claim_of",
    "claim_pure",
    "collected",
    "correlated",
    "differenced",
    "epsilon_seen",
    "every_subset",
    "exact_gap",
    "exact_law",
    "exact_tradeoff",
    "exact_violation",
    "examine",
    "exhaustive",
    "gaussian_noise",
    "in_process",
    "keeping",
    "known",
    "laplace_noise",
    "largest_parameter",
    "least_squares",
    "linear_program",
    "lower_bound",
    "measured",
    "mu_seen",
    "naive_laplace",
    "one_run_curve_pvalue",
    "one_run_epsilon",
    "one_run_parameter",
    "one_run_pvalue",
    "order_spread",
    "play",
    "power_at",
    "random_subsets",
    "reachable",
    "released",
    "repeated_rounding_twins",
    "risks",
    "searched",
    "sum_excess",
    "sweep",
    "table_corners",
    "time_follows_noise",
    "traced",
    "tracing_scores",
    "upper_bound",
    "written",
    "wrong_share",
]
