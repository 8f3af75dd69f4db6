// Charts as SVG: a sparkline, and lines above the events of a key with one time axis.

import { number, moment, elem, svg } from "./text.js";

const DAY = 86400e3;

export function sparkline(place, times, values) {
  const points = values.map((value, at) => [times[at], value]).filter(([, value]) => value !== null);
  if (points.length < 2) {
    place.replaceChildren(elem("p", {}, elem("span", {}, "collecting samples")));
    return;
  }
  const [from, to] = [points[0][0], points.at(-1)[0]];
  const least = Math.min(...points.map((each) => each[1]));
  const most = Math.max(...points.map((each) => each[1]));
  const x = (time) => ((time - from) / (to - from || 1)) * 200;
  const y = (value) => (most === least ? 24 : 44 - ((value - least) / (most - least)) * 40);
  const path = points.map(([time, value], at) => `${at ? "L" : "M"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`);
  place.replaceChildren(
    svg("svg", { viewBox: "0 0 200 48", preserveAspectRatio: "none", role: "img",
      "aria-label": `from ${number(points[0][1])} to ${number(points.at(-1)[1])}, between ${number(least)} and ${number(most)}` },
      svg("path", { class: "area", d: `${path.join("")}L200 48L0 48Z` }),
      svg("path", { class: "stroke", d: path.join("") })),
    elem("p", {}, elem("span", {}, `${span(to - from)} ago`), elem("span", {}, "now")));
}

function span(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return `${Math.round(seconds / 60)} min`;
}

// Round steps for an axis of numbers.
function ticks(least, most, wanted) {
  const rough = (most - least) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const found = [];
  for (let at = Math.ceil(least / step) * step; at <= most + step * 1e-9; at += step) found.push(at);
  return found;
}

const STEPS = [1e3, 5e3, 15e3, 60e3, 300e3, 900e3, 1800e3, 3600e3, 3 * 3600e3, 6 * 3600e3, 12 * 3600e3, DAY, 2 * DAY, 7 * DAY, 30 * DAY, 91 * DAY, 365 * DAY];

function timeTicks(from, to, wanted) {
  const step = STEPS.find((each) => (to - from) / each <= wanted) ?? STEPS.at(-1);
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return [found, step];
}

function range(values) {
  const known = values.filter((each) => Number.isFinite(each));
  if (!known.length) return [0, 1];
  let [least, most] = [Math.min(...known), Math.max(...known)];
  if (least > 0 && least < most / 2) least = 0;
  if (least === most) [least, most] = [least - Math.abs(least || 1) / 2, most + Math.abs(most || 1) / 2];
  const room = (most - least) * 0.06;
  return [least === 0 ? 0 : least - room, most + room];
}

// series: {name, values}, one value for each of `times` (ms); events: {times, values, name}.
export function draw(place, { times, series, events, label }, readout) {
  const width = Math.max(300, place.clientWidth || 800);
  const left = 54, right = 8, upper = width < 500 ? 170 : 220, lower = events.times.length ? 110 : 0;
  const gap = lower ? 26 : 0, height = upper + gap + lower + 22;
  const [from, to] = [times[0], times.at(-1)];
  const x = (time) => left + ((time - from) / (to - from || 1)) * (width - left - right);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: "0",
    "aria-label": `${label} over time; arrow keys move along it` });
  const panel = (values, top, bottom, title) => {
    const [least, most] = range(values);
    const y = (value) => bottom - ((value - least) / (most - least)) * (bottom - top);
    for (const tick of ticks(least, most, (bottom - top) / 45)) {
      root.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }),
        svg("text", { x: left - 7, y: y(tick) + 4, "text-anchor": "end" }, number(tick, 4)));
    }
    root.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: bottom, y2: bottom }),
      svg("text", { x: left, y: top - 5 }, title));
    return y;
  };
  const y = panel(series.flatMap((each) => each.values), 18, upper, label);
  // Two windows may have the same results: the later line lets the earlier one show through.
  series.forEach(({ values, from: surely }, at) => {
    for (const partial of [true, false]) {
      const shows = (place) => (partial ? place === 0 || times[place - 1] < surely : times[place] >= surely);
      let path = "", pen = "M";
      values.forEach((value, place) => {
        if (!Number.isFinite(value) || !shows(place)) pen = "M";
        else { path += `${pen}${x(times[place]).toFixed(1)} ${y(value).toFixed(1)}`; pen = "L"; }
      });
      if (path) root.append(svg("path", { class: `line s${at % 5}${partial ? " partial" : ""}`, d: path }));
    }
  });
  if (lower) {
    const seen = events.times.map((time, at) => [time, events.values[at]]).filter(([time]) => time >= from && time <= to);
    const yLower = panel(seen.map((each) => each[1]), upper + gap, upper + gap + lower, `events: ${events.name}`);
    for (const [time, value] of seen) {
      if (Number.isFinite(value)) root.append(svg("circle", { class: "event", r: 2.3, cx: x(time).toFixed(1), cy: yLower(value).toFixed(1) }));
    }
  }
  const [at, step] = timeTicks(from, to, width / 110);
  for (const time of at) {
    if (x(time) < left + 20 || x(time) > width - right - 24) continue;
    root.append(svg("line", { class: "axis", x1: x(time), x2: x(time), y1: upper + gap + lower, y2: upper + gap + lower + 4 }),
      svg("text", { x: x(time), y: height - 3, "text-anchor": "middle" }, moment(time, step)));
  }
  const cross = svg("g", {});
  root.append(cross);
  let shown = times.length - 1;
  const show = (index, visible) => {
    shown = Math.max(0, Math.min(times.length - 1, index));
    cross.replaceChildren();
    if (visible) {
      cross.append(svg("line", { class: "cross", x1: x(times[shown]), x2: x(times[shown]), y1: 18, y2: upper + gap + lower }));
      series.forEach(({ values }, at) => {
        if (Number.isFinite(values[shown])) cross.append(svg("circle", { class: `mark s${at % 5}`, r: 4.5, cx: x(times[shown]), cy: y(values[shown]) }));
      });
    }
    readout.replaceChildren(elem("span", {}, new Date(times[shown]).toISOString().slice(0, 19).replace("T", " ")),
      ...series.map(({ name, values }, at) => elem("span", {}, elem("span", { class: `swatch s${at % 5}` }), `${name} ${number(values[shown])}`)),
      ...(series.some((each) => times[0] < each.from) ? [elem("span", { class: "small" }, "thin line: earlier events may have left the window")] : []));
  };
  const nearest = (event) => {
    const box = root.getBoundingClientRect();
    const time = from + (((event.clientX - box.left) / box.width) * width - left) / (width - left - right) * (to - from);
    return Math.round(((time - from) / (to - from || 1)) * (times.length - 1));
  };
  root.addEventListener("pointermove", (event) => show(nearest(event), true));
  root.addEventListener("pointerleave", () => show(times.length - 1, false));
  root.addEventListener("focus", () => show(shown, true));
  root.addEventListener("blur", () => show(times.length - 1, false));
  root.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    show(shown + by, true);
  });
  const focused = place.contains(document.activeElement);
  place.replaceChildren(root);
  show(shown, false);
  if (focused) root.focus();
}
