// The page: the status of the service, and one key with its aggregates and events over time.

import { ask, remember } from "./api.js";
import { draw, sparkline } from "./chart.js";
import { age, brief, elem, number } from "./text.js";

const STATUS_MS = 2000, KEY_MS = 5000, MOMENTS = 160, SAMPLES = 720, EVENTS = 2000;
const SPANS = { "1 h": 3600e3, "6 h": 6 * 3600e3, "24 h": 24 * 3600e3, "7 d": 7 * 86400e3, "all": null };
const $ = (id) => document.getElementById(id);
const state = { status: null, history: null, parts: null, at: "", choice: null, span: "all", paused: false, drawn: null };

// --- status ---------------------------------------------------------------------------------------

async function refreshStatus() {
  try {
    const status = await ask("/v1/status");
    const isFirst = state.status === null;
    state.status = status;
    if (isFirst) {
      state.history = await ask("/v1/history");
      buildSearch();
      readHash();
      if (!status.key_columns.length && !state.parts) find();
    }
    remembered(status);
    showStatus();
    if (status.takes_events) showLimits(await ask("/v1/limits"));
  } catch (problem) {
    if (problem.status === 401) return login();
    pulse("down", problem.status ? problem.message : "no answer");
  }
}

function remembered(status) {
  const history = state.history, now = Date.now() / 1000;
  if (now - (history.at.at(-1) ?? 0) < STATUS_MS / 2000) return;
  history.at.push(now);
  for (const name of ["batch", "lag_seconds", "keys", "events"]) history[name].push(status[name]);
  if (history.at.length > 2 * SAMPLES) for (const column of Object.values(history)) column.shift();
}

function showStatus() {
  const { status, history } = state;
  document.title = status.name;
  $("name").textContent = status.name;
  $("tile-keys").textContent = brief(status.keys);
  $("tile-keys").title = number(status.keys);
  $("tile-events").textContent = brief(status.events);
  $("tile-events").title = number(status.events);
  $("tile-age").textContent = age(status.lag_seconds);
  $("tile-batch").textContent = number(status.batch);
  $("tile-committed").textContent = `committed ${clock(status.committed_at)}`;
  $("frames").replaceChildren(...status.windows.flatMap(({ name, frame }) =>
    [elem("dt", {}, name || "window"), elem("dd", {}, frame)]));
  for (const name of ["keys", "events", "lag_seconds"]) sparkline($(`spark-${name}`), history.at, history[name]);
  $("incomplete").hidden = !status.incomplete.length;
  $("incomplete-list").replaceChildren(...status.incomplete.map(({ window, aggregation, ...until }) =>
    elem("li", {}, elem("strong", {}, [aggregation, window && `window ${window}`].filter(Boolean).join(", ") || "all results"), `: ${whenComplete(until)}`)));
  showPulse();
  $("updated").textContent = new Date().toISOString().slice(11, 19);
}

// The limits, and the newest refused events, as the process knows them that answers.
function showLimits({ limits, recent, accepted, shards, owners, waiting, problems }) {
  $("limits").hidden = false;
  const row = (kind, cells) => elem("tr", {}, ...cells.map((cell) => elem(kind, {}, cell)));
  const rows = (names, lines) => [
    elem("thead", {}, row("th", names)), elem("tbody", {}, ...lines.map((line) => row("td", line))),
  ];
  $("limits-table").replaceChildren(...rows(
    ["Limit", "Aggregate", "At most", "Refused here"],
    limits.map((each) => [each.name, each.aggregate, number(each.at_most), number(each.refused)]),
  ));
  const owned = owners.filter(Boolean).length;
  $("limits-facts").textContent = [
    `${number(accepted)} events accepted here`, `${owned} of ${shards} shards owned`,
    `${number(waiting)} events wait`, ...problems,
  ].join(", ");
  $("refused").hidden = !recent.length;
  $("refused-count").textContent = `the newest ${recent.length} here`;
  $("refused-table").replaceChildren(...rows(
    ["Time", "Key", "Limit", "Value", "Fits at"],
    recent.map((each) => [clock(each.time), String(each.key), each.limit, number(each.value),
      each.fits_at ? clock(each.fits_at) : "\u2013"]),
  ));
}

