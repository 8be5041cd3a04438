// Runs before the page is drawn, so that a chosen theme does not flash.
(() => {
  let kept = "";
  try { kept = localStorage.getItem("neartwin-theme") || ""; } catch { /* storage may be refused */ }
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
})();
