"""How far a sum can be from the exact one: the noise of its total and, where values are counted around a middle, their number's.

With values x less a centre c, T = sum of x - c and N = how many, the sum is T + c N. Where a mean of the same values is asked
too, N is measured anyway, and |x - c| is at most half as large as |x|: both statistics are closer than with T = sum of x.
"""

from fractions import Fraction

from neartwin.mechanisms.two_noises import half_width_of_two
from neartwin.queries.measuring import filled_measure
from neartwin.queries.plan import GroupPlan
from neartwin.queries.stage import GridColumn


def sum_half_width(plan: GroupPlan, column: GridColumn, confidence: float) -> Fraction:
    """Of the noise of a column's sum, in steps."""
    total = plan.measures[f"total:{column.name}"]
    if not column.centre:
        return total.half_width(confidence)
    number = plan.measures[filled_measure(column, plan.bounding)]
    weights = 1 / total.parts, abs(column.centre) / number.parts
    laws = total.mechanism.law, number.mechanism.law
    return Fraction(half_width_of_two(laws[0], weights[0], laws[1], weights[1], confidence))
