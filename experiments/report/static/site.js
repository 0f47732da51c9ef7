// Filters and sorting for tables that are plain tables without this, and what a box of the graph is joined to.
"use strict";

const CHOSEN = ["on", "verdict"]; // columns that have few values
const FEW = 40; // rows of a table that are shown at once

function filters(sheet) {
  const table = sheet.querySelector("table");
  if (!table) return;
  const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
  const rows = [...table.tBodies[0].rows];
  const form = document.createElement("form");
  form.className = "filters";
  form.setAttribute("role", "search");
  form.setAttribute("aria-label", "Filter the table");
  const asked = new URLSearchParams(location.search);
  const controls = [];
  for (const name of CHOSEN.filter((name) => heads.includes(name))) {
    const column = heads.indexOf(name);
    const value = (row) => row.cells[column].textContent.trim();
    const select = document.createElement("select");
    select.name = name;
    select.append(new Option("any", ""));
    for (const one of [...new Set(rows.map(value))].sort()) select.append(new Option(one, one));
    select.value = asked.get(name) || "";
    if (select.selectedIndex < 0) select.value = "";
    controls.push([name, select, (row) => !select.value || value(row) === select.value]);
  }
  const words = document.createElement("input");
  words.type = "search";
  words.name = "words";
  words.value = asked.get("words") || "";
  const text = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const wanted = () => words.value.toLowerCase().split(/\s+/).filter(Boolean);
  controls.push(["place or words", words, (row) => wanted().every((word) => text.get(row).includes(word))]);
  const count = document.createElement("output");
  count.setAttribute("aria-live", "polite");
  for (const [name, control] of controls) {
    const label = document.createElement("label");
    label.append(name);
    label.htmlFor = control.id = `filter-${name.replaceAll(" ", "-")}`;
    const field = document.createElement("div");
    field.append(label, control);
    form.append(field);
  }
  form.append(count);
  const more = document.createElement("button");
  more.type = "button";
  more.className = "more";
  let most = FEW;
  const apply = () => {
    let fitting = 0;
    for (const row of table.tBodies[0].rows) { // in the order in which they stand now
      const fits = controls.every(([, , fits]) => fits(row));
      fitting += fits ? 1 : 0;
      row.hidden = !fits || fitting > most;
    }
    count.textContent = `${fitting} of ${rows.length}`;
    more.hidden = fitting <= most;
    more.textContent = `Show all ${fitting}`;
  };
  more.addEventListener("click", () => {
    most = Infinity;
    const next = [...table.tBodies[0].rows].find((row) => row.hidden && controls.every(([, , fits]) => fits(row)));
    apply();
    next?.querySelector("a")?.focus();
  });
  addEventListener("beforeprint", () => { most = Infinity; apply(); });
  table.addEventListener("sorted", apply);
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  sheet.before(form);
  sheet.after(more);
  apply();
}

// Sorting by a column: a button in each head; a second press turns the order round.
function sorts(table) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const key = (row, column) => {
    const text = row.cells[column].textContent.trim();
    const value = parseFloat(text.replace(/[,%+]/g, "").replace("\u2212", "-"));
    return /^[<+\-\u2212]?[\d.,]+/.test(text) && Number.isFinite(value) ? value : text.toLowerCase();
  };
  const compared = (a, b) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1);
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const falls = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", falls ? "descending" : "ascending");
      const rows = [...body.rows].map((row) => [key(row, column), row]);
      rows.sort(([a], [b]) => (falls ? compared(b, a) : compared(a, b)));
      body.append(...rows.map(([, row]) => row));
      table.dispatchEvent(new Event("sorted"));
    });
  });
}

// What is wider than its place is scrolled, by keyboard too.
const SCROLLED = ".sheet .table-wrapper, details .sheet, pre, .display, .graph .part, .drawing, math[display=block]";
function scrolls(place) {
  const fit = () => {
    if (place.scrollWidth > place.clientWidth + 1) {
      place.tabIndex = 0;
      if (place.localName !== "math") place.setAttribute("role", "group");
      place.setAttribute("aria-label", "Wider than the page");
    } else {
      for (const name of ["tabindex", "role", "aria-label"]) place.removeAttribute(name);
    }
  };
  new ResizeObserver(fit).observe(place);
  place.addEventListener("keydown", (event) => {
    if (place.tabIndex === 0 && ["ArrowLeft", "ArrowRight"].includes(event.key)) event.stopPropagation(); // turns no page
  });
}

// On a narrow screen a drawing of several panels keeps a size at which its words can be read, and is scrolled.
function draws(image) {
  const place = document.createElement("div");
  place.className = "drawing";
  const shown = image.closest("a") || image;
  shown.before(place);
  place.append(shown);
  const size = () => image.style.setProperty("--least", `${Math.min(0.75 * image.naturalWidth, 640)}px`);
  if (image.complete) size();
  else image.addEventListener("load", size);
}

function stacks(table) {
  const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
  for (const row of table.tBodies[0].rows) [...row.cells].forEach((cell, i) => (cell.dataset.label = heads[i]));
  const fit = () => {
    table.classList.remove("stacked");
    const place = table.closest(".table-wrapper") || table.parentElement;
    table.classList.toggle("stacked", innerWidth < 600 || (innerWidth < 1000 && table.scrollWidth > place.clientWidth + 1));
  };
  let due = 0;
  addEventListener("resize", () => {
    cancelAnimationFrame(due);
    due = requestAnimationFrame(fit);
  });
  addEventListener("beforeprint", () => table.classList.remove("stacked"));
  addEventListener("afterprint", fit);
  fit();
}

function neighbours(graph) {
  const edges = [...graph.querySelectorAll(".edges path")];
  const light = (event) => {
    const node = event.target.closest(".node");
    const name = event.type === "pointerout" || event.type === "focusout" ? null : node && node.dataset.name;
    for (const edge of edges) edge.classList.toggle("lit", name !== null && [edge.dataset.from, edge.dataset.to].includes(name));
  };
  for (const kind of ["pointerover", "pointerout", "focusin", "focusout"]) graph.addEventListener(kind, light);
}

const LANDMARKS = { ".sidebar-drawer": "All pages", ".toc-drawer": "Parts of this page" };

document.addEventListener("DOMContentLoaded", () => {
  for (const [place, name] of Object.entries(LANDMARKS)) document.querySelector(place)?.setAttribute("aria-label", name);
  document.querySelectorAll("article figure:not(.plans figure) img").forEach(draws);
  document.querySelectorAll(".filterable").forEach(filters);
  document.querySelectorAll(".filterable table").forEach(sorts);
  document.querySelectorAll(".wide table").forEach(stacks);
  document.querySelectorAll(`article :is(${SCROLLED})`).forEach(scrolls);
  document.querySelectorAll(".graph").forEach(neighbours);
});
