"""Planning the choice of the most common values: k noisy choices one after the other, and their counts where they are asked for.

Each choice is permute-and-flip on what is left. All k compose by the rule of the spend's own currency: k of them at e are
(k e)-private, k rho(e)-zCDP, k mu(e)^2 in squared mu, and at a delta as private as the certified engine shows.
"""

from fractions import Fraction

from neartwin.accounting.budgets import Approx, Budget, Gdp, Pure, Rdp, Zcdp
from neartwin.errors import PrivacyError
from neartwin.exact import root_above, root_below
from neartwin.losses import Pure as PureLoss
from neartwin.mechanisms.neighbours import Neighbours
from neartwin.mechanisms.selection.permute_and_flip import PermuteAndFlip
from neartwin.mechanisms.selection.top_k import PeeledTop
from neartwin.planning.allocation import allocate, each_epsilon
from neartwin.planning.plan import TopKPlan
from neartwin.planning.stage import Stage
from neartwin.queries.query import TopK
from neartwin.statistics.measures import Measure, Measurement
from neartwin.statistics.sensitivity import Sensitivity

_HALF = Fraction(1, 2)


def plan_choice(query: TopK, spend: Budget) -> TopKPlan:
    """The plan of a `MostCommon`; with counts, half of the spend goes to them."""
    table = query.table
    monotone = table.neighbours is Neighbours.ADD_REMOVE
    if monotone:
        why = (
            "one unit raises counts by at most 1, all in one direction, however many it is in: no factor m, no factor 2"
        )
    else:
        why = "replacing a unit can raise one count and lower another by 1: the gap moves by 2"
    stage = Stage(
        table=table,
        conditions=query.rows.conditions,
        group_columns=(query.column,),
        keys=query.among,
        grid={},
        measures=("units",),
        rows_per_group=1,
        groups_per_unit=None,
    )
    epsilon, price = _each(_scaled(spend, _HALF) if query.counted else spend, query.k)
    each = PermuteAndFlip.calibrated(epsilon=epsilon, sensitivity=1, monotone=monotone)
    counts = None
    if query.counted:
        reach = Sensitivity(query.k, 1, query.k, f"a unit counts at most once for each of {query.k} values")
        allotted = allocate((Measurement("units", reach, 1.0),), None, _scaled(spend, _HALF))
        counts = Measure(name="units", sensitivity=reach, mechanism=allotted.noise["units"])
        price = _together(price, allotted.price)
        if isinstance(price, Gdp) and isinstance(spend, Gdp):  # halves of mu^2, whose root is rounded up
            price = Gdp(min(price.mu, spend.mu), price.delta)
    return TopKPlan(
        query=query,
        spend=spend,
        price=price,
        stage=stage,
        mechanism=PeeledTop(each=each, count=query.k),
        counts=counts,
        why=why,
    )


def _each(spend: Budget, k: int) -> tuple[Fraction, Budget]:
    """The epsilon of one of k choices, and what all of them cost: never more than the spend."""
    match spend:
        case Pure(epsilon=epsilon):
            return epsilon / k, spend
        case Approx(epsilon=epsilon, delta=delta):
            # quarters of epsilon / k, the largest first; four of them hold by sums, and leave delta unspent
            for quarters in range(4 * k, 4, -1):
                if _holds(epsilon * quarters / (4 * k), k, delta, epsilon):
                    return epsilon * quarters / (4 * k), spend
            return epsilon / k, Pure(epsilon)
        case Zcdp(rho=rho):
            return each_epsilon(Zcdp(rho, Fraction(0)), k), Zcdp(rho, Fraction(0))
        case Rdp(order=order, epsilon=epsilon):
            return each_epsilon(Zcdp(epsilon / order, Fraction(0)), k), Rdp(order, epsilon, Fraction(0))
        case Gdp(mu=mu):
            return each_epsilon(Gdp(mu, Fraction(0)), k), Gdp(mu, Fraction(0))
        case _:
            raise PrivacyError(f"a choice cannot spend {spend}; spend pure(epsilon), approx, zcdp(rho) or gdp(mu)")


def _holds(each: Fraction, k: int, delta: Fraction, epsilon: Fraction) -> bool:
    return bool((k * PureLoss(epsilon=each)).epsilon(delta).upper <= epsilon)


def _scaled(spend: Budget, share: Fraction) -> Budget:
    """A share of what adds up in this currency."""
    match spend:
        case Pure(epsilon=epsilon):
            return Pure(epsilon * share)
        case Approx(epsilon=epsilon, delta=delta):
            return Approx(epsilon * share, delta * share)
        case Zcdp(rho=rho, delta=delta):
            return Zcdp(rho * share, delta)
        case Rdp(order=order, epsilon=epsilon, delta=delta):
            return Rdp(order, epsilon * share, delta)
        case Gdp(mu=mu, delta=delta):
            return Gdp(root_below(mu**2 * share), delta)
        case _:
            raise PrivacyError(f"a choice cannot spend {spend}; spend pure(epsilon), approx, zcdp(rho) or gdp(mu)")


def _together(one: Budget, other: Budget) -> Budget:
    """Two prices of one currency as one."""
    match one, other:
        case Zcdp(rho=a), Zcdp(rho=b):
            return Zcdp(a + b, Fraction(0))
        case Rdp(order=order, epsilon=a), Rdp(epsilon=b):
            return Rdp(order, a + b, Fraction(0))
        case Gdp(mu=a), Gdp(mu=b):
            return Gdp(root_above(a**2 + b**2), Fraction(0))
    epsilon = sum((part.epsilon for part in (one, other) if isinstance(part, Pure | Approx)), Fraction(0))
    delta = sum((part.delta for part in (one, other) if isinstance(part, Approx)), Fraction(0))
    return Approx(epsilon, delta) if delta else Pure(epsilon)
