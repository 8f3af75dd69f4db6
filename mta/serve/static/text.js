// Elements, and numbers and times as text.

function fill(element, attributes, content) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...content);
  return element;
}

export const elem = (tag, attributes, ...content) => fill(document.createElement(tag), attributes, content);
export const svg = (tag, attributes, ...content) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, content);

export function number(value, digits = 6) {
  if (value === null || value === undefined) return "\u2013";
  if (typeof value !== "number") return typeof value === "string" ? value : JSON.stringify(value);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  if (size >= 1e15 || size < 1e-4) return value.toPrecision(digits);
  return value.toLocaleString("en", { maximumSignificantDigits: digits });
}

// A count in few characters: 20,000,000 as 20 M.
export function brief(value) {
  if (value === null || value === undefined) return "\u2013";
  if (value < 1e6) return value.toLocaleString("en");
  return new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 }).format(value);
}

// An age: 4 s, 3 min, 5 h, 2 d.
export function age(seconds) {
  if (seconds < 100) return `${Math.max(0, seconds).toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 6000) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

// A time of an axis, as fine as its step (ms).
export function moment(time, step) {
  const text = new Date(time).toISOString();
  if (step >= 86400e3) return text.slice(5, 10);
  if (new Date(time).getTime() % 86400e3 === 0) return text.slice(5, 10);
  return step >= 60e3 ? text.slice(11, 16) : text.slice(11, 19);
}
