// The page that computes: `compute` is numbers alone, `start` the controls and drawings.  No library, no network.
"use strict";

// Numbers.  formulas: closed forms; data: the tables and polynomials beside them in the page.
function compute(formulas, data) {
  const gap = (d, n, sigma, rank) =>
    Object.fromEntries(Object.entries(formulas).map(([name, form]) => [name, form(d, n, sigma, rank)]));
  const bounds = (entry) => (Array.isArray(entry) ? entry : [entry, entry]);
  const worth = (group, d, width) => {
    const [entries, factor] = data.worth[group].rows[d][width - d];
    return { entries: bounds(entries), worth: bounds(factor) };
  };
  const value = (polynomial, sizes) =>
    polynomial.reduce((sum, [c, ...powers]) => sum + powers.reduce((term, p, i) => term * sizes[i] ** p, c), 0);
  const costs = (name, sizes) =>
    Object.fromEntries(Object.entries(data.costs[name]).map(([what, terms]) => [what, value(terms, sizes)]));
  const term = (text) => {
    const at = text.lastIndexOf(":");
    const [, table, layer, head, shift] = text.slice(at + 1).match(/^(t?)(\d+)\.(\d+)(?:-(\d+))?$/);
    return { weight: at < 0 ? "" : text.slice(0, at), table: !!table, layer: +layer, head: +head, shift: +(shift || 0) };
  };
  const cell = (text, layer, head) =>
    text === "x" ? [] : (text || `${layer}.${head}`).split("|").map((list) => list.split("&").map(term));
  const plan = (text) =>
    text.split("\n").map((row, n) => row.split("/").map((part, h) => cell(part, n + 1, h + 1)));
  return { gap, worth, costs, plan };
}

function shown(value, digits = 4) {
  if (!Number.isFinite(value)) return "none";
  if (Math.abs(value) < 1e-12) return "0";
  return Math.abs(value) >= 1e5 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(digits));
}

function counted(value) {
  for (const [unit, size] of [["T", 1e12], ["G", 1e9], ["M", 1e6], ["k", 1e3]])
    if (Math.abs(value) >= size) return `${+(value / size).toPrecision(4)} ${unit}`;
  return shown(value);
}

function changed(value, base) {
  const share = value / base - 1;
  return Math.abs(share) < 5e-5 ? "same" : `${share > 0 ? "+" : "-"}${Math.abs(100 * share).toFixed(1)} %`;
}