function showPulse() {
  const { lag_seconds: lag, store_answers: answers } = state.status;
  if (!answers) pulse("down", `the store does not answer, last batch ${age(lag)} ago`);
  else if (lag > 30 && lag > 3 * widestGap()) pulse("late", `no new batch for ${age(lag)}`);
  else pulse("live", `committed ${age(lag)} ago`);
}

function whenComplete({ complete_from: from, complete_after_events: events, complete_after_both: both }) {
  const ways = [];
  if (from) ways.push(`from ${clock(from)} on`);
  if (events !== null) ways.push(`after ${number(events)} new events of a key`);
  if (both) ways.push(`from ${clock(both[0])} on and after ${number(both[1])} new events of a key`);
  return ways.length ? `complete ${ways.join(", or ")}` : "complete at no known time";
}

const clock = (text) => text.slice(0, 19).replace("T", " ");

// The longest that the job took from one batch to the next, in seconds, as far as was seen.
function widestGap() {
  const { at, batch } = state.history;
  let widest = 0, last = null;
  at.forEach((time, index) => {
    if (index && batch[index] !== batch[index - 1]) {
      if (last !== null) widest = Math.max(widest, time - last);
      last = time;
    }
  });
  return widest || 100;
}

function pulse(kind, text) {
  $("pulse").className = `pulse ${state.paused ? "waiting" : kind}`;
  $("pulse-text").textContent = state.paused ? `paused, ${text}` : text;
}

// --- search ---------------------------------------------------------------------------------------

function buildSearch() {
  const fields = state.status.key_columns.map(({ name, type }, at) =>
    elem("label", { class: "field", for: `part-${at}` }, elem("span", {}, name, " ", elem("small", {}, type)),
      elem("input", { id: `part-${at}`, name, spellcheck: "false", placeholder: at ? "" : "a key" })));
  $("key-fields").replaceChildren(...fields);
}

function find(event) {
  event?.preventDefault();
  const parts = state.status.key_columns.map((_, at) => $(`part-${at}`).value);
  const query = new URLSearchParams();
  parts.forEach((part) => query.append("key", part));
  if ($("at").value.trim()) query.set("at", $("at").value.trim());
  const hash = `#${query || "all"}`;
  if (location.hash === hash) readHash();
  else location.hash = hash;
}

function readHash() {
  const query = new URLSearchParams(location.hash.slice(1));
  const parts = query.getAll("key");
  if (!state.status || parts.length !== state.status.key_columns.length) return;
  parts.forEach((part, at) => { $(`part-${at}`).value = part; });
  $("at").value = query.get("at") ?? "";
  Object.assign(state, { parts, at: $("at").value });
  refreshKey();
}

// --- one key --------------------------------------------------------------------------------------

// The parts of a tuple of any types are written with commas between, in one field.
const path = (kind) => `/v1/${kind}${state.parts.length ? "/" : ""}${state.parts.map(state.status.key_columns[0]?.type === "tuple"
  ? (part) => part.split(",").map((each) => encodeURIComponent(each.trim())).join(",") : encodeURIComponent).join(",")}`;

// A key for the body of a query; numbers as text, as long ones are not exact here.
const inJson = (key) => (["tuple", ""].includes(state.status.key_columns[0]?.type) ? key : state.parts.length === 1 ? state.parts[0] : state.parts);

