"""An accountant for Opacus: certified epsilons of a training run, by the name "neartwin".

from neartwin.accounting.opacus import register
register()
engine = PrivacyEngine(accountant="neartwin")
"""

from collections import Counter
from typing import Any

from neartwin.accounting.usage import cost
from neartwin.checks import integer, non_negative, open_probability, probability
from neartwin.errors import NeartwinError, PrivacyError
from neartwin.exact import Interval, Number, rational
from neartwin.losses import FinitePair, SubsampledGaussian, compose
from neartwin.losses.composition import PrivacyLoss

try:
    from opacus.accountants import IAccountant, register_accountant
except ImportError as missing:
    raise NeartwinError("neartwin.accounting.opacus needs Opacus: pip install opacus") from missing

NAME = "neartwin"


class CertifiedAccountant(IAccountant):  # type: ignore[misc] # Opacus has no types here
    """Certified epsilons of DP-SGD on Poisson batches, each step with its own noise and sampling rate.

    Attributes:
        history: A list of (noise multiplier, sampling rate, steps), as every accountant of Opacus keeps.
    """

    def __init__(self) -> None:
        """No steps yet."""
        self.history: list[tuple[float, float, int]] = []

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Record one step of the optimizer.

        Args:
            noise_multiplier: The noise's standard deviation over the norm that gradients are clipped to.
            sample_rate: The probability with which each record is in the batch.
        """
        steps = 0
        if self.history and self.history[-1][:2] == (noise_multiplier, sample_rate):
            steps = self.history.pop()[2]
        self.history.append((noise_multiplier, sample_rate, steps + 1))

    def get_epsilon(self, delta: float, *_: Any, **__: Any) -> float:
        """The guarantee so far: the upper end of `interval`.

        Args:
            delta: Strictly between 0 and 1.
            _: Ignored; what other accountants of Opacus are given, such as `alphas`.
            __: Ignored, such as `eps_error`.

        Returns:
            Epsilon, at least 0; inf where a step without noise draws a record with more than this probability.
        """
        return self.interval(delta).upper

    def interval(self, delta: Number) -> Interval[float]:
        """Bounds on the least epsilon of all steps so far.

        Args:
            delta: Strictly between 0 and 1.

        Raises:
            ParameterError: A recorded number is out of bounds.
        """
        open_probability(delta=rational(delta=delta))
        uses: Counter[PrivacyLoss] = Counter()
        for noise_multiplier, sample_rate, steps in self.history:
            noise = non_negative(noise_multiplier=rational(noise_multiplier=noise_multiplier))
            rate = rational(sample_rate=sample_rate)
            probability(sample_rate=rate)
            if not integer(at_least=0, steps=steps) or rate == 0:
                continue
            bare = FinitePair(p=(rate, 1 - rate), q=(0, 1))  # a record that is drawn is seen
            uses[SubsampledGaussian(mu=1 / noise, rate=rate) if noise else bare] += steps
        return cost(compose(uses)).epsilon(delta) if uses else Interval(0.0, 0.0, "no steps")

    def get_optimizer_hook_fn(self, sample_rate: float) -> Any:
        """The function that Opacus calls at each step of its optimizer.

        Args:
            sample_rate: The probability with which each record is in a batch.

        Raises:
            PrivacyError: The function raises it when one step sums several Poisson batches. A record may be in more than one.
                Opacus would count one batch of a higher rate, which is too little.
        """

        def recorded(optimizer: Any) -> None:
            if (batches := optimizer.accumulated_iterations) != 1:
                raise PrivacyError(
                    f"one step sums {batches} Poisson batches, so a record may count up to {batches} times; "
                    "use BatchMemoryManager, which splits one batch, or training.poisson_batches(..., accumulated=...)"
                )
            self.step(noise_multiplier=optimizer.noise_multiplier, sample_rate=sample_rate)

        return recorded

    def __len__(self) -> int:
        """The number of steps."""
        return sum(steps for _, _, steps in self.history)

    @classmethod
    def mechanism(cls) -> str:
        """Its name in Opacus."""
        return NAME


def register() -> None:
    """Make `PrivacyEngine(accountant="neartwin")` and `create_accountant("neartwin")` known to Opacus.

    May be called again.
    """
    register_accountant(NAME, CertifiedAccountant, force=True)
