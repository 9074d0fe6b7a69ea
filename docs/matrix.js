"use strict";
(() => {
  const start = () => {
    const form = document.getElementById("matrix-filter");
    if (!form) return;
    const names = ["status", "area", "kind", "confidence"];
    const rows = [...document.querySelectorAll("#matrix-rows tbody tr")].map((row) => [row, row.textContent.toLowerCase()]);
    const apply = () => {
      const words = form.elements.namedItem("search").value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const [row, text] of rows) {
        const fits =
          names.every((name) => !form.elements.namedItem(name).value || row.dataset[name] === form.elements.namedItem(name).value) &&
          words.every((word) => text.includes(word));
        row.hidden = !fits;
        shown += fits;
      }
      document.getElementById("rows-shown").textContent = `${shown} of ${rows.length} rows`;
    };
    form.addEventListener("input", apply);
    form.addEventListener("submit", (event) => event.preventDefault());
    apply();
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
