"""Plans: every step and the price of a release, decided from the schema and declared bounds alone.

A kind of plan is one class. It knows its digest, its privacy loss, its words, its expected errors, and how noise is
added to the exact answers of an engine. `QueryPlan` is the base of plans for groups. Its first stages choose bounds
privately.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from neartwin.accounting.budgets import Budget
from neartwin.exact import Number
from neartwin.losses import Composition, compose
from neartwin.noise import Source
from neartwin.planning.allocation import CONFIDENCE
from neartwin.planning.bounding_loss import LossStage, clipped_amounts
from neartwin.planning.contribution_bounds import ContributionBounds
from neartwin.planning.digests import digest_of
from neartwin.planning.explain import Explained, nodes
from neartwin.planning.limits import Limits
from neartwin.planning.stage import SALT_BITS, Aggregates, Engine, Stage
from neartwin.queries.query import NOTHING, PostProcessing, Query, TopK, values_in
from neartwin.statistics.base import Estimate, ExpectedError, Statistic
from neartwin.tables.table import Bounds, Join, JoinKind, Table
from neartwin.tables.types import UNHELD, ColumnType, Key, of_code

_GIVEN = "public: given with the question"
_MORE_BOUNDS = {"rows": "rows", "values": "values", "units_groups": "max_groups"}  # as limits name them


@dataclass(frozen=True, slots=True)
class NoisyAnswer:
    """A noisy answer, which may leave the private side.

    Attributes:
        keys: The groups, one a row.
        columns: The statistics, with a value and a bar for each row.
    """

    keys: tuple[Key, ...]
    columns: tuple[Estimate, ...]


@dataclass(frozen=True, slots=True)
class Together:
    """A promise to several units changed together, which a group theorem derives from the price for one.

    Attributes:
        units: The number of units.
        promise: The guarantee for all of them.
    """

    units: int
    promise: Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(ABC):
    """Every step and the price of a question, decided before anything is spent.

    Attributes:
        query: The question.
        spend: The caller's limit.
        price: The charge, never more than the spend.
        stage: The exact question for an engine.
        together: A promise to several units changed together; None for a promise to one.
        bounding: The bounds of one unit's contribution; None if nothing is bounded.
        loss: The stage that measures what the bounds take; None if that is not measured.
        first_stages: The stages that choose bounds, in turn: bounds of values before those of contributions.
    """

    kind: ClassVar[str]  # in digests

    query: Query | TopK
    spend: Budget
    price: Budget
    stage: Stage
    together: Together | None = None
    bounding: ContributionBounds | None = None
    loss: LossStage | None = None
    first_stages: "tuple[FirstStage, ...]" = ()

    # What it is

    @property
    def compared(self) -> bool:
        """Whether its rows were compared with noisy numbers, so that no bar holds what exact ones would give."""
        return isinstance(self.query, Query) and self.query.groups.rows.compared

    @property
    def digest(self) -> str:
        """The identity of the plan: equal for plans with the same effect, across processes and versions of this library."""
        units = {} if self.together is None else {"units_together": self.together.units}
        return digest_of(self.kind, self.known_stage, self.record() | units)

    @property
    def known_stage(self) -> Stage:
        """The stage in the digest."""
        return self.stage

    @abstractmethod
    def record(self) -> dict[str, object]:
        """Everything that decides the answer beside the stage, in the words of digests."""

    @abstractmethod
    def losses(self) -> Composition:
        """The privacy loss of everything noisy together, first stages included. The price covers this curve."""

    @abstractmethod
    def mechanisms(self) -> Iterator[tuple[str, object]]:
        """Everything that draws or shapes noise, by the name of its place."""

    @property
    @abstractmethod
    def objective(self) -> float:
        """The quantity that shares of a series minimise: the sum of the stated errors, in units of one row's largest
        contribution.
        """

    # What a release of it looks like

    @property
    def has_codes(self) -> bool:
        """Whether numbers of its release stand for dates or texts."""
        return False

    @property
    def group_columns(self) -> tuple[str, ...]:
        """Names of the release's group columns."""
        return self.stage.group_columns

    @property
    def group_types(self) -> Mapping[str, ColumnType]:
        """The types of the group columns that are columns of the table; all others are text."""
        return {name: self.stage.table.schema[name] for name in self.stage.group_columns}

    @property
    @abstractmethod
    def columns(self) -> tuple[tuple[str, str], ...]:
        """The name and the description of each statistic of the release, in order."""

    @property
    def after(self) -> PostProcessing:
        """The steps on the release, at no cost."""
        return NOTHING

    @property
    def public_rows(self) -> int:
        """The number of rows of a release over public groups; 0 if it is unknown, or surely small."""
        return 0

    # The run

    @property
    def parts_of_noise(self) -> Mapping[str, int]:
        """The parts of a step in which noise is drawn, by the name of its place, where they are more than 1."""
        return {}

    def after_loss(self, lost: Mapping[str, Any]) -> Self:
        """The plan whose bars hold what limits took, as far as it was measured.

        Args:
            lost: The statement of `LossStage.measured`.
        """
        return self

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The exact questions for an engine. One salt serves all, so that a unit is kept in one set of groups for all
        answers.
        """
        return (self.stage,)

    @property
    def all_stages(self) -> tuple[Stage, ...]:
        """The exact questions of a run, first stages and the measured loss included, as far as they are known before it."""
        return self.stages

    @abstractmethod
    def noised(self, answers: Sequence[Aggregates], source: Source) -> NoisyAnswer:
        """Add fresh noise to exact answers.

        Args:
            answers: The exact answers, one for each of `stages`.
            source: The source of noise.

        Returns:
            The noisy answer.
        """

    def answer(self, engine: Engine, source: Source) -> NoisyAnswer:
        """Ask an engine, and add noise. First stages have been resolved before.

        Args:
            engine: The engine.
            source: The source of noise and of the salt.

        Returns:
            The noisy answer.
        """
        salt = source.bits(SALT_BITS)
        found = self.noised([engine.aggregate(stage, salt=salt) for stage in self.stages], source)
        if not self.compared:
            return found
        none = (None,) * len(found.keys)
        return replace(found, columns=tuple(replace(one, lower=none, upper=none, noise=None) for one in found.columns))

    def with_loss(self, engine: Engine, source: Source) -> tuple[Self, Mapping[str, Any] | None]:
        """Measure what limits take. First stages have been resolved before.

        Args:
            engine: The engine.
            source: The source of noise and of the salt.

        Returns:
            The plan whose bars hold it, and the statement of `LossStage.measured`; None if the loss is not measured.
        """
        lost = None if self.loss is None else self.loss.measured(engine, source)
        return self if lost is None else self.after_loss(lost), lost

    def resolve(self, engine: Engine, source: Source) -> "tuple[Plan, tuple[Choice, ...]]":
        """Run the first stages.

        Args:
            engine: The engine.
            source: The source of noise and of the salt.

        Returns:
            The plan at the chosen bounds, and the choices, the first one first.
        """
        return self, ()

    # Its words

    @abstractmethod
    def expected_errors(self) -> tuple[ExpectedError, ...]:
        """The error of each statistic at the confidence of releases, known before anything is spent."""

    def explain(self) -> Explained:
        """The steps of the plan, from its source to its price, as a tree."""
        return Explained(
            f"release of {self.stage.table.name!r}: {self.price}",
            (
                _explain_source(self.stage.table),
                *self._explain_promise(),
                *(
                    Explained(f"where {one.text}", nodes("looks at one row at a time, cannot fail"))
                    for one in self.stage.conditions
                ),
                *self._explained(),
            ),
        )

    @abstractmethod
    def _explained(self) -> tuple[Explained, ...]:
        """The nodes after the source and its conditions."""

    def _explain_promise(self) -> tuple[Explained, ...]:
        if self.together is None:
            return ()
        why = f"one alone has {self.price}, which is what the account is charged; groups follow by theorem"
        return (
            Explained(f"promised to up to {self.together.units} units together: {self.together.promise}", nodes(why)),
        )

    def notes(self) -> tuple[str, ...]:
        """Caveats about bars, bounds and units for a reader of the release, one or two sentences each."""
        if self.together is None:
            return self._notes()
        promise = f"The guarantee is for up to {self.together.units} units changed together"
        return (*self._notes(), f"{promise}; one alone has {self.price}, and that is what the account was charged.")

    @abstractmethod
    def _notes(self) -> tuple[str, ...]:
        """The notes that this kind of plan adds."""

    def notes_of_values(self, columns: Sequence[Estimate]) -> Iterable[str]:
        """Caveats about the noisy values for a reader of the release, one sentence each.

        Args:
            columns: The released statistics.
        """
        return ()

    def question(self) -> dict[str, Any]:
        """The question, as data."""
        stage = self.stage
        if stage.keys is None:
            keys = "discovered privately, their failure probability charged"
        else:
            keys = "one group: all rows" if stage.keys == ((),) else f"{len(stage.keys)} public keys"
        return {
            "table": stage.table.name,
            **({} if stage.table.per_unit is None else {"from": str(stage.table.per_unit)}),
            "joins": [str(join) for join in stage.table.joins],
            "conditions": [condition.text for condition in stage.conditions],
            "group_columns": list(stage.group_columns),
            "computed": {name: expression.text for name, expression in sorted(stage.table.computed.items())},
            "keys": keys,
        } | self._statistics()

    @abstractmethod
    def _statistics(self) -> dict[str, Any]:
        """The statistics, and the groups or answers that they are over."""

    @abstractmethod
    def bounds(self) -> list[dict[str, str]]:
        """Each bound that limits one unit, with its value and origin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan(Plan):
    """The plan of a `Query`: noisy measures of groups, from which its statistics are computed.

    A plan with first stages is at an example of the limits that they may choose, and at the widest clip bounds. Its
    price is the whole one.

    Attributes:
        bounding: The bounds of one unit's contribution.
        why: The reasons for the split of the spend, in words.
        error: The objective that the shares minimise.
        asked: The plan at the whole spend, without a measured loss, whose digest this one has; None for its own.
    """

    query: Query
    bounding: ContributionBounds
    why: tuple[str, ...]
    error: float
    asked: "QueryPlan | None" = None

    @property
    def after(self) -> PostProcessing:
        """The steps on the release, at no cost."""
        return self.query.after

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """The name and the description of each statistic of the release, in order."""
        return tuple((label, str(one)) for name, one in self.query.aggregates.items() for label in one.labels(name))

    @property
    def has_codes(self) -> bool:
        """Whether a statistic is of dates or texts."""
        return any(one.kind(self.stage.table) is not ColumnType.NUMBER for one in self.query.aggregates.values())

    @property
    def can_cut(self) -> bool:
        """Whether limits or clips can take something: no limit from single rows, or units in as many groups as there are."""
        if self.query.table.one_row and not any(clipped_amounts(self.stage)):
            return self.bounding.norm is not None
        return not self.query.units_alone or self.stage.groups_per_unit is not None or self.bounding.norm is not None

    def holds_lost(self, statistic: Statistic) -> bool:
        """Whether a statistic's bars hold what limits took, once that is measured.

        Args:
            statistic: The statistic.
        """
        return statistic.holds_lost

    @property
    def objective(self) -> float:
        """The error that the shares minimise."""
        return self.error

    @property
    def known_stage(self) -> Stage:
        """The stage in the digest: that of the plan at the whole spend."""
        return (self.asked or self).stage

    def record(self) -> dict[str, object]:
        """The statistics, the measures, the first stages, and the measurement of the loss where the question gave its share."""
        form: dict[str, object] = {
            "asked": {name: statistic.record for name, statistic in self.query.aggregates.items()}
        }
        form |= (self.asked or self)._measured()  # noqa: SLF001 - its own
        if self.asked is None and (self.loss or self.can_cut):
            form["loss"] = self.loss and self.loss.mechanism.record  # None: nothing is measured, as was asked
        for stage in self.first_stages:
            form |= stage.record(self)
        return form

    @abstractmethod
    def _measured(self) -> dict[str, object]:
        """The measures and their noise, in the words of digests."""

    def losses(self) -> Composition:
        """The privacy loss of everything noisy together, first stages included. The price covers this curve."""
        loss = [] if self.loss is None else [self.loss.losses()]
        return compose([*self._losses(), *loss, *(stage.losses() for stage in self.first_stages)])

    @abstractmethod
    def _losses(self) -> list[Composition]:
        """The privacy loss of each measure."""

    def resolve(self, engine: Engine, source: Source) -> "tuple[Plan, tuple[Choice, ...]]":
        """Run the first stages.

        Args:
            engine: The engine.
            source: The source of noise and of the salt.

        Returns:
            The plan at the chosen bounds, and the choices, the first one first.
        """
        if not self.first_stages:
            return self, ()
        choice = self.first_stages[0].choose(self, engine, source)
        plan, later = choice.plan.resolve(engine, source)
        return plan, (choice, *choice.later, *later)

    @property
    def all_stages(self) -> tuple[Stage, ...]:
        """The exact questions of a run."""
        first = [stage for one in self.first_stages for stage in one.stages]
        return (*first, *self.stages, *(() if self.loss is None else self.loss.stages))

    def expected_errors(self) -> tuple[ExpectedError, ...]:
        """The error of each statistic, with the limits at which it is only an example."""
        example = "".join(stage.example(self) for stage in self.first_stages)
        return tuple(replace(error, says=error.says + example) for error in self._errors())

    @abstractmethod
    def _errors(self) -> tuple[ExpectedError, ...]:
        """The error of each statistic at the plan's own limits."""

    @abstractmethod
    def noise_of_limit(self, name: str) -> float:
        """The growth of an answer's noise with a limit, over the bias from a lost row.

        Args:
            name: The limit: rows, max_groups or norm.

        Returns:
            The mean absolute noise of the answers that it bounds, for each row of the limit and each group that an
            answer counts. It is in rows that limits take: as many are as bad as this noise.
        """

    def _explained(self) -> tuple[Explained, ...]:
        return (
            self._explain_keys(),
            *self._explain_clips(),
            *(stage.explanation(self) for stage in self.first_stages),
            *self._explain_trees(),
            Explained("bound each unit", self._explain_bounds()),
            *(() if self.loss is None else self.loss.explanation()),
            *self._explain_noise(),
        )

    def _explain_keys(self) -> Explained:
        columns, keys = ", ".join(self.stage.group_columns), len(self.stage.keys or ())
        return Explained(f"one table by {columns}: {keys:,} public keys, empty ones appear too")

    def _explain_clips(self) -> Iterator[Explained]:
        for column in self.stage.grid.values():
            steps = (
                f"as whole steps, from {column.low} to {column.high} around {column.centre}: sums are exact integers"
            )
            yield Explained(f"clip {column.column} to {column.bounds}", nodes(steps))

    def _explain_trees(self) -> Iterator[Explained]:
        """The counts by cell."""
        return iter(())

    @abstractmethod
    def _explain_noise(self) -> tuple[Explained, ...]:
        """The measures with their noise, and the statistics computed from them."""

    def _explain_bounds(self) -> tuple[Explained, ...]:
        how = [] if self.bounding.norm is not None else ["more rows of a unit weigh less, all alike"]
        if self.stage.groups_per_unit is not None and how:
            how.append("a unit in more groups keeps those with most of its rows; a salted hash breaks ties")
        named = (f"{one['what']} = {one['value']}" for one in self.bounds() if ": " not in one["what"])
        return nodes(f"{', '.join(named)}: {self.bounding}", *how)

    def _notes(self) -> tuple[str, ...]:
        table = self.stage.table
        bars = f"Each bar holds alone with probability at least {CONFIDENCE:.0%}, around the bounded statistic."
        if self.compared:
            bars = "No bar is proven, because rows were compared with a noisy number."
        asked, measured = self.query.aggregates, self.loss is not None and self.loss.clipped
        measures = self.loss is not None and not self.compared
        held = [name for name, one in asked.items() if measures and self.holds_lost(one)]
        clipped = [name for name in held if measured and asked[name].summed_value(table) is not None]
        values = {name: one.summed_value(table) for name, one in asked.items() if one.clip_bounds(table)}
        biased = [name for name in values if asked[name].moved_by_clips]
        if held and not table.one_row:
            bars += f" As far as the headline says how many rows the limits took, the bars of {' and '.join(held)} hold them too."
        if clipped:
            bars += f" As far as it says what clipping took, those of {' and '.join(clipped)} hold it too."
        bars += " ± before a bar: noise alone." * bool(held)
        if not isinstance(table.unit, str):
            rows = "Each row is protected as its own unit: people with several rows are protected less."
            if out := [name for name in biased if name not in clipped]:
                rows += f" The bias of clipping is not in the bars of {' and '.join(out)}, and unknown."
            return (bars, rows, *table.clipped, *self._notes_of_answers(), *self._left_out())
        words = f"Bounded: {self.bounding}; rows without a unit are left out."
        if self.loss is not None and not measured:  # no summed value can be clipped
            biased = [name for name in biased if values[name] is None]
        for what, names in {"this": [*asked], "clipping": biased}.items():
            if out := [name for name in names if name not in (held if what == "this" else clipped)]:
                unknown = ", and unknown" * (self.loss is None)
                words += f" The bias of {what} is not in the bars of {' and '.join(out)}{unknown}."
        of = {name: one.clip_bounds(table).values() for name, one in asked.items() if one.only_lowered}
        lowered = [name for name, bounds in of.items() if all(one.low == 0 for one in bounds)]
        if not self.can_cut:
            words = f"Bounded: {self.bounding}, which takes nothing; rows without a unit are left out."
        # answers of a workload may be differences
        elif lowered and self.query.groups.linear_workload is None and not self.compared:
            words += f" As limits only take, the lower ends of {' and '.join(lowered)} hold for all rows, as drawn"
            words += ", if no value is below 0, but for rounding." if any(of[name] for name in lowered) else "."
        if table.period is not None:
            words += (
                f" Protected is one {table.unit_name}: someone with rows in m of them is protected as a group of m."
            )
        return (bars, words, *table.clipped, *self._notes_of_answers(), *self._left_out())

    def _left_out(self) -> Iterator[str]:
        """Say which rows count for no group."""
        stage = self.stage
        for place, name in enumerate(stage.group_columns if stage.keys else ()):
            possible = values_in(stage.table, name, stage.conditions)
            if possible is None or not {key[place] for key in stage.keys or ()}.issuperset(possible):
                yield f"Rows with another {name} than the keys, or with NULL where that is no key, are in no group."

    @abstractmethod
    def _notes_of_answers(self) -> tuple[str, ...]:
        """The notes about how answers are computed."""

    def notes_of_values(self, columns: Sequence[Estimate]) -> Iterable[str]:
        """Which of them lie at a clip bound: within a hundredth of the bounds' width, and the bar reaches it."""
        found = {one.name: one for one in columns}
        for name, statistic in self.query.aggregates.items():
            for bounds in statistic.clip_bounds(self.stage.table).values():
                for one in map(found.__getitem__, statistic.labels(name)):
                    reached = map(bounds.reached, one.values, one.lower, one.upper) if statistic.is_value else ()
                    if many := one.clipped or sum(reached):
                        low, high = (of_code(one.kind, float(end)) for end in (bounds.low, bounds.high))
                        ends = bounds if one.kind is ColumnType.NUMBER else f"[{low}, {high}]"
                        at = f"{many} of {len(one.values)} answers lie at a bound of {ends}"
                        yield f"{one.name}: {at}, or near it; values beyond count as the bound: {UNHELD}"

    def _statistics(self) -> dict[str, Any]:
        return {
            "statistics": {name: str(statistic) for name, statistic in self.query.aggregates.items()}
        } | self._over_groups()

    def _over_groups(self) -> dict[str, Any]:
        """The answers in place of groups, as data."""
        return {}

    def bounds(self) -> list[dict[str, str]]:
        """Each bound that limits one unit, with its value and origin."""
        table = self.stage.table
        if table.unit_name == "(each row)":
            bounds = [{"what": "max_rows_per_group", "value": "1", "origin": "each row is its own unit"}]
        else:
            names = ("max_rows_per_group", "max_groups") if self.bounding.norm is None else ("norm",)
            names = (*names, *(name for name in _MORE_BOUNDS if getattr(self.bounding, name) is not None))
            values = {name: str(getattr(self.bounding, name)) for name in names}
            values |= {"max_discovered_groups": str(self.bounding.entering)} if self.stage.keys is None else {}
            bounds = [
                {"what": _MORE_BOUNDS.get(name, name), "value": at, "origin": _GIVEN} for name, at in values.items()
            ]
        for name, statistic in self.query.aggregates.items():
            for column, clip in statistic.clip_bounds(table).items():
                origin = _origin(table.columns.get(column), clip, getattr(statistic, "bounds", None))
                bounds.append({"what": f"{name}: {column}", "value": str(clip), "origin": origin})
        return bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The choice of a first stage.

    Attributes:
        before: The plan before the choice.
        plan: The plan at the chosen bounds.
        sentences: The notes about the choice.
        asked_first: The numbers of questions that were asked first: the type, the value and the bar of each.
        answered: The plans of these questions within their own limits.
        later: The choices that were made after it, and that its plan has already.
    """

    before: QueryPlan
    plan: QueryPlan
    sentences: tuple[str, ...]
    asked_first: tuple[tuple[ColumnType, float, float | None, float | None], ...] = ()
    answered: "tuple[Plan, ...]" = ()
    later: "tuple[Choice, ...]" = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstStage(ABC):
    """A stage that chooses bounds with noise before the question is asked. The plan's price includes it.

    Its noisy answers are free to use, so choosing bounds by them is post-processing: adaptive composition.

    Attributes:
        rest: The spend of the question itself.
        limits: The limits of each unit in the question. Private ones are those to choose.
        importance: The relative importance of each statistic.
    """

    rest: Budget
    limits: Limits
    importance: Mapping[str, Number] | None

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The exact questions that read the same rows as the plan's own."""
        return ()

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables of questions asked first, which complete the plan's own; () if it asks about the same rows."""
        return ()

    @abstractmethod
    def record(self, plan: QueryPlan) -> dict[str, object]:
        """Everything that distinguishes the plan from one without this stage, in the words of digests.

        Args:
            plan: The plan.

        Returns:
            JSON data.
        """

    @abstractmethod
    def losses(self) -> Composition:
        """The privacy loss of its noisy answers."""

    @abstractmethod
    def mechanisms(self) -> Iterator[tuple[str, object]]:
        """Everything that draws its noise, by the name of its place."""

    @abstractmethod
    def explanation(self, plan: QueryPlan) -> Explained:
        """The choice, its method and its criterion.

        Args:
            plan: The plan before the choice.

        Returns:
            One node of the explanation.
        """

    def example(self, plan: QueryPlan) -> str:
        """The limits at which the plan's errors are an example, and those to expect; "" if it has no such limits.

        Args:
            plan: The plan before the choice.

        Returns:
            The end of a sentence about an error.
        """
        return ""

    @abstractmethod
    def choose(self, plan: Any, engine: Engine, source: Source) -> Choice:
        """Ask an engine, add noise, and choose bounds from the noisy answer.

        Args:
            plan: The plan before the choice.
            engine: The engine.
            source: The source of noise and of the salt.

        Returns:
            The choice.
        """

    def origin(self, plan: QueryPlan, bound: str) -> str | None:
        """The origin of a bound of `QueryPlan.bounds`.

        Args:
            plan: The plan.
            bound: The name of the bound.

        Returns:
            A clause; None if this stage does not choose the bound.
        """
        return None