async function refreshKey() {
  const { parts, at } = state;
  try {
    const found = await ask(`${path("windows")}?partial=true${at ? `&at=${encodeURIComponent(at)}` : ""}`);
    const events = await ask(`${path("events")}?limit=${EVENTS}`);
    if (parts !== state.parts) return;
    $("problem").hidden = true;
    $("hint").hidden = true;
    $("key").hidden = false;
    $("key-title").textContent = parts.join(", ") || state.status.name;
    const when = !at ? "as of its newest event" : at === "now" ? "as of now" : `as of ${at}`;
    const count = Math.max(0, ...Object.values(events.columns).map((each) => each.length), events.times?.length ?? 0);
    $("key-facts").textContent = count ? `${when}; ${count < EVENTS ? "" : "more than "}${number(count)} events are retained` : "no events: the key is not known, or its windows are empty";
    showValues(found.values);
    showEvents(events, count);
    showChoices(found.values);
    await showChart(inJson(found.key), events);
  } catch (problem) {
    if (parts !== state.parts) return;
    if (problem.status === 401) return login();
    if (problem.status < 500) $("key").hidden = true;
    $("hint").hidden = true;
    $("problem").hidden = false;
    $("problem").textContent = problem.status ? problem.message : "The service does not answer.";
  }
}

// Results are named aggregation_window where there are several windows, else aggregation.
function split(column) {
  const window = state.status.windows.map((each) => each.name)
    .filter((name) => name && column.endsWith(`_${name}`)).sort((a, b) => b.length - a.length)[0] ?? "";
  return window ? [column.slice(0, -window.length - 1), window] : [column, ""];
}

function table(values) {
  const cells = new Map(), windows = [];
  for (const [column, value] of Object.entries(values)) {
    const [aggregation, window] = state.status.columns.includes(column) ? split(column) : [column, ""];
    if (!windows.includes(window)) windows.push(window);
    if (!cells.has(aggregation)) cells.set(aggregation, new Map());
    cells.get(aggregation).set(window, value);
  }
  return [cells, windows];
}

function showValues(values) {
  const [cells, windows] = table(values);
  const head = windows.length === 1 && !windows[0] ? ["aggregate", "value"] : ["aggregate", ...windows];
  $("values").replaceChildren(
    elem("thead", {}, elem("tr", {}, ...head.map((name) => elem("th", { scope: "col" }, name)))),
    elem("tbody", {}, ...[...cells].map(([aggregation, row]) =>
      elem("tr", {}, elem("th", { scope: "row" }, aggregation), ...windows.map((window) => {
        const value = row.get(window);
        return elem("td", value === null || value === undefined ? { class: "empty" } : {}, number(value));
      })))));
}

function showEvents({ times, columns }, count) {
  const names = Object.keys(columns), shown = Math.min(200, count);
  $("events-count").textContent = shown < count ? `the newest ${shown}` : number(count);
  const rows = [];
  for (let back = 1; back <= shown; back += 1) {
    rows.push(elem("tr", {}, ...(times ? [elem("td", {}, times.at(-back).replace("T", " ").replace("Z", ""))] : []),
      ...names.map((name) => elem("td", {}, number(columns[name].at(-back))))));
  }
  $("events-table").replaceChildren(
    elem("thead", {}, elem("tr", {}, ...[...(times ? ["time"] : []), ...names].map((name) => elem("th", { scope: "col" }, name)))),
    elem("tbody", {}, ...rows));
}

function segments(place, names, chosen, choose) {
  const known = [...place.querySelectorAll("button")];
  if (known.map((each) => each.textContent).join() === names.join()) {
    known.forEach((each) => each.setAttribute("aria-pressed", each.textContent === chosen));
    return;
  }
  known.forEach((each) => each.remove());
  for (const name of names) {
    const button = elem("button", { type: "button", "aria-pressed": name === chosen }, name);
    button.addEventListener("click", () => { choose(name); refreshKey(); });
    place.append(button);
  }
}

function showChoices(values) {
  const [cells] = table(values);
  const names = [...cells].filter(([, row]) => [...row.values()].every((each) => each === null || typeof each === "number")).map(([name]) => name);
  if (!names.includes(state.choice)) [state.choice] = names;
  segments($("choices"), names, state.choice, (name) => { state.choice = name; });
  segments($("spans"), Object.keys(SPANS), state.span, (name) => { state.span = name; });
}

