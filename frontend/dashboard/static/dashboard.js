// Draws /dashboard/data: tiles with the newest numbers, and a chart for each
// group of columns. No library: an SVG path a line.
"use strict";

// spanOf is what a chart covers, in ms: up to 15 minutes, less while the server
// is young.
const spanOf = data => {
  const age = data.now * 1000 - (data.times[0] || 0);
  return [2, 5, 10, 15].map(m => m * 60000).find(s => s >= age) || 15 * 60000;
};

const seconds = v => v < 0.0995 ? short(v * 1000) + " ms" : v < 99.5 ? short(v) + " s" : short(v / 60) + " min";
const percent = v => short(v * 100) + " %";
const perSecond = v => short(v) + "/s";

// short writes three digits, thousands as k and M.
function short(v) {
  const a = Math.abs(v);
  if (a >= 999500) return digits(v / 1e6) + "M";
  if (a >= 9995) return digits(v / 1e3) + "k";
  return digits(v);
}

function digits(v) {
  const a = Math.abs(v);
  if (a >= 99.95) return String(Math.round(v));
  if (a >= 9.995) return String(+v.toFixed(1));
  return String(+v.toFixed(a >= 0.0995 ? 2 : 3));
}

const tiles = [
  ["running", "requests running", short],
  ["queued", "requests queued", short],
  ["generated_tokens", "generated tokens", perSecond],
  ["ttft_p95", "TTFT, p95", seconds],
  ["itl_p95", "ITL, p95", seconds],
  ["kv_usage", "KV cache in use", percent],
  ["load", "load in tokens", short],
  ["preemptions", "preemptions", perSecond],
];

const charts = [
  {title: "Requests by stage", note: "from the frontend's own table", unit: short, columns: [
    ["running", "running"], ["queued", "queued"], ["sent", "sent"], ["tokenizing", "tokenizing"]]},
  {title: "Tokens per second", note: "prompts, cached ones included, and generated", unit: perSecond, columns: [
    ["generated_tokens", "generated"], ["prompt_tokens", "prompt"]]},
  {title: "Time to first token", note: "from the HTTP request's arrival, queueing included", unit: seconds, columns: [
    ["ttft_p50", "p50"], ["ttft_p95", "p95"], ["ttft_p99", "p99"]]},
  {title: "Inter-token latency", note: "between two outputs of a request", unit: seconds, columns: [
    ["itl_p50", "p50"], ["itl_p95", "p95"], ["itl_p99", "p99"]]},
  {title: "KV cache in use", note: "of the blocks; kept ones count as free", unit: percent, most: 1, byEngine: "kv_usage"},
  {title: "Tokens held and queued", note: "they sum to the load, what to scale on", unit: short, columns: [
    ["tokens_running", "in the KV cache"], ["tokens_pending", "running, to compute"], ["tokens_waiting", "waiting, to compute"]]},
  {title: "Preemptions", note: "requests put back for want of KV cache", unit: perSecond, columns: [["preemptions", "preemptions"]]},
  {title: "Step time", note: "one turn of the engine, from plan to result", unit: seconds, columns: [
    ["step_p50", "p50"], ["step_p99", "p99"]]},
  {title: "Steps and finished requests", note: "per second", unit: perSecond, columns: [
    ["steps", "steps"], ["finished", "finished requests"]]},
];

let data = null;
const byId = id => document.getElementById(id);

function element(name, attributes = {}, text = "") {
  const svg = ["svg", "path", "line", "text", "circle", "g"].includes(name);
  const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  if (text) e.textContent = text;
  return e;
}

// columnOf is a series' numbers; load is the sum of what it is made of.
function columnOf(series, name) {
  if (name !== "load") return series.columns[name];
  const parts = ["tokens_running", "tokens_pending", "tokens_waiting"].map(n => series.columns[n]);
  return parts[0].map((v, i) => parts.some(p => p[i] === null) ? null : parts.reduce((sum, p) => sum + p[i], 0));
}

