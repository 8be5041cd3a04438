"""Functions of arrays come from SciPy, which nothing loads before one is called."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.special

from neartwin import special

FUNCTIONS = sorted(name for name in vars(special) if name[0] != "_" and hasattr(scipy.special, name))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_function_is_scipys(name):
    ours, its = getattr(special, name), getattr(scipy.special, name)
    inner = np.linspace(0.05, 0.95, 17)
    arguments = (
        [np.arange(17.0), 20, inner] if name.startswith("bdtr") else [inner] * (3 if name.startswith("beta") else 1)
    )
    for _ in range(2):  # the first call loads it
        assert np.array_equal(ours(*arguments), its(*arguments))


@pytest.mark.parametrize(("call", "loaded"), [("", False), ("; special.ndtr(0.0)", True)])
def test_the_first_call_loads_scipy_and_the_import_does_not(call, loaded):
    code = f"import sys; from neartwin import special{call}; print('scipy.special' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == str(loaded)
