"""Above threshold (the sparse vector technique): the first c of many questions whose answers pass a threshold.

The threshold gets discrete Laplace noise of scale t1 once. Each answer, of sensitivity D, gets fresh noise of scale t2. A noisy
answer at or above the noisy threshold is named, and the session ends with the c-th. Any number of "below" is free. The whole
is (D/t1 + 2cD/t2)-DP, and (D/t1 + cD/t2)-DP where all questions are monotone together. So are the answers "above" with their
*gaps*, noisy answer less noisy threshold.

Proof by alignment: shift the threshold's noise by D, and that of each "above" by its change plus D. All others stay below, and
the gaps do not change. Dwork, Roth 2014, Thm 3.23; Lyu, Su, Li 2017, Alg. 1; Ding, Wang, Xiao, Zhang, Kifer 2019. Adaptive
questions are covered.

Four published variants are broken (Lyu, Su, Li 2017, Fig. 1). The first has no noise on the answers. The second has noise that
does not grow with the number of reported answers. The third releases the noisy answer itself, and the fourth does both. Here a
session that has said its last "above" is over; it cannot be copied, pickled, forked or rewound.
"""

import os
import threading
from dataclasses import dataclass
from fractions import Fraction
from math import log
from typing import NoReturn, final

from neartwin import noise
from neartwin.checks import integer, open_probability, positive
from neartwin.errors import ParameterError, PrivacyError
from neartwin.losses import Composition, Pure
from neartwin.mechanisms.noise_laws import DiscreteLaplaceLaw


@dataclass(frozen=True, slots=True, kw_only=True)
class AboveThreshold:
    """The plan of a session.

    Attributes:
        threshold_scale: t1, the scale of the threshold's noise.
        answer_scale: t2, the scale of each answer's noise.
        sensitivity: D, of every answer.
        monotone: Whether all answers move one way together.
        most_above: c, the number of "above" after which a session ends.
    """

    threshold_scale: Fraction
    answer_scale: Fraction
    sensitivity: int
    monotone: bool
    most_above: int = 1

    def __post_init__(self) -> None:
        integer(at_least=1, most_above=self.most_above)
        positive(threshold_scale=self.threshold_scale)
        positive(answer_scale=self.answer_scale)
        integer(at_least=1, sensitivity=self.sensitivity)

    @classmethod
    def calibrated(cls, *, epsilon: Fraction, sensitivity: int, monotone: bool) -> "AboveThreshold":
        """Half of epsilon on the threshold, half on the answers.

        >>> plan = AboveThreshold.calibrated(epsilon=Fraction(1), sensitivity=1, monotone=False)
        >>> plan.threshold_scale, plan.answer_scale, plan.epsilon
        (Fraction(2, 1), Fraction(4, 1), Fraction(1, 1))
        """
        half = positive(epsilon=epsilon) / 2
        moves = sensitivity if monotone else 2 * sensitivity
        return cls(
            threshold_scale=sensitivity / half, answer_scale=moves / half, sensitivity=sensitivity, monotone=monotone
        )

    @classmethod
    def for_several(cls, *, epsilon: Fraction, sensitivity: int, monotone: bool, most_above: int) -> "AboveThreshold":
        """The mechanism for up to `most_above` answers above.

        Epsilon is shared as 1 : moves^(2/3), with moves 2c, or c if monotone, as a rational. At this share the noise of
        a comparison varies least.

        Args:
            epsilon: The pure-DP parameter of a session.
            sensitivity: D, the most that one unit changes an answer.
            monotone: Whether one unit moves all answers in one direction.
            most_above: c.

        Returns:
            The mechanism.

        Source:
            Lyu, Su, Li 2017, section 4.2.

        >>> plan = AboveThreshold.for_several(epsilon=Fraction(1), sensitivity=1, monotone=False, most_above=10)
        >>> plan.epsilon, round(float(plan.threshold_scale), 2), round(float(plan.answer_scale), 2)
        (Fraction(1, 1), 8.38, 22.71)
        """
        moves = (1 if monotone else 2) * integer(at_least=1, most_above=most_above)
        share = Fraction(round(64 * moves ** (2 / 3)), 64)
        of_threshold = positive(epsilon=epsilon) / (1 + share)
        return cls(
            threshold_scale=sensitivity / of_threshold,
            answer_scale=moves * sensitivity / (epsilon - of_threshold),
            sensitivity=sensitivity,
            monotone=monotone,
            most_above=most_above,
        )

    @property
    def epsilon(self) -> Fraction:
        """The exact guarantee of a whole session."""
        moves = self.most_above * (self.sensitivity if self.monotone else 2 * self.sensitivity)
        return self.sensitivity / self.threshold_scale + moves / self.answer_scale

    def losses(self) -> Composition:
        """Its pure guarantee as a factor for composition."""
        return Composition.of(Pure(epsilon=self.epsilon))

    def start(self, *, threshold: int, source: noise.Source = noise.SYSTEM) -> "Session":
        """Start a session for one run of questions. Reserve `epsilon` before.

        Args:
            threshold: The threshold, a public number.
            source: The source of randomness.

        Returns:
            The session.
        """
        drawn = noise.discrete_laplace(self.threshold_scale).draw(source=source)
        return Session(self, threshold + int(drawn), source)

    def half_width(self, confidence: float, questions: int) -> int:
        """The accuracy t of a session, which holds for all questions together with this confidence.

        Every "above" has an answer of at least threshold - t, and every "below" an answer of at most threshold + t.
        Half of the failure probability goes to the threshold's noise, half to that of all answers together.

        Args:
            confidence: The confidence, in (0, 1).
            questions: The number of questions.

        Returns:
            t.
        """
        each = 1 - (1 - open_probability(confidence=confidence)) / 2
        of_threshold = DiscreteLaplaceLaw(self.threshold_scale).half_width(each)
        return of_threshold + DiscreteLaplaceLaw(self.answer_scale).half_width(each, questions)


