// Makes the pictures of a report live: values under the pointer, a closer look, runs shown or hidden, points as CSV.
// In: <script id="data">, an array of charts as html.rs writes them, and the drawings of svg.rs. No number is written here.
// The page says what happened: <html data-charts="live pictures" data-errors="number of errors">.
"use strict";
(() => {
  const root = document.documentElement;
  root.dataset.errors = 0;
  addEventListener("error", () => { root.dataset.errors++; });
  const ZOOM_MAX = 64; // The finest ticks are made for 16 times, and the points are thinned.
  const DRAG_MIN = 6;

  const show = (element, shown) => { if (shown) element.removeAttribute("display"); else element.setAttribute("display", "none"); };

  function live(chart, card) {
    const { left, right, texts } = chart.live;
    const svg = card.querySelector(".plot svg"), tip = card.querySelector(".tip"), cursor = svg.querySelector(".cursor"), pick = svg.querySelector(".pick");
    const zoomed = svg.querySelector(".zoom"), placed = svg.querySelectorAll("[data-at], [data-g]");
    const levels = Math.max(...[...svg.querySelectorAll("[data-level]")].map((tick) => +tick.dataset.level));
    const hidden = new Set();
    let [from, to] = [0, 1]; // The part of the width that is shown.
    let start = null;

    const place = (share) => left + (share - from) / (to - from) * (right - left);

    // Where the pointer is, as a share of the whole width; none beside the axes.
    function share(event) {
      const box = svg.getBoundingClientRect();
      const at = ((event.clientX - box.left) / box.width * svg.viewBox.baseVal.width - left) / (right - left);
      return at < 0 || at > 1 ? null : from + at * (to - from);
    }

    function arrange() {
      const scale = 1 / (to - from), level = Math.min(levels, Math.floor(Math.log(scale) / Math.log(4) + 1e-9));
      zoomed.setAttribute("transform", `matrix(${scale} 0 0 1 ${left * (1 - scale) - from * scale * (right - left)} 0)`);
      for (const element of placed) {
        const at = element.hasAttribute("data-at") ? +element.dataset.at : null;
        if (at !== null) element.setAttribute("transform", `translate(${place(at)})`);
        const inside = at === null || (at >= from - 1e-4 && at <= to + 1e-4);
        const fine = +(element.dataset.level ?? level) === level;
        show(element, inside && fine && !hidden.has(element.dataset.g));
      }
      tip.hidden = true;
      show(cursor, false);
    }

    function point(event) {
      const at = share(event);
      const [head, values] = at === null ? ["", []] : texts[Math.round(at * (texts.length - 1))];
      const rows = values.filter(([series]) => !hidden.has(String(chart.series[series].group)));
      tip.hidden = rows.length === 0;
      show(cursor, rows.length > 0);
      if (tip.hidden) return;
      cursor.setAttribute("transform", `translate(${place(at)})`);
      tip.replaceChildren();
      tip.appendChild(document.createElement("b")).textContent = head;
      for (const [series, value] of rows) {
        const name = tip.appendChild(document.createElement("span"));
        name.className = chart.series[series].chip;
        name.textContent = chart.series[series].name;
        tip.appendChild(document.createElement("span")).textContent = value;
      }
      const box = svg.getBoundingClientRect(), [x, y] = [event.clientX - box.left, event.clientY - box.top];
      const turned = x + 16 + tip.offsetWidth > box.width;
      tip.style.left = Math.max(0, turned ? x - 14 - tip.offsetWidth : x + 14) + "px";
      tip.style.top = Math.min(Math.max(0, y - 12), Math.max(0, box.height - tip.offsetHeight)) + "px";
    }

    svg.addEventListener("pointerdown", (event) => { start = share(event); });
    svg.addEventListener("pointermove", (event) => {
      point(event);
      const at = share(event);
      show(pick, start !== null && at !== null);
      if (start === null || at === null) return;
      pick.setAttribute("x", Math.min(place(start), place(at)));
      pick.setAttribute("width", Math.abs(place(at) - place(start)));
    });
    addEventListener("pointerup", (event) => {
      if (start === null) return;
      const ends = [start, share(event) ?? start].sort((a, b) => a - b);
      start = null;
      show(pick, false);
      if (place(ends[1]) - place(ends[0]) < DRAG_MIN || ends[1] - ends[0] < 1 / ZOOM_MAX) return;
      [from, to] = ends;
      arrange();
    });
    svg.addEventListener("dblclick", () => { [from, to] = [0, 1]; arrange(); });
    svg.addEventListener("pointerleave", () => { tip.hidden = true; show(cursor, false); });
    for (const button of card.querySelectorAll("[data-group]")) {
      button.addEventListener("click", () => {
        const group = button.dataset.group, hide = !hidden.has(group);
        if (hide) hidden.add(group); else hidden.delete(group);
        button.setAttribute("aria-pressed", String(!hide));
        arrange();
      });
    }
  }

  // The points as drawn, as CSV, made when asked for.
  function csv(chart) {
    const quoted = (text) => (/[",\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text);
    const lines = [["series", chart.labels[0], chart.labels[1] || "value"].map(quoted).join(",")];
    for (const s of chart.series) s.x.forEach((x, i) => lines.push(quoted(s.name) + "," + x + "," + s.y[i]));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
    link.download = chart.id + ".csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  let count = 0;
  for (const chart of JSON.parse(document.getElementById("data").textContent)) {
    const card = document.querySelector(`[data-chart="${chart.id}"]`);
    card.querySelector("button.csv").addEventListener("click", () => csv(chart));
    if (chart.live) {
      live(chart, card);
      count++;
    }
  }
  root.dataset.charts = count;
})();
