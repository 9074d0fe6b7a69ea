"use strict";
(() => {
  const form = document.querySelector("form.filter");
  if (!form) return;
  const search = form.elements.namedItem("search");
  const status = document.getElementById("shown");
  const sections = [...document.querySelectorAll("section[data-trouble]")].map((section) => ({
    section,
    groups: [...section.querySelectorAll("details.g")].map((group) => ({
      group,
      head: group.querySelector("summary").textContent.toLowerCase(),
      items: [...group.querySelectorAll("li")].map((item) => ({ item, text: null })),
    })),
  }));
  const total = sections.reduce((sum, s) => sum + s.groups.reduce((n, g) => n + g.items.length, 0), 0);
  const wanted = (group, name) => {
    const value = form.elements.namedItem(name).value;
    return !value || group.dataset[name] === value;
  };
  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { section, groups } of sections) {
      let any = false;
      for (const { group, head, items } of groups) {
        let count = 0;
        if (wanted(group, "trouble") && wanted(group, "severity") && wanted(group, "who") && wanted(group, "area")) {
          for (const entry of items) {
            if (words.length && entry.text === null) entry.text = head + " " + entry.item.textContent.toLowerCase();
            const fits = words.every((word) => entry.text.includes(word));
            if (entry.item.hidden === fits) entry.item.hidden = !fits;
            if (fits) count += 1;
          }
        }
        if (group.hidden !== (count === 0)) group.hidden = count === 0;
        any = any || count > 0;
        shown += count;
      }
      section.hidden = !any;
    }
    status.textContent = `${shown} of ${total} findings shown`;
  };
  let waiting = 0;
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(apply, 80);
  });
  form.addEventListener("reset", () => setTimeout(apply));
  form.addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("open").addEventListener("click", () => {
    const groups = [...document.querySelectorAll("details.g:not([hidden])")];
    const open = groups.some((group) => !group.open);
    for (const group of groups) group.open = open;
  });
  addEventListener("beforeprint", () => {
    for (const group of document.querySelectorAll("details")) group.open = true;
  });
  form.hidden = false;
  apply();
})();