function start(math, data) {
  const SVG = "http://www.w3.org/2000/svg";
  const byId = (id) => document.getElementById(id);
  const number = (id) => Number(byId(id).value);
  const make = (name, attributes = {}, ...children) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const rows = (id, lines) => {
    const body = byId(id).tBodies[0];
    body.replaceChildren(
      ...lines.map(([head, ...cells]) => {
        const row = document.createElement("tr");
        const first = document.createElement("th");
        first.scope = "row";
        first.textContent = head;
        row.append(first, ...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
        return row;
      }),
    );
  };

  // Curves: lines = [{name, mark, points: [[x, y]], kind}], drawn into an svg with axes from 0.
  const W = 560, H = 300, LEFT = 60, RIGHT = 16, TOP = 20, BELOW = 48;
  function plot(id, lines, { across, up, low = 0, at, ticks }) {
    const xs = lines.flatMap((line) => line.points.map(([x]) => x));
    const ys = lines.flatMap((line) => line.points.map(([, y]) => y));
    const [x0, x1] = [Math.min(...xs), Math.max(...xs)];
    const [y0, y1] = [low, Math.max(...ys, low + 1e-9) * 1.06];
    const x = (value) => LEFT + ((value - x0) / (x1 - x0 || 1)) * (W - LEFT - RIGHT);
    const y = (value) => H - BELOW - ((value - y0) / (y1 - y0)) * (H - TOP - BELOW);
    const svg = byId(id);
    svg.replaceChildren();
    for (let i = 0; i <= 4; i += 1) {
      const value = y0 + ((y1 - y0) * i) / 4;
      svg.append(make("line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: y(value), y2: y(value) }));
      svg.append(make("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, shown(value, 3)));
    }
    for (const value of ticks)
      svg.append(make("text", { x: x(value), y: H - BELOW + 18, "text-anchor": "middle" }, shown(value)));
    svg.append(make("text", { x: (LEFT + W) / 2, y: H - 6, "text-anchor": "middle" }, across));
    svg.append(make("text", { x: LEFT + 4, y: TOP - 5, "text-anchor": "start" }, up));
    svg.append(make("line", { class: "now", x1: x(at), x2: x(at), y1: TOP, y2: H - BELOW }));
    for (const line of lines) {
      const path = line.points.map(([a, b], i) => `${i ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("");
      svg.append(make("path", { class: `curve ${line.kind}`, d: path }));
      if (!line.mark) continue;
      for (const [a, b] of line.points.length > 40 ? line.points.filter(([a]) => a === at) : line.points)
        svg.append(
          line.mark === "square"
            ? make("rect", { class: `mark ${line.kind}`, x: x(a) - 4, y: y(b) - 4, width: 8, height: 8 })
            : make("circle", { class: `mark ${line.kind}`, cx: x(a), cy: y(b), r: 4.5 }),
        );
    }
  }
  const spaced = (low, high, most = 9) => {
    const step = Math.max(1, Math.ceil((high - low) / most));
    return Array.from({ length: Math.floor((high - low) / step) + 1 }, (_, i) => low + i * step);
  };

  function gap() {
    const [d, n, sigma] = [number("gap-d"), number("gap-n"), number("gap-sigma")];
    byId("gap-rank").max = d;
    const rank = number("gap-rank");
    const ranks = Array.from({ length: d + 1 }, (_, a) => a);
    const curve = (name) => ranks.map((a) => [a, math.gap(d, n, sigma, a)[name]]);
    plot(
      "gap-plot",
      [
        { kind: "zero", points: curve("zero") },
        { kind: "mha", mark: "circle", points: curve("mha") },
        { kind: "skipv1", mark: "square", points: curve("skipv1") },
      ],
      { across: "rank a: numbers of a token spent on x", up: "lowest loss", at: rank, ticks: spaced(0, d) },
    );
    const at = math.gap(d, n, sigma, rank);
    rows("gap-numbers", [
      ["predicting zero", shown(at.zero)],
      ["MHA at this rank", shown(at.mha)],
      ["SkipV1Former at this rank", shown(at.skipv1)],
      ["gap at this rank", shown(at.gap)],
      ["gap to SkipV1Former's best rank", shown(at.gap_to_optimum)],
      ["gap between the best ranks", shown(at.gap_of_optima)],
      ["rho, the largest share of the signal", shown(at.rho)],
    ]);
    byId("gap-says").textContent =
      `At rank ${rank} of ${d}: MHA ${shown(at.mha)}, SkipV1Former ${shown(at.skipv1)}, gap ${shown(at.gap)}; ` +
      `predicting zero ${shown(at.zero)}.`;
  }

  function worth() {
    const d = number("worth-d");
    const slider = byId("worth-width");
    [slider.min, slider.max] = [d, data.widest * d];
    const width = number("worth-width");
    const chosen = data.worth.findIndex((group) => group.names.includes(byId("worth-variant").value));
    const all = Array.from({ length: (data.widest - 1) * d + 1 }, (_, i) => d + i);
    const curve = (group, end) => all.map((m) => [m, math.worth(group, d, m).worth[end]]);
    const base = data.worth.findIndex((group) => group.names.includes("vanilla"));
    const unknown = all.some((m) => {
      const [least, most] = math.worth(chosen, d, m).worth;
      return least !== most;
    });
    const lines = [
      { kind: "mha", points: curve(base, 0) },
      { kind: "skipv1", mark: "square", points: curve(chosen, 0) },
    ];
    if (unknown) lines.push({ kind: "zero", points: curve(chosen, 1) });
    plot("worth-plot", lines, { across: "width m of a token", up: "worth in width", at: width, ticks: spaced(d, data.widest * d) });
    const { entries, worth: factor } = math.worth(chosen, d, width);
    const range = ([least, most]) => (least === most ? shown(least) : `${shown(least)} to ${shown(most)}`);
    rows("worth-numbers", [
      ["entries of W* explained, in units of rho", `${range(entries)} of ${d * d}`],
      ["worth in width", range(factor)],
      ["vanilla needs the width", range(factor.map((each) => each * width))],
    ]);
    byId("worth-says").textContent =
      `At width ${width} and d = ${d}, ${byId("worth-variant").value} explains ${range(entries)} of ${d * d} entries: ` +
      `worth ${range(factor)} in width.`;
    byId("worth-alike").textContent = data.worth[chosen].names.join(", ");
  }

  function costs() {
    const [layers, heads, width, vocab, context] =
      ["layers", "heads", "width", "vocab", "context"].map((name) => number(`cost-${name}`));
    const d = heads * width;
    const inner = Math.round(number("cost-inner") * d);
    const sizes = [layers, heads, width, inner, vocab, context];
    const bytes = number("cost-bytes");
    const base = math.costs("vanilla", sizes);
    const chosen = byId("cost-variant").value;
    const line = (name) => {
      const own = math.costs(name, sizes);
      return [
        name, counted(own.parameters), changed(own.parameters, base.parameters),
        `${counted(own.cache * bytes * context)}B`, changed(own.cache, base.cache),
        counted(own.flops), changed(own.flops, base.flops), shown(own.depth / d),
      ];
    };
    const names = Object.keys(data.costs);
    rows("cost-table", names.map(line));
    [...byId("cost-table").tBodies[0].rows].forEach((row, i) => row.classList.toggle("chosen", names[i] === chosen));
    const own = math.costs(chosen, sizes);
    byId("cost-says").textContent =
      `Width ${d}, feed-forward ${inner}. ${chosen}: ${counted(own.parameters)} parameters ` +
      `(${changed(own.parameters, base.parameters)}), ${counted(own.cache * bytes * context)}B of cache for a context ` +
      `(${changed(own.cache, base.cache)}), ${counted(own.flops)}FLOPs for its last token (${changed(own.flops, base.flops)}).`;
  }

  const CELL = 38, SPACE = 5, SIDE = 30;
  let at = [2, Infinity]; // the layer and the head that are looked at
  function picture() {
    const name = byId("plan-variant").value;
    const shapes = Object.keys(data.pictures[name]);
    for (const option of byId("plan-shape").options) option.disabled = !shapes.includes(option.value);
    if (!shapes.includes(byId("plan-shape").value)) byId("plan-shape").value = shapes[shapes.length - 1];
    const [text, ...rules] = data.pictures[name][byId("plan-shape").value];
    const table = math.plan(text);
    const [layers, heads] = [table.length, table[0].length];
    at = [Math.min(at[0], layers), Math.min(at[1], heads)];
    const svg = byId("plan-picture");
    const [wide, high] = [SIDE + heads * (CELL + SPACE), layers * (CELL + SPACE) + 22];
    svg.setAttribute("viewBox", `0 0 ${wide} ${high}`);
    svg.style.maxWidth = `${wide}px`;
    svg.replaceChildren();
    const read = new Set(table[at[0] - 1][at[1] - 1].flat().map((term) => `${term.layer}.${term.head}`));
    const centre = (n, h) => [SIDE + (h - 0.5) * (CELL + SPACE), (layers - n + 0.5) * (CELL + SPACE)];
    table.forEach((row, i) => {
      const n = i + 1;
      svg.append(make("text", { x: SIDE - 8, y: centre(n, 1)[1] + 4, "text-anchor": "end" }, String(n)));
      row.forEach((lists, j) => {
        const h = j + 1, [x, y] = centre(n, h), terms = lists.flat();
        const from = [...new Set(terms.map((term) => term.layer))];
        const kind = !lists.length ? "absent" : from.every((layer) => layer === n) ? "own" : from.includes(n) ? "both" : "other";
        const place = { x: x - CELL / 2, y: y - CELL / 2, width: CELL, height: CELL, rx: 4 };
        const mark = !lists.length ? "" : lists.length > 1 ? "|" : terms.some((term) => term.table) ? "@"
          : terms.length > 1 ? "+" : from[0] !== n || terms[0].head !== h ? `${from[0]}.${terms[0].head}` : "";
        const group = make("g", { class: `cell ${kind}${read.has(`${n}.${h}`) ? " read" : ""}${n === at[0] && h === at[1] ? " here" : ""}` },
          make("rect", place), make("text", { x, y: y + 4, "text-anchor": "middle" }, mark));
        group.addEventListener("click", () => { at = [n, h]; picture(); });
        svg.append(group);
      });
    });
    for (let h = 1; h <= heads; h += 1)
      svg.append(make("text", { x: centre(1, h)[0], y: high - 5, "text-anchor": "middle" }, String(h)));
    const [n, h] = at, [x1, y1] = centre(n, h);
    for (const place of read) {
      const [layer, head] = place.split(".").map(Number);
      if (layer === n && head === h) continue;
      const [x0, y0] = centre(layer, head);
      svg.append(make("path", { class: "arrow", d: `M${x0} ${y0}L${x1} ${y1}` }));
    }
    const words = (term) =>
      `${term.weight ? `${term.weight} times ` : ""}${term.table ? "the table of " : ""}layer ${term.layer}, head ${term.head}` +
      (term.shift ? `, ${term.shift} token${term.shift > 1 ? "s" : ""} before` : "");
    const lists = table[n - 1][h - 1];
    byId("plan-says").textContent = lists.length
      ? `Layer ${n}, head ${h} attends over values: ${lists.map((list) => list.map(words).join(" plus ")).join("; and, side by side, ")}.`
      : `Layer ${n}, head ${h} is not built.`;
    byId("plan-rules").replaceChildren(...rules.map((line) => Object.assign(document.createElement("li"), { textContent: line })));
    return [layers, heads];
  }
  const MOVES = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };
  byId("plan-picture").addEventListener("keydown", (event) => {
    const move = MOVES[event.key];
    if (!move) return;
    event.preventDefault();
    event.stopPropagation(); // elsewhere the site's arrow keys turn the page
    at = [Math.max(1, at[0] + move[0]), Math.max(1, at[1] + move[1])];
    picture();
  });

  for (const place of document.querySelectorAll(".explore .scroll"))
    place.addEventListener("keydown", (event) => event.key in MOVES && event.stopPropagation());
  const fill = (id, names, first) => {
    byId(id).append(...names.map((name) => new Option(name, name)));
    byId(id).value = names.includes(first) ? first : names[names.length - 1];
  };
  fill("worth-variant", data.worth.flatMap((group) => group.names).filter((name) => name !== "vanilla"), "skipv1");
  fill("cost-variant", Object.keys(data.costs), "skipv1");
  fill("plan-variant", Object.keys(data.pictures), "skipv1");
  for (const [section, draw] of [["gap", gap], ["worth", worth], ["cost", costs], ["plan", picture]]) {
    const form = byId(section);
    const update = () => {
      draw();
      for (const slider of form.querySelectorAll("input[type=range]")) byId(`${slider.id}-value`).textContent = slider.value;
    };
    form.addEventListener("input", update);
    form.addEventListener("submit", (event) => event.preventDefault());
    update();
  }
}
