// Draws the charts of a report. The page holds its data as JSON and this script; nothing is fetched.
// In: <script id="data">, an array of charts as html.rs writes them. Out: one canvas in each .plot, a legend, a tooltip.
// The page says what happened: <html data-charts="drawn" data-errors="number of errors">.
"use strict";
(() => {
  const root = document.documentElement;
  const failed = [];
  const tell = () => { root.dataset.errors = failed.length; };
  window.addEventListener("error", (event) => { failed.push(event.message); tell(); });
  tell();

  const charts = JSON.parse(document.getElementById("data").textContent);
  const color = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const CLOCK = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000];

  // ---- numbers, as text.rs writes them

  const two = (n) => String(n).padStart(2, "0");
  const grouped = (n) => Math.round(n).toLocaleString("en-US");
  const trimmed = (n, digits) => String(+n.toFixed(digits));

  function figure(v) {
    const size = Math.abs(v);
    if (size === 0) return "0";
    if (size >= 99.95) return grouped(v);
    if (size >= 9.995) return v.toFixed(1);
    if (size >= 0.095) return v.toFixed(2);
    return size >= 0.00095 ? v.toFixed(4) : v.toExponential(1);
  }

  function duration(s) {
    const whole = Math.round(s);
    if (s < 9.995) return s.toFixed(2) + " s";
    if (whole < 100) return s.toFixed(1) + " s";
    if (whole < 3600) return Math.floor(whole / 60) + " min " + two(whole % 60) + " s";
    if (whole < 172800) return Math.floor(whole / 3600) + " h " + two(Math.floor(whole / 60) % 60) + " min";
    return Math.floor(whole / 86400) + " d " + two(Math.floor(whole / 3600) % 24) + " h";
  }

  function clock(s) {
    const whole = Math.round(s);
    if (Math.abs(s - whole) > 1e-6) return trimmed(s, 3) + "s";
    const [d, h, m, r] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60, whole % 60];
    if (d) return d + "d" + (h ? two(h) + "h" : "");
    if (h) return h + "h" + (m ? two(m) : "");
    if (m) return m + "m" + (r ? two(r) : "");
    return r + "s";
  }

  function short(v) {
    const size = Math.abs(v);
    if (size >= 1e6) return trimmed(v / 1e6, 6) + "M";
    if (size >= 1e4) return trimmed(v / 1e3, 6) + "k";
    return trimmed(v, 6);
  }

  const UNITS = {
    seconds: { tick: clock, full: duration },
    count: { tick: short, full: grouped },
    mib: { tick: (v) => short(v) + " MiB", full: (v) => (v >= 1024 ? figure(v / 1024) + " GiB" : figure(v) + " MiB") },
    ratio: { tick: (v) => short(v) + "×", full: (v) => v.toFixed(3) + "×" },
    ms: { tick: (v) => (v >= 1000 ? short(v / 1000) + " s" : short(v) + " ms"), full: (v) => (v >= 1000 ? duration(v / 1000) : figure(v) + " ms") },
    percent: { tick: (v) => short(v) + " %", full: (v) => figure(v) + " %" },
  };

  // ---- values of a series

  // Value at x: between two points by their straight line, or the point at or before x.
  function at(series, x, between) {
    const xs = series.x, ys = series.y;
    if (!xs.length || x < xs[0] || x > xs[xs.length - 1]) return null;
    let low = 0, high = xs.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= x) low = middle; else high = middle;
    }
    if (xs[high] <= x) return ys[high];
    if (!between || xs[high] === xs[low]) return ys[low];
    return ys[low] + (ys[high] - ys[low]) * (x - xs[low]) / (xs[high] - xs[low]);
  }

  // What is drawn: for a stack the sums from below, greatest first, so that each covers the part of those before it.
  function layers(chart) {
    const shown = chart.series.filter((s) => !s.hidden);
    if (chart.kind !== "stack") return shown.map((s) => ({ source: s, x: s.x, y: s.y }));
    let sum = null;
    return shown.map((s) => {
      sum = s.y.map((y, i) => y + (sum ? sum[i] : 0));
      return { source: s, x: s.x, y: sum };
    }).reverse();
  }

  function aligned(drawn) {
    if (drawn.length === 1) return [drawn[0].x, drawn[0].y];
    return uPlot.join(drawn.map((s) => [s.x, s.y]));
  }

  // A line where x repeats would lose points when joined: the last of equal x counts, and a jump keeps its shape.
  for (const chart of charts) {
    for (const s of chart.series) {
      for (let i = 1; i < s.x.length; i++) {
        if (s.x[i] <= s.x[i - 1]) s.x[i] = s.x[i - 1] + Math.max(1e-9, Math.abs(s.x[i - 1]) * 1e-9);
      }
    }
  }

  // ---- one chart

  function options(chart, drawn, box) {
    const unitX = UNITS[chart.x.unit], unitY = UNITS[chart.y.unit];
    const stacked = chart.kind === "stack", stepped = chart.kind === "steps";
    const axis = { stroke: color("--muted"), font: "12px system-ui, sans-serif", ticks: { show: false }, grid: { stroke: color("--grid"), width: 1 } };
    const paths = stacked ? uPlot.paths.bars({ size: [1, Infinity], align: 1, gap: 1 }) : stepped ? uPlot.paths.stepped({ align: 1 }) : uPlot.paths.linear();
    const line = (layer) => {
      const stroke = color(layer.source.css);
      const fill = stacked ? stroke : stepped ? stroke + "22" : undefined;
      const dash = layer.source.dash ? [6, 4] : undefined;
      return { stroke, fill, dash, paths, width: stacked ? 0 : 2, spanGaps: true, points: { show: false } };
    };
    const spread = (u, low, high) => {
      if (!stacked) return [low, high];
      const xs = chart.series[0].x;
      return u.data[0].length > 1 && low <= xs[0] && high >= xs[xs.length - 1] ? [xs[0], high + xs[1] - xs[0]] : [low, high];
    };
    const rows = Math.min(6, drawn.filter((layer) => layer.source.ticks.length).length); // Flushes are marked above the lines.
    const top = (u, low, high) => [0, Math.max(chart.max === null ? high : chart.max, chart.reference || 0, 1e-9) * (1.08 + rows * 0.03)];
    const power = (v) => Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-9;
    return {
      width: box.clientWidth,
      height: box.clientHeight,
      legend: { show: false },
      padding: [14, 14, 0, 0],
      cursor: { drag: { x: true, y: false, dist: 6 }, points: { show: false }, y: false },
      scales: {
        x: chart.x.log ? { time: false, distr: 3, log: 10 } : { time: false, range: spread },
        y: { range: top },
      },
      axes: [
        { ...axis, size: 30, space: 70, gap: 6, label: chart.x.label, labelSize: 22, labelGap: 0, labelFont: "12px system-ui, sans-serif",
          grid: chart.x.log ? { ...axis.grid, filter: (u, splits) => splits.map((v) => (v !== null && power(v) ? v : null)) } : axis.grid,
          incrs: chart.x.unit === "seconds" ? CLOCK : undefined,
          values: (u, splits) => splits.map((v) => (v === null || (chart.x.log && !power(v)) ? "" : unitX.tick(v))) },
        { ...axis, size: 70, space: 44, gap: 6, values: (u, splits) => splits.map((v) => (v === null ? "" : unitY.tick(v))) },
      ],
      series: [{}, ...drawn.map(line)],
      hooks: { draw: [(u) => marks(u, chart, drawn)], setCursor: [(u) => tip(u, chart, box)] },
    };
  }

  // The line of reference, the ends of the runs with their times, the flushes.
  function marks(u, chart, drawn) {
    const g = u.ctx, dpr = uPlot.pxRatio;
    const { left, top, width, height } = u.bbox;
    g.save();
    if (chart.reference !== null) {
      const y = Math.round(u.valToPos(chart.reference, "y", true)) + 0.5;
      g.strokeStyle = color("--muted");
      g.setLineDash([4 * dpr, 4 * dpr]);
      g.beginPath(); g.moveTo(left, y); g.lineTo(left + width, y); g.stroke();
      g.setLineDash([]);
    }
    let row = 0;
    const labels = [];
    for (const layer of drawn) {
      const s = layer.source, stroke = color(s.css);
      if (s.ticks.length) {
        g.fillStyle = stroke;
        const base = top + row * 9 * dpr;
        row = (row + 1) % 6;
        for (const x of s.ticks) {
          const p = u.valToPos(x, "x", true);
          if (p < left || p > left + width) continue;
          g.beginPath(); g.moveTo(p, base + 7 * dpr); g.lineTo(p - 3.5 * dpr, base); g.lineTo(p + 3.5 * dpr, base); g.fill();
        }
      }
      const last = s.x.length - 1;
      if (s.end === null || last < 0) continue;
      const x = u.valToPos(s.x[last], "x", true), y = u.valToPos(s.y[last], "y", true);
      if (x < left || x > left + width + 1) continue;
      g.fillStyle = stroke; g.strokeStyle = color("--card"); g.lineWidth = 2 * dpr;
      g.beginPath(); g.arc(x, y, 5 * dpr, 0, 7); g.fill(); g.stroke();
      if (s.end) labels.push({ x, y, text: s.end, stroke });
    }
    g.font = `600 ${12 * dpr}px system-ui, sans-serif`;
    g.textBaseline = "middle";
    g.textAlign = "left";
    g.strokeStyle = color("--card");
    g.lineWidth = 4 * dpr;
    g.lineJoin = "round";
    const placed = [];
    for (const label of labels.sort((a, b) => b.x - a.x)) {
      const wide = g.measureText(label.text).width + 4 * dpr, tall = 15 * dpr;
      const turned = label.x + 9 * dpr + wide > left + width; // No room at the right: to the left, above the line.
      const x = turned ? label.x + 4 * dpr - wide : label.x + 9 * dpr;
      let y = turned ? label.y - 15 * dpr : label.y + 2 * dpr;
      const hits = (p) => x < p.x + p.wide && p.x < x + wide && Math.abs(y - p.y) < tall;
      for (let tries = 0; tries < 40 && placed.some(hits); tries++) y += 3 * dpr;
      placed.push({ x, y, wide });
      g.fillStyle = label.stroke;
      g.strokeText(label.text, x + 2 * dpr, y);
      g.fillText(label.text, x + 2 * dpr, y);
    }
    g.restore();
  }

  function tip(u, chart, box) {
    const tip = box.querySelector(".tip");
    if (!tip) return;
    const { left, top } = u.cursor;
    if (left < 0 || top < 0) { tip.hidden = true; return; }
    const x = u.posToVal(left, "x");
    const between = chart.kind === "lines";
    const last = chart.series[0];
    const step = chart.kind === "stack" && last.x.length > 1 ? last.x[1] - last.x[0] : 0;
    const value = (s) => at(s, step ? Math.min(x, s.x[s.x.length - 1]) : x, between);
    const rows = chart.series.filter((s) => !s.hidden).map((s) => [s, value(s)]).filter(([, v]) => v !== null);
    if (!rows.length) { tip.hidden = true; return; }
    if (chart.kind === "stack") rows.reverse(); else rows.sort((a, b) => b[1] - a[1]);
    tip.replaceChildren();
    const head = tip.appendChild(document.createElement("b"));
    head.textContent = UNITS[chart.x.unit].full(x);
    for (const [s, v] of rows.slice(0, 12)) {
      const name = tip.appendChild(document.createElement("span")), figure = tip.appendChild(document.createElement("span"));
      name.className = "chip " + s.class + (s.dash ? " dash" : "");
      name.textContent = s.name;
      figure.textContent = UNITS[chart.y.unit].full(v);
    }
    tip.hidden = false;
    const over = u.over.getBoundingClientRect(), outer = box.getBoundingClientRect();
    const place = left + over.left - outer.left;
    const right = place + 16 + tip.offsetWidth > box.clientWidth;
    tip.style.left = Math.max(0, right ? place - 14 - tip.offsetWidth : place + 14) + "px";
    tip.style.top = Math.min(Math.max(0, top + over.top - outer.top - 12), Math.max(0, box.clientHeight - tip.offsetHeight - 50)) + "px";
  }

  function draw(chart) {
    const box = document.querySelector(`[data-chart="${chart.id}"] .plot`);
    if (chart.plot) chart.plot.destroy();
    chart.plot = null;
    const drawn = layers(chart);
    if (!drawn.length) return;
    chart.plot = new uPlot(options(chart, drawn, box), aligned(drawn), box);
    let tip = box.querySelector(".tip");
    if (!tip) {
      tip = box.appendChild(document.createElement("div"));
      tip.className = "tip";
      tip.hidden = true;
    }
    box.addEventListener("mouseleave", () => { tip.hidden = true; });
  }

  function legend(chart) {
    const place = document.querySelector(`[data-chart="${chart.id}"] .legend`);
    const groups = new Map();
    for (const s of chart.series) {
      if (!groups.has(s.group)) groups.set(s.group, []);
      groups.get(s.group).push(s);
    }
    const order = [...groups];
    for (const [name, members] of chart.kind === "stack" ? order.reverse() : order) {
      const button = place.appendChild(document.createElement("button"));
      button.className = "chip " + members[0].class + (members[0].dash ? " dash" : "");
      button.textContent = name;
      button.title = "show or hide";
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        const hide = !members[0].hidden;
        members.forEach((s) => { s.hidden = hide; });
        button.setAttribute("aria-pressed", String(!hide));
        draw(chart);
      });
    }
  }

  // The points as drawn, as CSV, made when asked for.
  function csv(chart) {
    const quoted = (s) => (/[",\n]/.test(s) ? '"' + s.replaceAll('"', '""') + '"' : s);
    const lines = [["series", chart.x.label, chart.y.label || "value"].map(quoted).join(",")];
    for (const s of chart.series) s.x.forEach((x, i) => lines.push(quoted(s.name) + "," + x + "," + s.y[i]));
    return lines.join("\n") + "\n";
  }

  document.querySelectorAll("button[data-csv]").forEach((button) => {
    button.addEventListener("click", () => {
      const chart = charts.find((c) => c.id === button.dataset.csv);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([csv(chart)], { type: "text/csv" }));
      link.download = chart.id + ".csv";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  });

  const live = charts.filter((c) => c.kind !== "bars");
  for (const chart of live) {
    legend(chart);
    draw(chart);
    const box = document.querySelector(`[data-chart="${chart.id}"] .plot`);
    new ResizeObserver(() => {
      if (chart.plot && box.clientWidth > 0 && box.clientWidth !== chart.plot.width) chart.plot.setSize({ width: box.clientWidth, height: box.clientHeight });
    }).observe(box);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => live.forEach(draw));
  root.dataset.charts = live.filter((c) => c.plot).length;
  tell();
})();
