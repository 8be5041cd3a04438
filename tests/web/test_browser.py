"""Curators, analysts and auditors in a real browser: their journeys, refusal included, and pages that everybody can use."""

import json
import re
from fractions import Fraction

import pytest

import neartwin as nt
from neartwin.accounting.budgets import approx
from neartwin.releases.certificates import OwnerKey, check
from neartwin.tables.table import bounds
from neartwin.web.data_directory import DataDirectory
from neartwin.web.datasets import Dataset, Rule
from neartwin.web.service import Settings
from tests.web.browser import PHONE, SCREENS, chromium, faults_on, faults_on_a_phone, person, sign_in
from tests.web.server import serving

NAMES = {"curator": "carol", "analyst": "ada", "auditor": "otto"}


@pytest.fixture(scope="module")
def directory(tmp_path_factory, purchases):
    with DataDirectory(tmp_path_factory.mktemp("browsed") / "house") as opened:
        dataset = Dataset(
            name="purchases",
            place=str(purchases),
            unit="customer_id",
            bounds={"amount": bounds(0, 200)},
            keys={"cds": (1, 2, 3), "town": ("Ulm", "Bonn")},
            budget=approx(4, "1e-5"),
            about="Purchases of CDs in a shop.",
            policy=(Rule(allotment=approx(2, "1e-6")),),
        )
        opened.register(dataset, by="console")
        yield opened


@pytest.fixture(scope="module")
def tokens(directory):
    return {role: directory.mint(name, role, by="console")[1] for role, name in NAMES.items()}


@pytest.fixture(scope="module")
def address(directory):
    with serving(directory, Settings(workers=1, burst=100_000, per_second=100_000, patience=120)) as found:
        yield found


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


def view(page, name):
    """Show the question as fields, SQL, Python or JSON."""
    page.get_by_role("radio", name=name, exact=True).check()


def spent(directory):
    return directory.books.account("purchases").spent["epsilon"]


def test_an_analyst_asks_previews_releases_and_keeps_a_certificate(browser, address, directory, tokens, tmp_path):
    from playwright.sync_api import expect

    with person(browser, address) as page:
        page.goto("/signin")
        page.get_by_label("Your token").fill("nt_0_mistyped")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("opens nothing")
        sign_in(page, tokens["analyst"])
        page.get_by_role("link", name="Ask purchases").click()
        sql, preview = page.locator("#sql"), page.locator("#preview")
        expect(sql).to_have_value(re.compile(r"COUNT\(DISTINCT customer_id\)"))
        # the fields write the SQL
        before = spent(directory)
        page.get_by_role("button", name="Add a statistic").click()
        page.locator("[name=ask_1]").select_option("mean")
        page.locator("[name=column_1]").select_option("amount")
        expect(sql).to_have_value(re.compile(r"AVG\(amount\) AS mean_amount"))
        expect(preview.locator("dt").filter(has_text="mean_amount")).to_be_visible()
        # SQL that is edited by hand is asked, and the fields write it no longer
        view(page, "SQL")
        sql.fill("SELECT town, COUNT(*) AS orders FROM purchases WHERE amount > 5 GROUP BY town")
        view(page, "Fields")
        expect(page.get_by_text("The SQL was edited by hand")).to_be_visible()
        expect(page.locator("[name=where]")).to_be_hidden()
        expect(preview.locator("dt").filter(has_text="orders")).to_be_visible()
        # the preview follows the spend: budget, error and curve
        drawn = page.locator("#cost polyline.curve.s0").first
        first = drawn.get_attribute("points")
        page.locator("#slider").fill("-0.30")  # ten to this power
        expect(page.locator("#amount")).to_have_value("0.501")
        expect(page.get_by_role("button", name="Release for epsilon 0.501")).to_be_enabled()
        expect(page.get_by_text("Your budget: epsilon 2 left, 1.499 after this.")).to_be_visible()
        assert drawn.get_attribute("points") != first
        # 16 / (0.8 * 0.9 * 0.501) * log 20: a fifth chooses limits, a tenth of the rest measures what they take
        expect(preview).to_contain_text("± 141.736 in every group, at an example of rows = 16")
        assert spent(directory) == before
        page.get_by_role("button", name="Release for epsilon 0.501").click()
        page.wait_for_url("**/releases/*")
        expect(page.get_by_role("table")).to_contain_text("Bonn")
        expect(page.locator(".charts .dot")).to_have_count(2)
        assert spent(directory) == before + Fraction("0.501")
        page.get_by_role("link", name="Certificate").click()
        page.get_by_text("The record:").click()
        expect(page.get_by_role("heading", name="Where it stands")).to_be_visible()
        with page.expect_download() as download:
            page.get_by_role("link", name="The signed file").click()
        kept = tmp_path / "certificate.json"
        download.value.save_as(kept)
        assert check(kept.read_bytes(), OwnerKey.at(directory.owner_key).public, ledger=directory.books).valid


