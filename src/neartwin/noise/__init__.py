"""Exact noise from the operating system's cryptographic generator: bit source, exact samplers, exact choice."""

from neartwin.noise.choice import bernoulli as bernoulli
from neartwin.noise.choice import bernoulli_exp as bernoulli_exp
from neartwin.noise.choice import permutation as permutation
from neartwin.noise.choice import uniform_below as uniform_below
from neartwin.noise.distributions import UniformBits as UniformBits
from neartwin.noise.keyed import Keyed as Keyed
from neartwin.noise.keyed import fresh_secret as fresh_secret
from neartwin.noise.keyed import keyed as keyed
from neartwin.noise.sampler import Sampler as Sampler
from neartwin.noise.sampler import add as add
from neartwin.noise.sampler import discrete_gaussian as discrete_gaussian
from neartwin.noise.sampler import discrete_laplace as discrete_laplace
from neartwin.noise.sampler import laplace_sampler as laplace_sampler
from neartwin.noise.sampler import one_sided_geometric as one_sided_geometric
from neartwin.noise.sampler import rounded_gaussian as rounded_gaussian
from neartwin.noise.sampler import rounded_laplace as rounded_laplace
from neartwin.noise.sampler import sampler as sampler
from neartwin.noise.sampler import staircase as staircase
from neartwin.noise.source import SYSTEM as SYSTEM
from neartwin.noise.source import ScriptedSource as ScriptedSource
from neartwin.noise.source import Source as Source
