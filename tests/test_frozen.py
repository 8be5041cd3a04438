"""Frozen classes made quickly are those of the standard library."""

import copy
import dataclasses
import inspect
import pickle

import pytest

from neartwin.frozen import dataclass as quick

OPTIONS = [
    {},
    {"slots": True},
    {"slots": True, "kw_only": True},
    {"slots": True, "eq": False},
    {"repr": False},
    {"slots": True, "init": False},
]
BOTH = [quick, dataclasses.dataclass]


def plain(make, options):
    @make(frozen=True, **options)
    class Place:
        """A place."""

        x: int
        names: list = dataclasses.field(default_factory=list, compare=False)
        y: float = 2.0
        hidden: int = dataclasses.field(default=3, repr=False)
        fixed: int = dataclasses.field(default=4, init=False)
        last: int = dataclasses.field(default=5, kw_only=True)

        def __post_init__(self):
            object.__setattr__(self, "y", self.y + 1)

    return Place


@dataclasses.dataclass(frozen=True, slots=True)
class TheirPoint:
    x: int
    y: int


@quick(frozen=True, slots=True)
class OurPoint:
    x: int
    y: int


@pytest.mark.parametrize("options", OPTIONS)
def test_a_class_says_what_that_of_the_standard_library_says(options):
    ours, theirs = (plain(make, options) for make in BOTH)
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
    assert ours.__match_args__ == theirs.__match_args__
    assert [field.name for field in dataclasses.fields(ours)] == [field.name for field in dataclasses.fields(theirs)]
    assert ("__dict__" in dir(ours)) == ("__dict__" in dir(theirs)) == ("slots" not in options)
    if not options.get("init", True):
        return
    one, other = ours(x=1, y=0.5), theirs(x=1, y=0.5)
    assert dataclasses.asdict(one) == dataclasses.asdict(other)
    assert one.y == 1.5
    assert one.names == []
    assert ours(x=1).names is not one.names
    if options.get("repr", True):
        assert repr(one) == repr(other)
        assert "names=[]" in repr(one)
        assert "hidden" not in repr(one)
    same = options.get("eq", True)
    assert (one == ours(x=1, y=0.5, names=["b"])) == (other == theirs(x=1, y=0.5, names=["b"])) == same
    assert one != ours(x=2, y=0.5)
    assert one != other
    assert (len({one, ours(x=1, y=0.5)}) == 1) == same
    assert dataclasses.replace(one, x=7).x == 7
    assert copy.copy(one).x == 1


@pytest.mark.parametrize("options", [{}, {"slots": True}])
def test_no_field_and_no_other_attribute_can_be_set_or_deleted(options):
    one = plain(quick, options)(1)
    for name in ("x", "other"):
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(one, name, 2)
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot delete field '{name}'"):
            delattr(one, name)
    assert one.x == 1


@pytest.mark.parametrize("make", BOTH)
def test_what_a_class_says_itself_stays_and_what_it_inherits_is_frozen_too(make):
    @make(frozen=True)
    class Base:
        x: int

        def __repr__(self):
            return "mine"

        def __hash__(self):
            return 12

    @make(frozen=True)
    class More(Base):
        y: int = 0

    class Loose(More):
        pass

    assert repr(Base(1)) == "mine"
    assert hash(Base(1)) == 12
    assert More(1, 2).x == 1
    assert More(1) == More(1, 0)
    assert Base(1) != More(1)
    loose = Loose(1)
    loose.own = 3
    assert loose.own == 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        loose.x = 3


@pytest.mark.parametrize("make", BOTH)
def test_wrong_arguments_are_refused(make):
    one = plain(make, {"slots": True})
    for wrong in ((), (1, [], 2.0, 3, 4)):
        with pytest.raises(TypeError):
            one(*wrong)
    with pytest.raises(TypeError, match="unexpected keyword"):
        one(1, fixed=3)


def test_values_survive_a_pickle_and_a_value_that_holds_itself_is_shown():
    for kind in (OurPoint, TheirPoint):
        assert pickle.loads(pickle.dumps(kind(1, 2))) == kind(1, 2)  # noqa: S301 - our own
    names: list = []
    place = plain(quick, {})(1, names)
    names.append(place)
    assert "..." in repr(place)
