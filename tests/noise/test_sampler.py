"""Noise is never served twice: not after a fork, across threads or processes, nor by a copy. Nor does time tell it."""

import contextlib
import copy
import pickle
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.special import ndtr

from neartwin import noise
from neartwin.errors import ParameterError, PrivacyError
from neartwin.noise.sampler import BLOCK, SINGLES

FORK = """
    import os, sys
    from neartwin import noise
    sampler = noise.discrete_laplace(2**50)
    {before}
    sampler.draw(), sampler.draw(1)  # leaves unused values in memory
    reading, writing = os.pipe()
    child = {fork}
    own = [sampler.draw() for _ in range(100)] + sampler.draw(100).tolist()  # singles and arrays have a pool each
    if child == 0:
        os.write(writing, repr(own).encode())
        os._exit(0)
    os.waitpid(child, 0)
    print(len(set(own) & set(eval(os.read(reading, 10**6)))))
"""
RAW = "__import__('ctypes').CDLL(None).fork()"  # a C library's fork: Python's hooks do not run
SAME_PID = "os.getpid = lambda: 1"
NO_HOOK = "sys.modules['neartwin.noise.sampler']._alive.clear()"
BY_CHANCE = (
    3  # values of noise this wide that may agree by chance; as many or more do once in 10^13 runs, or more rarely
)


def repeats(drawn):
    """How many values were seen before."""
    return len(drawn) - np.unique(np.asarray(drawn)).size


def run(script):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert not done.returncode, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
@pytest.mark.parametrize(
    ("before", "fork", "shared"),
    [
        ("", "os.fork()", "0"),
        ("", RAW, "0"),  # the process id alone
        (SAME_PID, "os.fork()", "0"),  # the hook alone
        (f"{SAME_PID}; {NO_HOOK}", "os.fork()", "200"),  # without both guards this test does see shared noise
    ],
)
def test_a_fork_shares_no_noise(before, fork, shared):
    assert run(FORK.format(before=before, fork=fork)) == shared


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_of_processes_shares_no_noise(method, tmp_path):
    (tmp_path / "pooled.py").write_text(
        textwrap.dedent(f"""
            import multiprocessing
            from neartwin import noise
            sampler = noise.rounded_gaussian(2**100)

            def some(_):
                return [sampler.draw() for _ in range(500)]

            if __name__ == "__main__":
                some(0)
                with multiprocessing.get_context({method!r}).Pool(4) as pool:
                    drawn = [x for part in pool.map(some, range(12), chunksize=1) for x in part] + some(0)
                print(len(drawn) - len(set(drawn)))
        """)
    )
    done = subprocess.run(
        [sys.executable, str(tmp_path / "pooled.py")], capture_output=True, text=True, check=True, timeout=120
    )
    assert int(done.stdout) < BY_CHANCE