def _origin(declared: Bounds | None, used: Bounds, given: Bounds | None) -> str:
    if given is not None and given != declared:
        return _GIVEN
    if declared is None:
        return "follows from the declared bounds of each column in it, and from the question's conditions"
    narrowed = (
        "" if (used.low, used.high) == (declared.low, declared.high) else ", and narrowed by the question's conditions"
    )
    return f"declared: by the data's owner, with the table{narrowed}"


def _explain_source(table: Table) -> Explained:
    relation = "adding or removing" if table.neighbours == "add_remove" else "replacing"
    reach = "" if not table.joins else ": all its rows in all private tables"
    joins = (_explain_join(join, str(table.unit)) for join in table.joins)
    line = f"table {table.name!r}, unit {table.unit_name}"
    inside = "a function of one unit's rows, so that units stay apart; bounded after it"
    computed = () if table.per_unit is None else (Explained(f"from {table.per_unit}", nodes(inside)),)
    return Explained(line, (Explained(f"neighbours: {relation} one unit{reach}"), *computed, *joins))


def _explain_join(join: Join, unit: str) -> Explained:
    equated = next((f"{left!r} here is {right!r} there" for left, right in join.on if left == unit), "")
    why = {
        JoinKind.PUBLIC: "anyone may know its rows; rows that it multiplies are bounded like others",
        JoinKind.SAME_UNIT: f"the units are always equated: {equated}; a row meets rows of its own unit alone",
        JoinKind.OWNED: "a row is its owner's: the unit with its key, the first by MD5 where several have it",
    }
    return Explained(str(join), nodes(why[join.kind]))
