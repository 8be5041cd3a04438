"""A headless Chromium (Debian's) and axe-core (npm's), as tools/browser.sh installs them."""

import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

AXE = Path(__file__).parents[2] / "build/axe/node_modules/axe-core/axe.min.js"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
PATIENCE = 60_000  # milliseconds: a loaded machine is slow, not wrong
GRAVE = {"serious", "critical"}


@contextmanager
def chromium():
    """A browser, or the test is skipped."""
    place = shutil.which("chromium") or ""
    if not place or not AXE.exists():
        pytest.skip("no Chromium or axe-core: run tools/browser.sh")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=place, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def person(browser, address, *, width=1280, scheme="light", scripts=True):
    """A page of someone's own: no error may appear in its console, nothing may be asked of another address."""
    faults = []
    context = browser.new_context(
        base_url=address, viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=scripts
    )
    context.set_default_timeout(PATIENCE)
    context.set_default_navigation_timeout(PATIENCE)
    if scripts:
        context.add_init_script(path=AXE)  # not by a script tag, which the pages' policy forbids
    page = context.new_page()
    page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda fault: faults.append(str(fault)))
    page.on("request", lambda asked: None if asked.url.startswith(address) else faults.append(asked.url))
    try:
        yield page
        assert not [fault for fault in faults if "401" not in fault], faults
    finally:
        context.close()


def sign_in(page, token):
    page.goto("/signin")
    page.get_by_label("Your token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/data")


def faults_on(page):
    """Serious faults that axe finds, narrow and dark, then wide and light, and whether the page is wider than its window."""
    found = []
    for scheme, width in (("dark", 390), ("light", 1280)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        for one in page.evaluate("async () => (await axe.run(document, {resultTypes: ['violations']})).violations"):
            places = "; ".join(f"{node['target'][0]} {node['failureSummary']}" for node in one["nodes"][:3])
            found += [f"{scheme}: {one['id']}: {one['help']}: {places}"] if one["impact"] in GRAVE else []
        wide = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
        found += [f"wider than a window of {width} by {wide} pixels"] if wide > 0 else []
    return found
