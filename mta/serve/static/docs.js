// The API, from its OpenAPI document: each operation, its parameters, a call of it, and its answers.

import { ask, remember } from "./api.js";
import { elem } from "./text.js";

const $ = (id) => document.getElementById(id);

async function load() {
  try {
    show(await ask("/openapi.json"));
  } catch (problem) {
    if (problem.status === 401) $("login").showModal();
    else $("operations").replaceChildren(elem("p", { class: "problem" }, problem.message));
  }
}

function show({ info, paths, security }) {
  document.title = `API of ${info.title}`;
  $("name").textContent = `API of ${info.title}`;
  $("about").textContent = info.description;
  $("operations").replaceChildren(...Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => section(path, method, operation, security && operation.security?.length !== 0))));
}

function section(path, method, { summary, parameters, requestBody, responses }, secured) {
  const body = requestBody?.content["application/json"].schema;
  const fields = Object.entries(body?.properties ?? {}).map(([name, schema]) =>
    ({ name, in: "body", required: body.required.includes(name), description: schema.description, schema }));
  return elem("section", { class: "panel" },
    elem("h2", {}, elem("span", { class: "method" }, method.toUpperCase()), " ", elem("code", {}, path)),
    elem("p", {}, summary, "."),
    ...(parameters.length + fields.length ? [elem("div", { class: "scroll" }, table(["parameter", "in", "type", ""],
      [...parameters, ...fields].map((each) => [each.name + (each.required ? " *" : ""), each.in, kind(each.schema), each.description ?? each.schema.description ?? ""])))] : []),
    elem("pre", { tabindex: "0" }, elem("code", {}, call(path, method, parameters, body, secured))),
    elem("details", {}, elem("summary", {}, "Answers"), elem("div", { class: "scroll" },
      table(["status", "content", ""], Object.entries(responses).map(([status, { description, content }]) =>
        [status, Object.keys(content).join(", "), description])))));
}

function kind({ type, anyOf, enum: values, items, minimum, maximum, minItems, maxItems }) {
  const text = values ? values.join(" or ") : anyOf ? anyOf.map(kind).join(", or ")
    : type === "array" ? `array of ${kind(items ?? {}) || "any"}` : [type ?? ""].flat().join(" or ");
  const range = maximum ?? maxItems;
  return range === undefined ? text : `${text}, ${minimum ?? minItems} to ${range.toLocaleString("en")}`;
}

function call(path, method, parameters, body, secured) {
  const key = parameters.find((each) => each.in === "path")?.example ?? "";
  const lines = [`curl ${location.origin}${path.replace("{key}", key)}`];
  if (secured) lines.push("-H \"Authorization: Bearer $MTA_SERVE_TOKEN\"");
  if (method === "post") {
    const example = body.properties.keys ? { keys: [sample(body.properties.keys.items)] } : { at: ["now"] };
    lines.push("-H 'Content-Type: application/json'", `-d '${JSON.stringify(example)}'`);
  }
  return lines.join(" \\\n  ");
}

function sample({ type, prefixItems }) {
  if (prefixItems) return prefixItems.map(sample);
  if (type === "array") return ["north", 7];
  return [type].flat()[0] === "integer" ? 7 : [type].flat()[0] === "number" ? 1.5 : "meter-7";
}

function table(head, rows) {
  return elem("table", {}, elem("thead", {}, elem("tr", {}, ...head.map((each) => elem("th", { scope: "col" }, each)))),
    elem("tbody", {}, ...rows.map((row) => elem("tr", {}, ...row.map((each) => elem("td", {}, each))))));
}

$("login-form").addEventListener("submit", () => {
  remember($("token").value.trim());
  $("token").value = "";
  load();
});
load();
