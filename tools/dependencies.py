"""Check whether installed packages fit together, and whether any has a known vulnerability (`make slow`).

pip-audit asks the public database of advisories. Without a network nothing is called safe. The tool then prints the number
of packages that were not audited and succeeds, because a missing network is no fault of the code.
"""

import json
import subprocess
import sys
from typing import Any


def verdict(report: list[dict[str, Any]]) -> tuple[list[str], int, int]:
    """One line for each vulnerability, how many packages were audited, and how many were not."""
    vulnerabilities = [
        f"{package['name']} {package['version']}: {vulnerability['id']}, fixed in {', '.join(vulnerability['fix_versions'])}"
        for package in report
        for vulnerability in package.get("vulns", [])
    ]
    skipped = sum("skip_reason" in package for package in report)
    return vulnerabilities, len(report) - skipped, skipped


def audited() -> list[dict[str, Any]] | None:
    """The report of pip-audit on every installed package; None where it could not ask."""
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off", "--skip-editable"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        report: list[dict[str, Any]] = json.loads(process.stdout)["dependencies"]
    except (ValueError, KeyError):
        return None
    return report


def fit_together() -> bool:
    """Whether every package finds what it needs, as pip says."""
    return subprocess.run([sys.executable, "-m", "pip", "check"], check=False).returncode == 0


def main() -> int:
    """Print the verdict; 1 for packages that do not fit together or a known vulnerability."""
    fits = fit_together()
    report = audited()
    vulnerabilities, audited_count, skipped = verdict(report or [])
    if not audited_count:
        print("dependencies: NOT audited: pip-audit could not reach its advisories")
        return 0 if fits else 1
    print(
        "\n".join(vulnerabilities)
        or f"dependencies: {audited_count} audited, no known vulnerability; {skipped} NOT audited"
    )
    return 0 if fits and not vulnerabilities else 1


if __name__ == "__main__":
    sys.exit(main())
