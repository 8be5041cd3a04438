"""The least bound of the package random-allocation: runs as JSON in, a line of epsilon and seconds for each."""

import json
import sys
import time
import warnings

from random_allocation.comparisons.definitions import Direction, PrivacyParams, SchemeConfig, Verbosity
from random_allocation.random_allocation_scheme.combined import allocation_epsilon_combined

warnings.simplefilter("ignore")
# orders as in its own examples
CONFIG = SchemeConfig(allocation_direct_alpha_orders=list(range(2, 61)), verbosity=Verbosity.NONE)
for noise, steps, epochs, delta in json.loads(sys.argv[1]):
    run = PrivacyParams(sigma=noise, num_steps=steps, num_epochs=epochs, delta=delta)
    start = time.process_time()
    try:
        found = float(allocation_epsilon_combined(run, CONFIG, direction=Direction.BOTH))
    except Exception as fault:  # noqa: BLE001 - what a user sees is what is measured
        found = type(fault).__name__
    print(json.dumps([found, time.process_time() - start]), flush=True)
