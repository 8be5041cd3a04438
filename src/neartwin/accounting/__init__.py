"""What was done and what it costs: targets, spends, accountants, filters, theorems, calibration, guarantees."""

from typing import TYPE_CHECKING

from neartwin.late import late

if TYPE_CHECKING:
    from neartwin.accounting.accountants import advanced_accountant as advanced_accountant
    from neartwin.accounting.accountants import basic_accountant as basic_accountant
    from neartwin.accounting.accountants import gdp_accountant as gdp_accountant
    from neartwin.accounting.accountants import moments_accountant as moments_accountant
    from neartwin.accounting.accountants import numerical_accountant as numerical_accountant
    from neartwin.accounting.accountants import optimal_accountant as optimal_accountant
    from neartwin.accounting.accountants import rdp_accountant as rdp_accountant
    from neartwin.accounting.accountants import zcdp_accountant as zcdp_accountant
    from neartwin.accounting.adaptive import Step as Step
    from neartwin.accounting.adaptive import adaptive_bound as adaptive_bound
    from neartwin.accounting.adaptive import adaptive_renyi as adaptive_renyi
    from neartwin.accounting.adaptive import worst_steps as worst_steps
    from neartwin.accounting.advanced import advanced_composition as advanced_composition
    from neartwin.accounting.advanced import advanced_composition_classical as advanced_composition_classical
    from neartwin.accounting.advanced import advanced_composition_mixed as advanced_composition_mixed
    from neartwin.accounting.advanced import advanced_epsilon_each as advanced_epsilon_each
    from neartwin.accounting.advanced import best_composition as best_composition
    from neartwin.accounting.advanced import filter_bound as filter_bound
    from neartwin.accounting.basic import basic_composition as basic_composition
    from neartwin.accounting.basic import each_share as each_share
    from neartwin.accounting.basic import group_approximate as group_approximate
    from neartwin.accounting.basic import group_privacy as group_privacy
    from neartwin.accounting.basic import group_rdp as group_rdp
    from neartwin.accounting.basic import group_zcdp as group_zcdp
    from neartwin.accounting.bound import Bound as Bound
    from neartwin.accounting.bounded_range import bounded_range_delta as bounded_range_delta
    from neartwin.accounting.bounded_range import bounded_range_rdp as bounded_range_rdp
    from neartwin.accounting.bounded_range import zcdp_of_bounded_range as zcdp_of_bounded_range
    from neartwin.accounting.calibration import largest_rate as largest_rate
    from neartwin.accounting.calibration import least_noise as least_noise
    from neartwin.accounting.calibration import most_uses as most_uses
    from neartwin.accounting.goals import betting_odds as betting_odds
    from neartwin.accounting.goals import true_positives as true_positives
    from neartwin.accounting.rdp import DEFAULT_ORDERS as DEFAULT_ORDERS
    from neartwin.accounting.rdp import RdpCurve as RdpCurve
    from neartwin.accounting.rdp import RdpEpsilon as RdpEpsilon
    from neartwin.accounting.rdp import compose_rdp as compose_rdp
    from neartwin.accounting.rdp import rdp_curve as rdp_curve
    from neartwin.accounting.rdp import rdp_to_delta as rdp_to_delta
    from neartwin.accounting.rdp import rdp_to_epsilon as rdp_to_epsilon
    from neartwin.accounting.rdp import rdp_to_epsilon_mironov as rdp_to_epsilon_mironov
    from neartwin.accounting.sampling import amplified_approximate as amplified_approximate
    from neartwin.accounting.sampling import amplified_pure as amplified_pure
    from neartwin.accounting.sampling import epsilon_before_sampling as epsilon_before_sampling
    from neartwin.accounting.spend import on_sample as on_sample
    from neartwin.accounting.spend import once as once
    from neartwin.accounting.spend import parallel as parallel
    from neartwin.accounting.spend import repeated as repeated
    from neartwin.accounting.spend import to_group as to_group
    from neartwin.accounting.spend import together as together
    from neartwin.accounting.zcdp import compose_zcdp as compose_zcdp
    from neartwin.accounting.zcdp import zcdp_for_epsilon as zcdp_for_epsilon
    from neartwin.accounting.zcdp import zcdp_of_gaussian as zcdp_of_gaussian
    from neartwin.accounting.zcdp import zcdp_of_laplace as zcdp_of_laplace
    from neartwin.accounting.zcdp import zcdp_of_pure as zcdp_of_pure
    from neartwin.accounting.zcdp import zcdp_to_epsilon as zcdp_to_epsilon
    from neartwin.accounting.zcdp import zcdp_to_epsilon_bun_steinke as zcdp_to_epsilon_bun_steinke
    from neartwin.accounting.zcdp import zcdp_to_rdp as zcdp_to_rdp

# room -> its public names; imported at first use, so that a ledger loads no numerical library
_ROOMS = {
    "accountants": (
        "advanced_accountant",
        "basic_accountant",
        "gdp_accountant",
        "moments_accountant",
        "numerical_accountant",
        "optimal_accountant",
        "rdp_accountant",
        "zcdp_accountant",
    ),
    "adaptive": (
        "Step",
        "adaptive_bound",
        "adaptive_renyi",
        "worst_steps",
    ),
    "advanced": (
        "advanced_composition",
        "advanced_composition_classical",
        "advanced_composition_mixed",
        "advanced_epsilon_each",
        "best_composition",
        "filter_bound",
    ),
    "basic": (
        "basic_composition",
        "each_share",
        "group_approximate",
        "group_privacy",
        "group_rdp",
        "group_zcdp",
    ),
    "bound": ("Bound",),
    "bounded_range": (
        "bounded_range_delta",
        "bounded_range_rdp",
        "zcdp_of_bounded_range",
    ),
    "calibration": (
        "largest_rate",
        "least_noise",
        "most_uses",
    ),
    "goals": (
        "betting_odds",
        "true_positives",
    ),
    "rdp": (
        "DEFAULT_ORDERS",
        "RdpCurve",
        "RdpEpsilon",
        "compose_rdp",
        "rdp_curve",
        "rdp_to_delta",
        "rdp_to_epsilon",
        "rdp_to_epsilon_mironov",
    ),
    "sampling": (
        "amplified_approximate",
        "amplified_pure",
        "epsilon_before_sampling",
    ),
    "spend": (
        "on_sample",
        "once",
        "parallel",
        "repeated",
        "to_group",
        "together",
    ),
    "zcdp": (
        "compose_zcdp",
        "zcdp_for_epsilon",
        "zcdp_of_gaussian",
        "zcdp_of_laplace",
        "zcdp_of_pure",
        "zcdp_to_epsilon",
        "zcdp_to_epsilon_bun_steinke",
        "zcdp_to_rdp",
    ),
}
_HOME = {name: f"neartwin.accounting.{room}" for room, names in _ROOMS.items() for name in names}
__all__ = sorted(_HOME)  # noqa: PLE0605 - a sorted list of public names, from one table
__getattr__, __dir__ = late(__name__, _HOME)
