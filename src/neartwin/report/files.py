"""Saving a release under the name that says how: .html, .json, .csv or .parquet."""

from pathlib import Path

from neartwin.releases.release import Release
from neartwin.report.page import page


def save(release: Release, path: str | Path) -> Path:
    """Write a release to a file: one self-contained page for .html (extra `plots`), its data for .json, .csv, .parquet."""
    target = Path(path)
    if target.suffix == ".html":
        target.write_text(page(release), encoding="utf-8")
        return target
    return release.write(target)
