"""Bits come from the system; a script is repeatable, and refused where noise is released."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy.special import chdtrc

from neartwin import noise
from neartwin.errors import ParameterError


def test_the_system_gives_words_of_every_size_and_never_the_same_ones():
    for n in (0, 1, 7, 300_000):  # the last takes several calls
        assert noise.SYSTEM.words(n).shape == (n,)
    words = np.concatenate([noise.SYSTEM.words(200_000), noise.SYSTEM.words(200_000)])
    assert words.size - np.unique(words).size < 3  # three pairs of 400,000 agree by chance once in 10^25
    for shift in range(0, 64, 8):
        counts = np.bincount((words >> np.uint64(shift)).astype(np.uint8), minlength=256)
        expected = words.size / 256
        assert chdtrc(255, ((counts - expected) ** 2 / expected).sum()) > 1e-12


@pytest.mark.parametrize("k", [0, 1, 7, 8, 9, 64, 1000])
def test_bits_have_exactly_the_width_asked_for(k):
    drawn = [noise.SYSTEM.bits(k) for _ in range(200)]
    assert all(0 <= x < 1 << k for x in drawn)
    if k:
        assert max(drawn).bit_length() == k or k > 60
    assert all(0 <= noise.ScriptedSource(bytes([i])).bits(k) < 1 << k for i in range(50))


def test_a_script_repeats_and_another_differs():
    one, same, other = (noise.ScriptedSource(seed) for seed in (b"a", b"a", b"b"))
    first = one.words(10)
    assert (first == same.words(10)).all()
    assert (first != other.words(10)).all()
    assert (first != one.words(10)).all()


def test_a_replay_ends_where_its_words_end():
    source = noise.ScriptedSource.replay([1, 2, 3])
    assert source.words(2).tolist() == [1, 2]
    with pytest.raises(ParameterError, match="words=2 must not exceed the 1 words left"):
        source.words(2)


def test_noise_starts_without_heavy_libraries():
    """Every worker of an engine imports it; Arrow comes with the first keyed batch."""
    script = (
        "import sys, neartwin.noise; print([m for m in ('pyarrow', 'scipy', 'pandas', 'duckdb') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_system_stays_one_value_in_other_processes():
    assert pickle.loads(pickle.dumps(noise.SYSTEM)) is noise.SYSTEM  # noqa: S301 - our own bytes