def test_a_fork_while_another_thread_holds_the_lock_does_not_hang():
    script = """
        import os, threading
        from neartwin import noise
        sampler = noise.discrete_laplace(5)
        sampler.draw()
        threading.Thread(target=lambda: sampler._pool()._lock.acquire()).start()
        child = os.fork()
        if child == 0:
            sampler.draw()
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert run(script) == "7"


def test_threads_share_no_noise():
    sampler = noise.discrete_laplace(2**50)

    def some(_):
        return [sampler.draw() for _ in range(3000)] + sampler.draw(50).tolist() + sampler.draw(BLOCK).tolist()

    with ThreadPoolExecutor(8) as pool:
        drawn = [x for part in pool.map(some, range(8)) for x in part]
    assert len(drawn) == 8 * (3050 + BLOCK)
    assert repeats(drawn) < BY_CHANCE


def test_no_copy_of_a_sampler_can_be_made():
    sampler = noise.discrete_laplace(5)
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps, lambda each: pickle.dumps({"deep": [each]}, protocol=2)):
        with pytest.raises(PrivacyError, match="same noise twice"):
            attempt(sampler)
    law = pickle.loads(pickle.dumps(sampler.law))  # noqa: S301 - our own bytes
    assert law == sampler.law
    assert noise.sampler(law) is noise.sampler(sampler.law)  # the law travels; noise does not


def test_served_values_and_closed_blocks_are_wiped():
    sampler = noise.Sampler(noise.discrete_laplace(2**50).law)
    sampler.draw()
    pool = sampler._pool()
    assert len(pool._singles) == SINGLES - 1
    sampler.draw(10)
    block = pool._block
    assert (block[:10] == 0).all()
    assert (block[10:] != 0).all()
    with contextlib.closing(sampler):
        sampler.draw(10)
    assert (block == 0).all()
    assert not pool._singles
    assert sampler.draw() != sampler.draw()  # it starts anew
    sampler.draw(10)
    last = pool._block
    del sampler
    assert (last == 0).all()


@pytest.mark.parametrize("shape", [0, 1, 17, (3, 5), (0, 4), (2, 3, 4), BLOCK - 1, BLOCK, 70_000, (300, 300)])
def test_any_shape_is_filled_with_distinct_draws(shape):
    sampler = noise.rounded_laplace(2**50)
    for source in (noise.SYSTEM, noise.ScriptedSource(b"shapes")):
        drawn = sampler.draw(shape, source=source)
        assert drawn.shape == np.empty(shape).shape
        assert repeats(drawn.ravel()) < BY_CHANCE


def test_a_given_buffer_is_filled_in_place_whatever_its_layout():
    sampler = noise.discrete_gaussian(2**98)
    for out in (np.zeros((90, 70), np.int64, order="F"), np.zeros(40_000, np.int64)[::3], np.zeros((4, 4), np.int64).T):
        sampler.fill(out)
        assert repeats(out.ravel()) < BY_CHANCE
    frozen = np.zeros(3, np.int64)
    frozen.flags.writeable = False
    for wrong in (np.zeros(3), np.zeros(3, np.int32), frozen):
        with pytest.raises(ParameterError, match="writeable int64"):
            sampler.fill(wrong)


def test_a_script_repeats_a_draw_and_leaves_the_block_alone():
    sampler = noise.discrete_laplace(2**50)
    first = sampler.draw(1000, source=noise.ScriptedSource(b"script"))
    assert (first == sampler.draw(1000, source=noise.ScriptedSource(b"script"))).all()
    assert sampler.draw(source=noise.ScriptedSource(b"script")) == sampler.draw(source=noise.ScriptedSource(b"script"))
    assert not set(first.tolist()) & set(sampler.draw(1000).tolist())


@pytest.mark.parametrize(
    ("family", "wrong"),
    [
        (noise.discrete_laplace, 0),
        (noise.discrete_laplace, -1),
        (noise.rounded_gaussian, float("nan")),
        (noise.rounded_laplace, float("inf")),
    ],
)
def test_impossible_scales_are_refused(family, wrong):
    with pytest.raises(ParameterError):
        family(wrong)
    assert isinstance(family("1/1000").draw(), int)


def test_staircases_out_of_range_are_refused():
    for arguments in ((0, 5, 2), (1, 0, 1), (1, 5, 6), (1, 5, 0), (1, 2**51, 1), ("1e-12", 2**20, 1)):
        with pytest.raises(ParameterError):
            noise.staircase(*arguments)
    assert isinstance(noise.staircase(1, 2**50, 2**49).draw(), int)


def rank_correlation_z(values, times):
    """Spearman's correlations of |value| and of value with time, in their standard deviations under independence."""
    ranks = np.argsort(np.argsort(times))
    return [
        np.corrcoef(np.argsort(np.argsort(each)), ranks)[0, 1] * np.sqrt(len(values))
        for each in (np.abs(values), values)
    ]


def timed(draw, n):
    kept, times = [], np.empty(n)  # kept: freeing an integer is its caller's act, and takes time of its own
    for i in range(n):
        begun = time.perf_counter_ns()
        drawn = draw()
        times[i] = time.perf_counter_ns() - begun
        kept.append(drawn)
    return np.array(kept, float), times


@pytest.mark.slow  # a busy machine hides what it measures
@pytest.mark.parametrize("family", [noise.discrete_laplace, noise.rounded_gaussian, noise.one_sided_geometric])
def test_the_time_of_a_draw_does_not_follow_its_value(family):
    for z in rank_correlation_z(*timed(family(100).draw, 20_000)):
        assert 2 * ndtr(-abs(z)) > 1e-9


@pytest.mark.slow  # a busy machine hides what it measures
def test_the_timing_test_sees_what_follows_the_value():
    def counting():  # one coin a step
        steps = 0
        while not noise.bernoulli("1/20"):
            steps += 1
        return steps

    assert max(rank_correlation_z(*timed(counting, 300))) > 6.2


def test_threads_that_close_and_draw_at_once_get_no_wiped_value():
    sampler, stop, drawn = noise.Sampler(noise.discrete_laplace(2**50).law), threading.Event(), []

    def close():
        while not stop.is_set():
            sampler.close()

    closing = threading.Thread(target=close)
    closing.start()
    try:
        drawn = [sampler.draw() for _ in range(300)]
    finally:
        stop.set()
        closing.join()
    assert 0 not in drawn
    assert repeats(drawn) < BY_CHANCE


@pytest.mark.parametrize("n", [1, 7, 4000])
def test_an_interrupted_draw_loses_values_and_serves_none_twice(n, monkeypatch):
    """The law fails half-way through a block: nothing of the half-drawn block is ever served."""
    sampler = noise.Sampler(noise.discrete_laplace(2**50).law)
    seen = sampler.draw(SINGLES - n).tolist() + [sampler.draw() for _ in range(SINGLES)]
    whole = type(sampler.law).fill

    def interrupted(law, out, stream):
        whole(law, out[: out.size // 2], stream)
        raise KeyboardInterrupt

    monkeypatch.setattr(type(sampler.law), "fill", interrupted)
    for attempt in (lambda: sampler.draw(n + 1), sampler.draw):
        with pytest.raises(KeyboardInterrupt):
            attempt()
    monkeypatch.undo()
    seen += sampler.draw(3 * n).tolist() + [sampler.draw() for _ in range(100)]
    assert 0 not in seen
    assert repeats(seen) < BY_CHANCE