function drawNothing(why) {
  state.drawn = null;
  $("chart").replaceChildren(elem("p", { class: "hint" }, why));
  $("readout").replaceChildren();
}

async function showChart(key, events) {
  const times = (events.times ?? []).map((time) => Date.parse(time));
  if (!state.choice || !times.length) {
    return drawNothing(times.length ? "No aggregate is a number." : "There are no events with times to draw.");
  }
  const newest = times.at(-1), end = state.at === "now" ? Math.max(Date.now(), newest) : state.at ? moments(state.at) : newest;
  if (![times[0], newest, end].every(Number.isFinite)) return drawNothing("These times are beyond the years 0 to 9999.");
  const start = Math.min(Math.max(times[0], SPANS[state.span] ? end - SPANS[state.span] : -Infinity), end - 1000);
  const at = Array.from({ length: MOMENTS }, (_, index) => start + ((end - start) * index) / (MOMENTS - 1));
  const query = { at: at.map((each) => new Date(each).toISOString()), partial: true };
  // The last moment is that of the table, to the microsecond, which a Date does not have.
  if (state.at !== "now") query.at[MOMENTS - 1] = state.at || events.times.at(-1);
  if (state.parts.length) query.keys = at.map(() => key);
  const { columns } = await ask("/v1/query", query);
  const series = Object.keys(columns).map((column) => [column, ...split(column)])
    .filter(([, aggregation]) => aggregation === state.choice)
    .map(([column, aggregation, window]) => ({ name: window || aggregation, values: columns[column], from: surelyFrom(window, times) }));
  const [name, values] = Object.entries(events.columns).find(([, each]) => each.some((value) => typeof value === "number")) ?? ["", []];
  state.drawn = { times: at, series, events: { times: values.length ? times : [], values, name }, label: state.choice };
  draw($("chart"), state.drawn, $("readout"));
}

// From when on a window surely holds all its events: earlier ones may have left.
function surelyFrom(window, times) {
  const { seconds, events } = state.status.windows.find(({ name }) => name === window) ?? {};
  if (seconds) return Math.min(times[0] + seconds * 1000, times.at(-1));
  if (events) return times[Math.min(events, times.length) - 1];
  return times.at(-1);
}

const moments = (text) => (/^-?\d+(\.\d+)?$/.test(text) ? Number(text) * 1000 : Date.parse(/Z|[+-]\d\d:?\d\d$/.test(text) ? text : `${text}Z`));

// --- token, pause and the clock -------------------------------------------------------------------

function login() {
  pulse("down", "a token is needed");
  if (!$("login").open) $("login").showModal();
}

$("login-form").addEventListener("submit", () => {
  remember($("token").value.trim());
  $("token").value = "";
  refreshStatus().then(() => state.parts && refreshKey());
});
$("search").addEventListener("submit", find);
$("pause").addEventListener("click", () => {
  state.paused = !state.paused;
  $("pause").setAttribute("aria-pressed", state.paused);
  $("pause").textContent = state.paused ? "Resume" : "Pause";
  if (state.status) showStatus();
});
window.addEventListener("hashchange", readHash);
let width = 0;
new ResizeObserver(() => {
  if (state.drawn && $("chart").clientWidth !== width) draw($("chart"), state.drawn, $("readout"));
  width = $("chart").clientWidth;
}).observe($("chart"));

function every(ms, call) {
  const next = async () => {
    if (!state.paused && document.visibilityState === "visible" && !$("login").open) await call();
    setTimeout(next, ms);
  };
  setTimeout(next, ms);
}

refreshStatus();
every(STATUS_MS, refreshStatus);
every(KEY_MS, async () => { if (state.parts && ["", "now"].includes(state.at)) await refreshKey(); });
