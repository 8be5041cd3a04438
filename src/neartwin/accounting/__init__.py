"""Usage of mechanisms and its cost: targets, spends, accountants, filters, theorems, calibration, guarantees."""

from neartwin.accounting.renyi import RdpCurve as RdpCurve
from neartwin.accounting.renyi import bounded_range_rdp as bounded_range_rdp
from neartwin.accounting.renyi import compose_rdp as compose_rdp
from neartwin.accounting.renyi import rdp_curve as rdp_curve
from neartwin.accounting.renyi import rdp_to_epsilon as rdp_to_epsilon
from neartwin.accounting.renyi import rdp_to_epsilon_mironov as rdp_to_epsilon_mironov
from neartwin.accounting.renyi import zcdp_of_bounded_range as zcdp_of_bounded_range
from neartwin.accounting.renyi import zcdp_of_pure as zcdp_of_pure
from neartwin.accounting.renyi import zcdp_to_epsilon as zcdp_to_epsilon
from neartwin.accounting.renyi import zcdp_to_epsilon_bun_steinke as zcdp_to_epsilon_bun_steinke
from neartwin.accounting.theorems import Step as Step
from neartwin.accounting.theorems import adaptive_bound as adaptive_bound
from neartwin.accounting.theorems import adaptive_renyi as adaptive_renyi
from neartwin.accounting.theorems import advanced_composition as advanced_composition
from neartwin.accounting.theorems import advanced_composition_classical as advanced_composition_classical
from neartwin.accounting.theorems import advanced_epsilon_each as advanced_epsilon_each
from neartwin.accounting.theorems import basic_composition as basic_composition
from neartwin.accounting.theorems import each_share as each_share
from neartwin.accounting.theorems import filter_bound as filter_bound
from neartwin.accounting.theorems import group_approximate as group_approximate
from neartwin.accounting.theorems import group_privacy as group_privacy
from neartwin.accounting.theorems import group_zcdp as group_zcdp
from neartwin.accounting.theorems import worst_steps as worst_steps
