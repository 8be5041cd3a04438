"""Opacus's own accountants and the certified one on the same runs, and a model trained with it: with the real package.

    pip install opacus && python bench/bench_opacus.py

A row names noise multiplier, sampling rate, steps and delta. An answer is epsilon, or the error that the accountant raised. The
first rows stand for published reports of Opacus and of the library that its "prv" comes from: it raises, or answers below 0.
"""

import tempfile
import time
import warnings
from pathlib import Path

try:
    import torch
    from opacus import PrivacyEngine
    from opacus.accountants import create_accountant
    from opacus.accountants.utils import get_noise_multiplier

    from neartwin.accounting.opacus import register
except ImportError:
    raise SystemExit(print("Opacus is missing: pip install opacus")) from None

RUNS = [
    (1.0, 0.2, 500, 1e-5),
    (0.5, 0.5, 100, 1e-5),
    (0.6, 0.25, 200, 1e-5),
    (0.4, 0.01, 1_000, 1e-5),
    (0.2, 1e-7, 3_000, 1e-12),
    (0.2, 0.0001, 3_000, 1e-12),
    (0.2, 0.01, 3_000, 1e-12),
    (100.0, 0.001, 10, 0.1),
    (20.0, 0.01, 100, 1e-2),
    (50.0, 0.001, 1, 1e-3),
    (1.0, 0.01, 10_000, 1e-5),
    (1.1, 256 / 60_000, 14_062, 1e-5),
    (0.7, 0.001, 100_000, 1e-6),
    (4.0, 0.1, 3_000, 1e-8),
    (2.0, 1e-6, 1_000_000, 1e-10),
]
NAMES = ("neartwin", "prv", "rdp", "gdp")


def answered(name: str, run: tuple[float, float, int, float]) -> tuple[str, float]:
    """What one accountant says of a run, and in how many seconds of the processor."""
    accountant = create_accountant(name)
    accountant.history = [run[:3]]
    start = time.process_time()
    try:
        text = f"{accountant.get_epsilon(run[3]):.7g}"
    except Exception as fault:  # noqa: BLE001 - what a user sees is what is measured
        text = f"{type(fault).__name__}"
    return text, time.process_time() - start


def trained() -> float:
    """Train a linear model on Poisson batches with Opacus, save the accountant and read it again; epsilon at the end."""
    torch.manual_seed(0)
    x, y = torch.randn(400, 5), torch.randint(0, 2, (400,))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=40)
    engine = PrivacyEngine(accountant="neartwin")
    model = torch.nn.Linear(5, 2)
    model, optimizer, loader = engine.make_private_with_epsilon(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=loader,
        target_epsilon=2.0,
        target_delta=1e-5,
        epochs=3,
        max_grad_norm=1.0,
    )
    for _ in range(3):
        for features, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(features), labels).backward()
            optimizer.step()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint"
        engine.save_checkpoint(path=path, module=model)
        again = PrivacyEngine(accountant="neartwin")
        again.load_checkpoint(path=path, module=model)
    if again.get_epsilon(1e-5) != engine.get_epsilon(1e-5) or len(engine.accountant) != 30:
        raise RuntimeError("a saved run is not the run")
    return engine.get_epsilon(1e-5)


def main() -> None:
    """Print the table, a calibration and the training."""
    warnings.simplefilter("ignore")
    register()
    print("| noise | rate | steps | delta | " + " | ".join(NAMES) + " | ms of neartwin, prv |")
    print("|---" * (5 + len(NAMES)) + "|")
    wrong = dict.fromkeys(NAMES, 0)
    for run in RUNS:
        answers = {name: answered(name, run) for name in NAMES}
        for name, (text, _) in answers.items():
            wrong[name] += not text[0].isdigit() or text == "nan"
        times = ", ".join(f"{answers[name][1] * 1000:.0f}" for name in ("neartwin", "prv"))
        cells = [f"{run[0]:g}", f"{run[1]:.4g}", str(run[2]), f"{run[3]:g}", *(answers[name][0] for name in NAMES)]
        print(f"| {' | '.join(cells)} | {times} |")
    print("no number, or one below 0:", ", ".join(f"{name} {count}" for name, count in wrong.items()))
    for name in ("neartwin", "prv", "rdp"):
        try:
            noise = get_noise_multiplier(
                target_epsilon=3.0, target_delta=1e-5, sample_rate=0.01, steps=10_000, accountant=name
            )
        except Exception as fault:  # noqa: BLE001
            noise = type(fault).__name__
        print(f"noise for epsilon 3, rate 0.01, 10,000 steps, by {name}: {noise}")
    print(f"a model trained to epsilon 2 has epsilon {trained():.6f}")


if __name__ == "__main__":
    main()