@final
class Session:
    """One run of questions; ends with the plan's last "above". Made by `AboveThreshold.start`.

    >>> session = AboveThreshold.calibrated(epsilon=Fraction(1), sensitivity=1, monotone=False).start(threshold=1000)
    >>> session.ask(0) is None, session.ask(5000) > 0
    (True, True)
    >>> session.ask(0)
    Traceback (most recent call last):
    neartwin.errors.PrivacyError: this session has said "above" and is over; ...
    """

    __slots__ = ("_left", "_lock", "_noisy_threshold", "_pid", "_source", "plan")

    def __init__(self, plan: AboveThreshold, noisy_threshold: int, source: noise.Source) -> None:
        self.plan = plan
        self._noisy_threshold, self._source = noisy_threshold, source
        self._left, self._pid, self._lock = plan.most_above, os.getpid(), threading.Lock()

    @property
    def is_over(self) -> bool:
        """Whether it has said its last "above"."""
        return self._left == 0

    @property
    def left(self) -> int:
        """How many "above" it may still say."""
        return self._left

    def ask(self, answer: int) -> int | None:
        """None for "below"; for "above" the gap: noisy answer less noisy threshold, at least 0. The last one ends the session.

        answer: the true answer, a whole number, of the plan's sensitivity. The gap is an unbiased look at answer - threshold
        but for its being at least 0, with the noise of both.
        """
        if os.getpid() != self._pid:
            raise PrivacyError("a session does not survive a fork: both copies would share its noisy threshold")
        with self._lock:  # two threads must not both get the last "above"
            return self._ask(int(answer))

    def _ask(self, answer: int) -> int | None:
        if self.is_over:
            raise PrivacyError(
                'this session has said "above" and is over; its noisy threshold must not be used again: start a new '
                "session, and pay for it"
            )
        drawn = noise.discrete_laplace(self.plan.answer_scale).draw(source=self._source)
        gap = answer + int(drawn) - self._noisy_threshold
        if gap < 0:
            return None
        self._left -= 1
        if self._left == 0:
            self._noisy_threshold = 0
        return gap

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("a session holds secret noise and must not be copied: a copy could be asked again")


def theorem_accuracy(*, epsilon: Fraction, questions: int, beta: float, sensitivity: int = 1) -> float:
    """The alpha of Dwork, Roth 2014, Thm 3.24, for continuous Laplace noise: 8 (ln k + ln(2/beta)) D / epsilon.

    With probability at least 1 - beta no answer is wrong by more than alpha. `half_width` is sharper for this library's
    noise.

    Args:
        epsilon: The pure-DP parameter.
        questions: k.
        beta: The failure probability.
        sensitivity: D.

    Returns:
        alpha.

    Raises:
        ParameterError: beta is not in (0, 1), or another argument is not positive.

    >>> round(theorem_accuracy(epsilon=Fraction(1), questions=1000, beta=0.05), 9)
    84.773077865
    """
    if not 0 < beta < 1:
        raise ParameterError("beta", beta, "must lie strictly between 0 and 1")
    k = integer(at_least=1, questions=questions)
    return 8 * (log(k) + log(2 / float(beta))) * sensitivity / float(positive(epsilon=epsilon))
