"""Whether what is installed fits together, and whether any of it has a known vulnerability (`make slow`).

Advisories come from PyPI's own database by pip-audit. Where that cannot be reached, nothing is called safe: it is said how
many packages were not audited, and the run goes on, for a network that is away is no fault of the code.
"""

import json
import subprocess
import sys
from typing import Any


def verdict(told: list[dict[str, Any]]) -> tuple[list[str], int, int]:
    """One line for each vulnerability, how many packages were audited, and how many were not."""
    found = [
        f"{package['name']} {package['version']}: {vulnerability['id']}, fixed in {', '.join(vulnerability['fix_versions'])}"
        for package in told
        for vulnerability in package.get("vulns", [])
    ]
    skipped = sum("skip_reason" in package for package in told)
    return found, len(told) - skipped, skipped


def audited() -> list[dict[str, Any]] | None:
    """What pip-audit says of every installed package; None where it could not ask at all."""
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off", "--skip-editable"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        told: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return None
    return told


def fit_together() -> bool:
    """Whether every package finds what it needs, as pip says."""
    return subprocess.run([sys.executable, "-m", "pip", "check"], check=False).returncode == 0


def main() -> int:
    """Print the verdict; 1 for packages that do not fit together or a known vulnerability."""
    fits = fit_together()
    told = audited()
    found, asked, skipped = verdict(told or [])
    if not asked:
        print("dependencies: NOT audited: pip-audit could not reach its advisories")
        return 0 if fits else 1
    print("\n".join(found) or f"dependencies: {asked} audited, no known vulnerability; {skipped} NOT audited")
    return 0 if fits and not found else 1


if __name__ == "__main__":
    sys.exit(main())
