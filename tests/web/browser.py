"""A headless Chromium (Debian's) and axe-core (npm's), as tools/browser.sh installs them."""

import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

AXE = Path(__file__).parents[2] / "build/axe/node_modules/axe-core/axe.min.js"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
PHONE, SCREENS = {"width": 390, "height": 844}, 3
# the page, and parts of it whose contents are wider than themselves and cannot be scrolled to
OVERFLOWING = """() => [document.documentElement, ...document.querySelectorAll("main, section, form, fieldset, p, dd, .card")]
    .filter((one) => one.scrollWidth > one.clientWidth + 1)
    .filter((one) => one === document.documentElement || getComputedStyle(one).overflowX === "visible")
    .map((one) => `${one.tagName} ${one.className} ${one.textContent.trim().slice(0, 60)}`)"""
PATIENCE = 60_000  # milliseconds: a loaded machine is slow, not wrong


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
def person(browser, address, *, width=1280, scheme="light", scripts=True, refusals=("401",)):
    """A page of someone's own: no error but these refusals may appear in its console, and nothing of another address."""
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
        assert not [fault for fault in faults if not any(f"status of {one}" in fault for one in refusals)], faults
    finally:
        context.close()


def sign_in(page, token):
    page.goto("/signin")
    page.get_by_label("Your token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/data")


def faults_on_a_phone(page):
    """More than three screens, as the page opens. Afterwards all that was folded is open."""
    page.set_viewport_size(PHONE)
    high = page.evaluate("() => document.documentElement.scrollHeight")
    page.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    return [f"{high} pixels high on a phone"] if high > SCREENS * PHONE["height"] else []


def faults_on(page):
    """The faults that axe finds, of whatever weight, narrow and dark, then wide and light, and what is wider than its place."""
    found = []
    for scheme, width in (("dark", PHONE["width"]), ("light", 1280)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": PHONE["height"]})
        for one in page.evaluate("async () => (await axe.run(document, {resultTypes: ['violations']})).violations"):
            places = "; ".join(f"{node['target'][0]} {node['failureSummary']}" for node in one["nodes"][:3])
            found.append(f"{scheme}: {one['impact']}: {one['id']}: {one['help']}: {places}")
        found += [f"{place} overflows in a window of {width} pixels" for place in page.evaluate(OVERFLOWING)]
    return found