def test_a_refusal_says_what_remains_and_the_way_out_works(browser, address, directory, tokens):
    from playwright.sync_api import expect

    with person(browser, address) as page:
        sign_in(page, tokens["analyst"])
        page.goto("/data/purchases/ask")
        before = spent(directory)
        page.locator("#amount").fill("7")
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("The budget does not suffice")
        expect(page.get_by_role("button", name="Release for epsilon 7")).to_be_disabled()
        expect(alert).to_contain_text("ask the curator")
        expect(alert.get_by_role("listitem")).to_have_count(2)
        assert spent(directory) == before
        alert.get_by_role("button", name=re.compile("Spend .* instead")).click()
        expect(page.get_by_role("button", name=re.compile("Release for epsilon (?!7)"))).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)
        assert Fraction(page.locator("#amount").input_value()) <= 2
        view(page, "SQL")
        page.locator("#sql").fill("DROP TABLE purchases")
        expect(page.get_by_role("alert")).to_contain_text("SELECT")
        expect(page.get_by_role("button", name="Release")).to_be_disabled()
        assert spent(directory) == before


def test_typing_and_pressing_at_once_never_pays_for_the_old_fields(browser, address, directory, tokens):
    from playwright.sync_api import expect

    with person(browser, address) as page:
        sign_in(page, tokens["analyst"])
        page.goto("/data/purchases/ask")
        before = spent(directory)
        release = page.locator("[value=release]")
        view(page, "SQL")
        for amount in (7, 8):
            expect(release).to_be_enabled()
            page.locator("#sql").fill(f"SELECT COUNT(*) AS n FROM purchases WHERE amount > {amount}")
            release.evaluate("button => { button.click(); button.click(); }")
            assert spent(directory) == before
        # and where a browser sends it all the same, the service does not take it
        page.locator("#amount").fill("0.25")
        release.evaluate("button => { button.disabled = false; button.click(); }")
        expect(page.get_by_role("alert")).to_contain_text("it changed since")
        assert spent(directory) == before
        release.click()
        page.wait_for_url("**/releases/*")
        expect(page.get_by_role("heading", name="The numbers")).to_be_visible()
        expect(page.get_by_text("amount > 8").first).to_be_attached()
        assert spent(directory) == before + Fraction("0.25")


@pytest.mark.slow
def test_an_answer_to_older_fields_does_not_overwrite_what_is_typed(browser, address, tokens):
    from playwright.sync_api import expect

    with person(browser, address) as page:
        sign_in(page, tokens["analyst"])
        page.goto("/data/purchases/ask")
        page.locator("[name=ask_0]").select_option("histogram")
        expect(page.locator("[name=edges_0]")).to_be_visible()
        expect(page.locator("form[data-live]")).not_to_have_attribute("aria-busy", "true")
        held = []
        page.route("**/ask", lambda route: held.append(route) if not held else route.continue_())
        page.locator("[name=column_0]").select_option("amount")
        for _ in range(100):
            if held:
                break
            page.wait_for_timeout(20)
        page.locator("[name=edges_0]").fill("0, 50, 200")
        held[0].continue_()  # its answer comes before the fields are asked again
        expect(page.locator("#sql")).to_have_value(re.compile(r"HISTOGRAM\(amount, \[0, 50, 200\]\)"))
        expect(page.locator("[name=edges_0]")).to_have_value("0, 50, 200")