const last = values => values.length ? values[values.length - 1] : null;

function chosen() {
  const name = byId("engine").value || "all";
  return data.series.find(s => s.engine === name) || data.series[0];
}

// lines are what a chart shows of the chosen engine: columns, or one column of
// each engine.
function lines(chart) {
  if (!chart.byEngine) return chart.columns.map(([column, name]) => ({name, values: columnOf(chosen(), column)}));
  const one = chosen().engine;
  return data.series.filter(s => one === "all" ? s.engine !== "all" : s.engine === one)
    .map(s => ({name: "engine " + s.engine, values: columnOf(s, chart.byEngine)}));
}

function showTiles() {
  const box = byId("tiles");
  box.replaceChildren();
  for (const [column, name, unit] of tiles) {
    const v = last(columnOf(chosen(), column));
    const tile = element("div", {class: "tile"});
    tile.append(element("b", {}, v === null ? "–" : unit(v)), element("span", {}, name));
    box.append(tile);
  }
}

// niceMax is the next of 1, 2, 2.5, 5 times a power of ten.
function niceMax(v) {
  if (!(v > 0)) return 1;
  const power = Math.pow(10, Math.floor(Math.log10(v)));
  return [1, 2, 2.5, 5, 10].find(f => f * power >= v * 0.9999) * power;
}

const clock = ms => new Date(ms).toLocaleTimeString([], {hour: "2-digit", minute: "2-digit"});

// runs are the indices of known values since begin, cut where one is unknown.
function runs(values, begin) {
  const found = [[]];
  values.forEach((v, j) => {
    if (data.times[j] < begin) return;
    if (v === null) found.push([]);
    else found[found.length - 1].push(j);
  });
  return found.filter(run => run.length);
}

function draw(chart) {
  const width = chart.svg.clientWidth || 400, height = 150, left = 52, right = 8, top = 8, bottom = 18;
  const span = spanOf(data), end = data.now * 1000, begin = end - span;
  const shown = lines(chart);
  let most = 0;
  for (const l of shown) for (const v of l.values) if (v !== null && v > most) most = v;
  most = chart.most || niceMax(most);
  const x = t => left + (t - begin) / span * (width - left - right);
  const y = v => height - bottom - Math.min(v / most, 1) * (height - top - bottom);
  chart.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  chart.svg.replaceChildren();
  for (const part of [0, 0.5, 1]) {
    const at = y(part * most);
    chart.svg.append(element("line", {class: "grid", x1: left, x2: width - right, y1: at, y2: at}));
    chart.svg.append(element("text", {x: left - 6, y: at + 4, "text-anchor": "end"}, chart.unit(part * most)));
  }
  for (const [part, anchor] of [[0, "start"], [0.5, "middle"], [1, "end"]]) {
    const t = begin + part * span;
    chart.svg.append(element("text", {x: x(t), y: height - 4, "text-anchor": anchor}, clock(t)));
  }
  shown.forEach((l, i) => {
    const g = element("g", {class: "s" + i % 6});
    for (const run of runs(l.values, begin)) { // between gaps
      const d = "M" + run.map(j => x(data.times[j]).toFixed(1) + " " + y(l.values[j]).toFixed(1)).join("L");
      const first = x(data.times[run[0]]).toFixed(1), end = x(data.times[run[run.length - 1]]).toFixed(1);
      if (shown.length === 1) g.append(element("path", {class: "area", d: `${d}L${end} ${y(0)}L${first} ${y(0)}Z`}));
      if (run.length > 1) g.append(element("path", {d}));
      else g.append(element("circle", {cx: first, cy: y(l.values[run[0]]), r: 2.5}));
    }
    chart.svg.append(g);
  });
  chart.at = px => { // the point nearest to a place on the screen
    const t = begin + (px - left) / (width - left - right) * span;
    let best = -1;
    data.times.forEach((s, j) => { if (best < 0 || Math.abs(s - t) < Math.abs(data.times[best] - t)) best = j; });
    return best;
  };
  chart.x = x;
  legend(chart, data.times.length - 1);
}

