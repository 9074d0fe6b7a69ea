"use strict";
(() => {
  const form = document.querySelector("form.filter");
  const body = document.querySelector("#repositories ~ .scroll tbody");
  const heads = [...document.querySelectorAll("th[data-sorts]")];
  const status = document.getElementById("shown");
  const rows = [...body.rows].map((row) => ({ row, text: row.textContent.toLowerCase() }));
  const state = { search: "", verdict: "", by: "" };
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.by === undefined ? cell.textContent : Number(cell.dataset.by);
  };
  const sort = () => {
    const [column, way] = [Number.parseInt(state.by, 10), state.by.endsWith("d") ? -1 : 1];
    heads.forEach((head, at) => head.setAttribute("aria-sort", at !== column ? "none" : way < 0 ? "descending" : "ascending"));
    if (!(column >= 0 && column < heads.length)) return;
    const order = [...rows].sort((a, b) => {
      const [x, y] = [value(a.row, column), value(b.row, column)];
      return way * (typeof x === "number" ? x - y : x.localeCompare(y));
    });
    body.append(...order.map((entry) => entry.row));
  };
  const filter = () => {
    const words = state.search.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { row, text } of rows) {
      row.hidden = !((!state.verdict || row.dataset.verdict === state.verdict) && words.every((word) => text.includes(word)));
      shown += !row.hidden;
    }
    status.textContent = `${shown} of ${rows.length} repositories shown`;
  };
  const keep = () => {
    const parts = Object.entries(state).filter(([, wanted]) => wanted);
    history.replaceState(null, "", parts.length ? `#${new URLSearchParams(parts)}` : location.pathname + location.search);
  };
  const take = () => {
    state.search = form.elements.namedItem("search").value;
    state.verdict = form.elements.namedItem("verdict").value;
    filter();
    keep();
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => {
      state.by = state.by === `${column}a` ? `${column}d` : `${column}a`;
      sort();
      keep();
    });
    head.replaceChildren(button);
  });
  form.addEventListener("input", take);
  form.addEventListener("reset", () => setTimeout(take));
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const [name, wanted] of new URLSearchParams(location.hash.slice(1))) if (name in state) state[name] = wanted;
  form.elements.namedItem("search").value = state.search;
  form.elements.namedItem("verdict").value = state.verdict;
  form.hidden = false;
  sort();
  filter();
})();