@pytest.mark.slow
def test_the_python_of_a_question_asks_the_same(browser, address, directory, tokens, monkeypatch):
    from playwright.sync_api import expect

    monkeypatch.setenv("NEARTWIN_TOKEN", tokens["analyst"])
    with person(browser, address) as page:
        sign_in(page, tokens["analyst"])
        page.goto("/data/purchases/ask")
        page.locator("[name=max_groups]").evaluate("field => { field.closest('details').open = true; }")
        page.locator("[name=max_groups]").fill("2")
        expect(page.locator("#as-python")).to_contain_text("limits")
        digest = page.locator("[name=digest]").input_value()
        code = page.locator("#as-python").text_content()
        asked = json.loads(page.locator("#as-json").text_content())
    names = {}
    exec(code.replace("release = ", "# "), names)  # noqa: S102 - what the page tells its reader to run
    assert names["plan"].digest == digest
    account = nt.connect(address, tokens["analyst"]).open("purchases")
    assert account.http.post("datasets", "purchases", "plan", body=asked)["digest"] == digest


def test_a_stranger_gets_a_chart_by_at_most_six_clicks_and_fields(browser, address, directory):
    from playwright.sync_api import expect

    token = directory.mint("stranger", "analyst", by="console")[1]
    with person(browser, address) as page:
        page.goto("/")  # the address and the token are all that she was told
        steps = [
            lambda: page.get_by_label("Your token").fill(token),
            lambda: page.get_by_role("button", name="Sign in").click(),
            page.get_by_role("link", name="Ask").first.click,
            lambda: page.get_by_role("button", name=re.compile("Release for|Show the answer")).click(),
        ]
        for step in steps:
            step()
        page.wait_for_url("**/releases/*")
        expect(page.locator("figure .dot").first).to_be_visible()
        assert page.locator("figure .drawing").first.bounding_box()["width"] > 600  # one chart alone fills its card
        assert len(steps) <= 6


@pytest.mark.slow
def test_a_question_is_saved_under_its_name(browser, address, tokens):
    from playwright.sync_api import expect

    with person(browser, address) as page:
        sign_in(page, tokens["analyst"])
        page.goto("/data/purchases/ask")
        page.get_by_text("Save it to the dashboard").click()
        page.locator("[name=title]").press_sequentially("Buyers", delay=100)  # longer than the wait for a preview
        page.get_by_role("button", name="Save the question").click()
        page.wait_for_url("**/dashboard")
        expect(page.get_by_role("heading", name="Buyers")).to_be_visible()


def test_what_changed_since_its_preview_is_not_paid(browser, address, directory, tokens):
    from playwright.sync_api import expect

    with person(browser, address) as page:
        sign_in(page, tokens["analyst"])
        page.goto("/data/purchases/ask")
        before = spent(directory)
        page.locator("#amount").fill("0.09")
        expect(page.get_by_role("button", name="Release for epsilon 0.09")).to_be_enabled()
        page.locator("#amount").evaluate(
            "field => { field.value = '0.5'; }"
        )  # without the event that asks for a preview
        page.get_by_role("button", name="Release for epsilon 0.09").click()
        expect(page.get_by_role("alert")).to_contain_text("it changed since")
        assert spent(directory) == before
        page.get_by_role("button", name="Release for epsilon 0.5").click()
        page.wait_for_url("**/releases/*")
        assert spent(directory) == before + Fraction("0.5")


@pytest.mark.slow
def test_the_command_of_a_registration_follows_what_is_typed(browser, address, tokens):
    from playwright.sync_api import expect

    with person(browser, address) as page:
        sign_in(page, tokens["curator"])
        page.goto("/register")
        command = page.locator("#command")
        expect(command).to_contain_text("neartwin register data/")
        page.get_by_label("the column that names the person").fill("customer id")
        expect(command).to_contain_text("--unit 'customer id'")
        page.get_by_label("of it, each analyst").fill("epsilon=0.25")
        expect(command).to_contain_text("--each-analyst epsilon=0.25")