// legend says the values at a point in time, the newest if none is asked for.
function legend(chart, at, pointed = false) {
  chart.legend.replaceChildren();
  lines(chart).forEach((l, i) => {
    const v = at >= 0 ? l.values[at] : null;
    const item = element("span", {class: "s" + i % 6});
    item.append(element("i"), l.name + " ", element("b", {}, v === null || v === undefined ? "–" : chart.unit(v)));
    chart.legend.append(item);
  });
  if (pointed && at >= 0) chart.legend.append(element("span", {class: "s5"}, clock(data.times[at])));
}

function point(chart, event) {
  if (!data || !data.times.length) return;
  const box = chart.svg.getBoundingClientRect();
  const at = chart.at(event.clientX - box.left);
  chart.svg.querySelector(".cursor")?.remove();
  const x = chart.x(data.times[at]);
  chart.svg.append(element("line", {class: "cursor", x1: x, x2: x, y1: 8, y2: 132}));
  legend(chart, at, true);
}

function build() {
  for (const chart of charts) {
    const box = element("article", {class: "chart"});
    chart.svg = element("svg", {role: "img", "aria-label": chart.title});
    chart.legend = element("div", {class: "legend"});
    box.append(element("h2", {}, chart.title), element("p", {}, chart.note), chart.svg, chart.legend);
    chart.svg.addEventListener("pointermove", e => point(chart, e));
    chart.svg.addEventListener("pointerdown", e => point(chart, e));
    chart.svg.addEventListener("pointerleave", () => {
      chart.svg.querySelector(".cursor")?.remove();
      if (data && data.series.length) legend(chart, data.times.length - 1);
    });
    byId("charts").append(box);
  }
  byId("engine").addEventListener("change", show);
  addEventListener("resize", show);
}

function state(text, kind) {
  byId("state").textContent = text;
  byId("state").className = kind;
}

function show() {
  if (!data) return;
  if (!data.series.length) {
    state(data.model ? "the first numbers come in a few seconds" : "no numbers yet; none come with --disable-log-stats", "");
    return;
  }
  byId("model").textContent = data.model || "no statistics";
  document.title = (data.model || "govllm") + " · govllm";
  byId("interval").textContent = data.interval;
  const names = data.series.map(s => s.engine).filter(n => n !== "all");
  const select = byId("engine");
  if (select.options.length !== names.length + 1) {
    const before = select.value;
    select.replaceChildren(...["all", ...names].map(n => element("option", {value: n}, n)));
    if (names.includes(before)) select.value = before;
  }
  byId("pick").hidden = names.length < 2;
  const stuck = data.series.filter(s => s.engine !== "all" && last(s.columns.stalled) > 0).map(s => s.engine);
  if (stuck.length) state("stalled: engine " + stuck.join(", "), "bad");
  else if (!data.model) state("no statistics: the server runs with --disable-log-stats", "");
  else if (data.now * 1000 - last(data.times) > 4000 * data.interval) state("the numbers are old", "bad");
  else state("live", "good");
  showTiles();
  charts.forEach(draw);
}

// poll asks again a little after the next sample.
async function poll() {
  let wait = 2000;
  try {
    const answer = await fetch("dashboard/data", {cache: "no-store", signal: AbortSignal.timeout(10000)});
    if (!answer.ok) throw new Error("the server answers " + answer.status);
    data = await answer.json();
    show();
    document.body.dataset.ready = String(data.times.length);
    const age = data.now * 1000 - (last(data.times) || 0);
    wait = Math.min(Math.max(data.interval * 1000 - age, 0) + 300, data.interval * 1000);
  } catch (e) {
    state(e.name === "TypeError" || e.name === "TimeoutError" ? "the server does not answer" : e.message, "bad");
  }
  setTimeout(poll, wait);
}

build();
poll();
