"""The live page's script. All that comes from files becomes text nodes, never markup."""

SCRIPT = r"""
"use strict";
const EVERY = 2000, HIDDEN = 15000, ORDER = {running: 0, stopped: 1, finished: 2};
const runs = new Map();        // name -> {data, card, open}
let version = 0, began = 0, clock = 0;  // began: when the server did; clock: its time less ours, in seconds
const $ = id => document.getElementById(id);

function node(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
}
function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
function duration(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${(seconds / 86400).toFixed(1)} days`;
}
function bytes(count) {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (count < 1000) return `${unit === "B" ? count : count.toFixed(1)} ${unit}`;
    count /= 1000;
  }
  return `${count.toFixed(1)} TB`;
}
const shown = value => value === null ? "–" : Math.abs(value) >= 1000 || (value && Math.abs(value) < 0.001)
  ? value.toExponential(2) : value.toFixed(4);

function curve(values, width, height, label) {
  const known = values.filter(value => value !== null);
  const drawn = svg("svg", {viewBox: `-3 -3 ${width + 6} ${height + 6}`, role: "img", "aria-label": label});
  drawn.append(svg("line", {x1: 0, y1: height, x2: width, y2: height}));
  if (!known.length) return drawn;
  const low = Math.min(...known), high = Math.max(...known), last = Math.max(values.length - 1, 1);
  const place = (value, index) => [
    index / last * width, high > low ? height - (value - low) / (high - low) * height : height / 2];
  let piece = [];
  const end = () => {
    if (piece.length > 1) drawn.append(svg("polyline", {points: piece.map(at => at.join(",")).join(" ")}));
    else if (piece.length) drawn.append(svg("circle", {cx: piece[0][0], cy: piece[0][1], r: 2.5}));
    piece = [];
  };
  values.forEach((value, index) => value === null ? end() : piece.push(place(value, index)));
  end();
  return drawn;
}

function timing(data) {
  if (data.state === "running" && data.seconds_left !== null) {
    const since = Math.max(Date.now() / 1000 + clock - data.modified, 0), round = data.round_seconds;
    const slow = since > 3 * round + 10 ? `; this round for ${duration(since)}` : "";
    return `about ${duration(Math.max(data.seconds_left - Math.min(since, round), 0))} left${slow}`;
  }
  return data.seconds ? `${duration(data.seconds)} in rounds` : "";
}

function fill(run) {
  const {data, card} = run;
  card.className = `${data.state}${run.open ? " open" : ""}`;
  const labels = Object.entries(data.labels).filter(([, value]) => value !== "").map(label => label.join(" "));
  const facts = node("dl", "");
  const fact = (name, value) => facts.append(node("dt", "", name), node("dd", "", value));
  if (data.clients !== null) fact("clients in the last round", String(data.clients));
  if (data.rounds_with_left_out) fact("rounds with clients left out", String(data.rounds_with_left_out));
  if (data.left_out) fact("left out of the last", data.left_out);
  fact("to clients, from clients", `${bytes(data.bytes_down)}, ${bytes(data.bytes_up)}`);
  if (data.peak_memory_mb) fact("memory at most", `${Math.round(data.peak_memory_mb)} MB`);
  if (data.epsilon !== null) fact("privacy spent, epsilon", data.epsilon.toFixed(2));
  const bar = node("progress", "");
  bar.max = data.of || Math.max(data.done, 1);
  bar.value = data.done;
  bar.setAttribute("aria-label", "rounds done");
  run.time = node("span", "", timing(data));
  const button = node("button", "", run.open ? "Close" : "All curves");
  button.type = "button";
  button.setAttribute("aria-expanded", String(run.open));
  button.addEventListener("click", () => { run.open = !run.open; fill(run); if (run.open) details(run); });
  run.curves ??= node("div", "curves");
  run.curves.hidden = !run.open;
  const focused = card.contains(document.activeElement);
  card.replaceChildren(
    node("div", "head", node("h2", "", data.name), node("span", "state", data.state)),
    node("p", "labels", [data.place, ...labels].filter(Boolean).join(" · ")),
    ...data.problems.map(text => node("p", "problem", text)),
    bar,
    node("div", "row", node("span", "", `${data.done} of ${data.of ?? "?"} rounds`), run.time),
    node("div", "row", node("span", "", data.headline || "no round yet"),
      node("span", "", data.headline ? shown(data.last) : "")),
    ...(data.headline ? [curve(data.curve, 300, 44, data.headline)] : []), facts,
    ...(data.headline ? [button, run.curves] : []));
  if (focused) button.focus();
}

async function details(run) {
  const answer = await fetch(`run.json?run=${run.name}`).catch(() => null);
  if (!answer || !answer.ok || !run.open) return;
  const {rounds, metrics} = await answer.json();
  run.curves.replaceChildren(...Object.entries(metrics).map(([name, values]) => {
    const known = values.filter(value => value !== null);
    return node("figure", "",
      node("figcaption", "", `${name}: ${shown(values[values.length - 1])}`),
      curve(values, 300, 90, name),
      node("div", "ends", node("span", "", `round ${rounds[0]}`),
        node("span", "", `from ${shown(Math.min(...known))} to ${shown(Math.max(...known))}`),
        node("span", "", `${rounds[rounds.length - 1]}`)));
  }));
}

function arrange() {
  const wanted = $("state").value, words = $("words").value.toLowerCase().split(/\s+/).filter(Boolean);
  const sorted = [...runs.values()].sort((one, other) =>
    ORDER[one.data.state] - ORDER[other.data.state] || other.data.modified - one.data.modified);
  let before = null;
  for (const run of sorted) {
    const text = [run.data.name, run.data.place, ...Object.values(run.data.labels)].join(" ").toLowerCase();
    run.card.hidden = (wanted && run.data.state !== wanted) || !words.every(word => text.includes(word));
    const next = before ? before.nextSibling : $("runs").firstChild;
    if (next !== run.card) $("runs").insertBefore(run.card, next);
    before = run.card;
  }
}

function tell(folder) {
  const count = {running: 0, stopped: 0, finished: 0};
  for (const run of runs.values()) count[run.data.state] += 1;
  const text = runs.size ? Object.entries(count).map(([state, number]) => `${number} ${state}`).join(", ")
    : "no runs here yet; this page shows them as they come";
  if ($("folder").textContent !== folder) $("folder").textContent = folder;
  if ($("told").textContent !== text) $("told").textContent = text;
  $("told").className = "told";
}

function take(answer) {
  clock = answer.now - Date.now() / 1000;
  if (began !== answer.began) {  // the first answer, or another server, whose versions are others
    runs.clear();
    $("runs").replaceChildren();
    began = answer.began;
    if (version) { version = 0; return; }
  }
  if (answer.names) {
    const there = new Set(answer.names);
    for (const [name, run] of runs) if (!there.has(name)) { run.card.remove(); runs.delete(name); }
  }
  const changed = Object.entries(answer.runs);
  for (const [name, data] of changed) {
    const run = runs.get(name) || {name, card: node("article", ""), open: false};
    runs.set(name, run);
    run.data = data;
    fill(run);
    if (run.open) details(run);
  }
  version = answer.version;
  if (changed.length || answer.names) arrange();
  for (const run of runs.values()) if (run.data.state === "running") {
    const text = timing(run.data);
    if (run.time.textContent !== text) run.time.textContent = text;
  }
  tell(answer.folder);
}

async function ask() {
  try {
    const answer = await fetch(`runs.json?since=${version}`);
    if (!answer.ok) throw new Error(answer.status);
    take(await answer.json());
  } catch (error) {
    $("told").textContent = "no answer: is `tffapps watch` still running? Trying again.";
    $("told").className = "told away";
    version = 0;
  }
  setTimeout(ask, document.hidden ? HIDDEN : EVERY);
}
$("state").addEventListener("change", arrange);
$("words").addEventListener("input", arrange);
$("filter").addEventListener("submit", event => event.preventDefault());
ask();
"""
