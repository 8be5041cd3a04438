"""Exact noise from the operating system's cryptographic generator: bit source, exact samplers, exact choice."""

from neartwin.noise.choice import bernoulli, bernoulli_exp, permutation, uniform_below, weighted_choice
from neartwin.noise.distributions import Law, UniformBits
from neartwin.noise.keyed import Keyed, fresh_secret, keyed
from neartwin.noise.sampler import (
    Sampler,
    add,
    decreasing,
    discrete_gaussian,
    discrete_laplace,
    one_sided_geometric,
    rounded_gaussian,
    rounded_laplace,
    sampler,
    staircase,
)
from neartwin.noise.source import SYSTEM, ScriptedSource, Source, require_system

__all__ = [
    "SYSTEM",
    "Keyed",
    "Law",
    "Sampler",
    "ScriptedSource",
    "Source",
    "UniformBits",
    "add",
    "bernoulli",
    "bernoulli_exp",
    "decreasing",
    "discrete_gaussian",
    "discrete_laplace",
    "fresh_secret",
    "keyed",
    "one_sided_geometric",
    "permutation",
    "require_system",
    "rounded_gaussian",
    "rounded_laplace",
    "sampler",
    "staircase",
    "uniform_below",
    "weighted_choice",
]