@pytest.mark.slow
def test_a_curator_lets_someone_in_allots_and_sees_the_spending(browser, address, directory, tokens):
    from playwright.sync_api import expect

    with person(browser, address) as page, person(browser, address) as other:
        sign_in(page, tokens["curator"])
        page.get_by_role("link", name="People").click()
        page.get_by_label("name", exact=True).fill("bob")
        page.get_by_role("button", name="Make the token").click()
        token = page.locator("#new-token").inner_text()
        page.goto("/data/purchases/office")
        page.get_by_label("who", exact=True).fill("analyst:bob")
        page.get_by_label("may spend").fill("epsilon=0.5,delta=1e-6")
        page.get_by_role("button", name="Set the allotment").click()
        expect(page.get_by_text("0.5 left")).to_be_visible()
        sign_in(other, token)
        other.goto("/data/purchases/ask")
        other.locator("#amount").fill("0.125")
        other.get_by_role("button", name="Release for epsilon 0.125").click()
        other.wait_for_url("**/releases/*")
        page.reload()
        expect(page.get_by_text("0.375 left")).to_be_visible()
        expect(page.get_by_role("img", name=re.compile("Spending by analyst: .*bob 3.1%"))).to_be_visible()
        page.get_by_role("link", name="Ledger").click()
        page.get_by_role("button", name="Verify every record").click()
        expect(page.get_by_role("status")).to_contain_text("Whole")
        page.get_by_role("link", name="People").click()
        revoke = page.get_by_role("button", name="Revoke the token of bob")
        expect(revoke).to_be_hidden()  # a click that went astray ends nothing
        page.locator("tr", has_text="bob").get_by_text("End it").click()
        revoke.click()
        expect(page.locator("tr", has_text="bob")).to_contain_text("revoked")
        other.goto("/data")
        expect(other.get_by_role("status")).to_contain_text("Your session ended")


@pytest.mark.slow
def test_a_curator_changes_the_policy_after_seeing_what_would_change(browser, address, directory, tokens):
    from playwright.sync_api import expect

    before = directory.dataset("purchases").policy
    with person(browser, address) as page:
        sign_in(page, tokens["curator"])
        page.goto("/data/purchases/office")
        page.get_by_role("link", name="Change the policy").click()
        page.get_by_role("button", name="Add a rule").click()
        page.locator("[name=who_1]").fill("project:census")
        page.locator("[name=max_spend_1]").fill("epsilon=0.1,delta=1e-7")
        page.locator("[name=discover_1]").uncheck()
        page.get_by_role("button", name="Move rule 2 up").click()
        page.get_by_role("button", name="Review the change").click()
        expect(page.get_by_role("region", name="Policy afterwards").locator("tr.now")).to_contain_text("project:census")
        expect(page.get_by_role("region", name="Policy now").locator("tr.now")).to_have_count(0)
        assert directory.dataset("purchases").policy == before
        page.get_by_role("button", name="Change the policy").click()
        page.wait_for_url("**/office")
        expect(page.get_by_role("region", name="Policy")).to_contain_text("project:census")
        page.get_by_text("Changes of the policy").click()
        expect(page.get_by_role("row").filter(has_text="policy changed").filter(has_text="carol")).to_be_visible()
    assert directory.dataset("purchases").policy == (
        Rule(who="project:census", discover=False, max_spend=approx("0.1", "1e-7")),
        *before,
    )
    assert directory.verify().whole
    directory.set_policy("purchases", before, by="console")


@pytest.mark.slow
def test_fields_of_statistics_write_sql_and_return_after_an_edit_by_hand(browser, address, tokens):
    from playwright.sync_api import expect

    with person(browser, address) as page:
        sign_in(page, tokens["analyst"])
        page.goto("/data/purchases/ask")
        sql = page.locator("#sql")
        page.locator("[name=ask_0]").select_option("histogram")
        page.locator("[name=column_0]").select_option("amount")
        page.locator("[name=edges_0]").fill("0, 50, 200")
        expect(sql).to_have_value(re.compile(r"HISTOGRAM\(amount, \[0, 50, 200\]\)"))
        page.locator("[name=ask_0]").select_option("correlation")
        page.locator("[name=second_0]").select_option("cds")
        expect(sql).to_have_value(re.compile(r"CORR\(amount, cds\)"))
        page.get_by_text("more groups").click()
        page.get_by_role("button", name="Add bins, a part of a date").click()
        page.locator("[name=group_of_0]").select_option("amount")
        page.locator("[name=group_edges_0]").fill("0, 10, 200")
        expect(sql).to_have_value(re.compile(r"CASE\s+WHEN .amount. < 0.*AS amount_bin", re.DOTALL))
        page.locator("[name=having]").evaluate("field => { field.closest('details').open = true; }")
        page.locator("[name=limit]").fill("1")
        expect(sql).to_have_value(re.compile(r"LIMIT 1"))
        view(page, "SQL")
        sql.fill("SELECT town FROM purchases GROUP BY town ORDER BY COUNT(DISTINCT customer_id) DESC LIMIT 2")
        expect(page.locator("#preview")).to_contain_text("each winner's count")
        expect(page.get_by_role("button", name="Release for epsilon 0.1")).to_be_visible()
        view(page, "Fields")
        page.get_by_role("button", name="Go back to the fields").click()
        expect(page.locator("[name=edges_0], [name=second_0]").first).to_be_visible()
        expect(sql).to_have_value(re.compile(r"CORR\(amount, cds\)[\s\S]*LIMIT 1"))


