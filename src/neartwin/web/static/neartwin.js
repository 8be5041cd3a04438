// What a page does beyond links and forms; without this file everything still works, with one more click.
"use strict";

// ---- theme: as the system has it, or chosen --------------------------------------------------------------------
const themeButton = document.getElementById("theme");
if (themeButton) {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const now = () => document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");
  const name = () => { themeButton.textContent = now() === "dark" ? "Light" : "Dark"; };
  themeButton.hidden = false;
  themeButton.addEventListener("click", () => {
    const next = now() === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try { localStorage.setItem("neartwin-theme", next); } catch { /* storage may be refused */ }
    name();
  });
  name();
}

// ---- copying code ------------------------------------------------------------------------------------------------
function armCopies(root) {
  for (const button of root.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const text = document.getElementById(button.dataset.copy).textContent;
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Select and copy";
      }
    });
  }
}
armCopies(document);

// ---- the question page: the fields write the SQL, the preview follows ---------------------------------------------
const form = document.querySelector("form[data-live]");
if (form) {
  const priced = ["preview", "cost", "code"];
  const parts = { fields: ["written", "sql", "options", ...priced], sql: ["written", "builder", "options", ...priced], other: priced };
  let newest = 0, timer = 0;
  const due = new Set(); // parts of the page that no answer has renewed yet

  const wait = () => form.querySelectorAll("[value=release], [value=show], [value=save]").forEach((one) => { one.disabled = true; }); // until it is previewed
  const value = (id) => document.getElementById(id);
  const logarithm = (text) => (Number(text) > 0 ? Math.log10(Number(text)) : NaN);

  function place(found, ids) {
    for (const id of ids) {
      const fresh = found.getElementById(id), old = document.getElementById(id);
      if (!fresh || !old) continue;
      if (id === "sql" || id === "written") { old.value = fresh.value; continue; }
      const open = [...old.querySelectorAll("details")].map((one) => one.open);
      const focused = old.contains(document.activeElement) ? document.activeElement : null;
      const wasOpen = old.open;
      old.replaceWith(fresh);
      if (wasOpen !== undefined) fresh.open = wasOpen;
      fresh.querySelectorAll("details").forEach((one, i) => { one.open = Boolean(open[i]); });
      armCopies(fresh);
      if (focused && focused.name) {
        const again = [...fresh.querySelectorAll(`[name="${CSS.escape(focused.name)}"]`)].find((one) => one.type !== "checkbox" || one.value === focused.value);
        if (again) again.focus();
      }
    }
  }

  async function ask(source, action, ids) {
    const mine = ++newest;
    wait();
    ids.forEach((id) => due.add(id));
    if (source === "sql") due.delete("sql");
    const body = new URLSearchParams(new FormData(form));
    if (action) body.set("action", action);
    form.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(form.getAttribute("action"), { method: "POST", body, headers: { "X-CSRF-Token": form.elements.csrf.value } });
      if (answer.redirected) { location.assign(answer.url); return; }
      const found = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (mine !== newest) return;
      if (!found.getElementById("preview")) { document.documentElement.replaceWith(found.documentElement); return; }
      place(found, [...due]);
      due.clear();
    } catch {
      // the page is being left, or nobody answers: the next change, or the button without this script, tries again
    } finally {
      if (mine === newest) form.removeAttribute("aria-busy");
    }
  }

  const slider = value("slider"), amount = value("amount");
  value("slider-label").hidden = false;
  const follow = () => { const at = logarithm(amount.value); if (!Number.isNaN(at)) { slider.value = at; slider.setAttribute("aria-valuetext", amount.value); } };
  follow();

  form.addEventListener("input", (event) => {
    const target = event.target;
    if (["view", "title", "for"].includes(target.name)) return; // nothing of the question
    wait();
    newest += 1; // an answer under way is to older fields
    if (target === slider) {
      amount.value = String(Number((10 ** Number(slider.value)).toPrecision(3)));
      slider.setAttribute("aria-valuetext", amount.value);
    } else if (target === amount) follow();
    const source = target.name === "sql" ? "sql" : value("builder").contains(target) ? "fields" : "other";
    const inside = ["builder", "options"].find((id) => value(id).contains(target));
    if (inside && target.matches("select, [type=checkbox]")) due.add(inside); // its shape changes
    clearTimeout(timer);
    timer = setTimeout(() => ask(source, "", parts[source]), target === slider ? 60 : 300);
  });

  form.addEventListener("submit", (event) => {
    const action = event.submitter ? event.submitter.value : "preview";
    if (["release", "show", "save"].includes(action)) return; // an ordinary form: it leads to another page
    event.preventDefault();
    clearTimeout(timer);
    if (action.startsWith("spend:")) { amount.value = action.slice(6); follow(); }
    ask("fields", action === "preview" ? "" : action, ["builder", ...parts.fields]);
  });
}

// ---- registration: the command follows the answers --------------------------------------------------------------
const guided = document.getElementById("register");
if (guided) {
  let newest = 0, timer = 0;
  guided.addEventListener("input", () => {
    const mine = ++newest;
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const body = new URLSearchParams(new FormData(guided));
      body.set("action", "typed");
      const answer = await fetch("/register", { method: "POST", body, headers: { "X-CSRF-Token": guided.elements.csrf.value } }).catch(() => null);
      if (!answer || !answer.ok || mine !== newest) return; // the next change tries again
      const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("command");
      if (found && mine === newest) document.getElementById("command").textContent = found.textContent;
    }, 200);
  });
}

// ---- a release under way -----------------------------------------------------------------------------------------
if (document.querySelector("[data-wait]")) setTimeout(() => location.reload(), 1000);