def test_everything_can_be_asked_without_scripts(browser, address, directory, tokens):
    from playwright.sync_api import expect

    with person(browser, address, scripts=False) as page:
        sign_in(page, tokens["analyst"])
        page.goto("/data/purchases/ask")
        view(page, "SQL")
        page.locator("#sql").fill("SELECT COUNT(*) AS n FROM purchases WHERE amount > 9")
        page.get_by_role("button", name="Preview the SQL").click()
        view(page, "Fields")
        expect(page.get_by_text("The SQL was edited by hand")).to_be_visible()
        before = spent(directory)
        page.get_by_role("button", name=re.compile("Release for")).click()
        page.wait_for_url("**/releases/*")
        expect(page.get_by_role("heading", name="The numbers")).to_be_visible()
        assert spent(directory) == before + Fraction("0.1")
        page.goto("/data/purchases")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("Your token")).to_be_visible()


@pytest.mark.slow  # of the tests, and not of a page
def test_axe_is_not_blind_to_faults_of_any_weight(browser, address):
    plants = [
        ("critical", "label", "document.querySelector('label').remove()"),
        ("serious", "color-contrast", "document.querySelector('h1').style.color = '#dddddd'"),
        ("moderate", "heading-order", "document.querySelector('h1').outerHTML = '<h1>One</h1><h4>Four</h4>'"),
        ("minor", "empty-heading", "document.querySelector('.lead').outerHTML = '<h2></h2>'"),
    ]
    with person(browser, address) as page:
        for weight, rule, plant in plants:
            page.goto("/signin")
            assert faults_on(page) == []
            page.evaluate(f"() => {{ {plant}; }}")
            assert any(f" {weight}: {rule}: " in one for one in faults_on(page)), rule


@pytest.mark.slow
def test_a_page_of_one_pixel_too_many_is_found(browser, address):
    with person(browser, address) as page:
        page.goto("/signin")
        page.set_viewport_size(PHONE)
        for high, faults in ((SCREENS * PHONE["height"], 0), (SCREENS * PHONE["height"] + 1, 1)):
            page.locator("body").evaluate("(body, high) => { body.style.height = `${high}px`; }", high)
            assert len(faults_on_a_phone(page)) == faults
        for wide, faults in ((PHONE["width"], 0), (PHONE["width"] + 2, 1)):
            page.locator(".top").evaluate("(top, wide) => { top.style.width = `${wide}px`; }", wide)
            assert len([one for one in faults_on(page) if one.startswith("HTML")]) == faults
        page.locator(".lead").evaluate("lead => { lead.textContent = 'x'.repeat(80); }")
        assert any(one.startswith("P lead") for one in faults_on(page))


@pytest.mark.slow
def test_the_keyboard_and_the_theme_button_work(browser, address, tokens):
    from playwright.sync_api import expect

    with person(browser, address, scheme="light") as page:
        sign_in(page, tokens["analyst"])
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="purchases", exact=True)).to_be_focused()
        white = page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
        page.get_by_role("button", name="Dark").click()
        expect(page.get_by_role("button", name="Light")).to_be_visible()
        page.goto("/data/purchases")
        expect(page.get_by_role("button", name="Light")).to_be_visible()  # the choice is kept
        assert page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor") != white
