// The OpenAPI document for people; no foreign scripts, so that it works offline.
import { ask, element } from "./dom.js";
import { paint, remembered } from "./theme.js";

paint(remembered());

function resolve(schema) {
  return schema?.$ref ? api.components.schemas[schema.$ref.split("/").at(-1)] : schema;
}

function kind(schema) {
  if (!schema) return "";
  if (schema.$ref) return kind(resolve(schema));
  if (schema.properties) return `{${fields(schema).replaceAll("\n", ", ")}}`;
  if (schema.anyOf) return schema.anyOf.map(kind).join(" | ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.type === "array") return `[${kind(schema.items)}]`;
  return schema.type ?? "any";
}

function fields(schema) {
  const required = schema.required ?? [];
  return Object.entries(schema.properties ?? {}).map(([name, field]) => {
    const preset = field.default === undefined || field.default === null ? "" : ` = ${JSON.stringify(field.default)}`;
    return `${name}${required.includes(name) ? "" : "?"}: ${kind(field)}${preset}`;
  }).join("\n");
}

const main = document.getElementById("routes");
const api = await ask("/openapi.json").catch((error) => {
  main.replaceChildren(element("p", { class: "error", role: "alert" }, error.message));
});
if (api) main.replaceChildren(...Object.entries(api.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, route]) => {
  const given = route.requestBody?.content?.["application/json"]?.schema;
  const bodies = (given?.anyOf ?? (given ? [given] : [])).map(resolve);
  const errors = Object.entries(route.responses).filter(([status]) => Number(status) >= 400);
  return element("section", {}, element("h2", {}, element("code", { class: "method" }, method.toUpperCase()), " ", element("code", {}, path)),
    element("p", {}, route.description ?? ""),
    bodies.map((body) => element("pre", { tabindex: 0 }, fields(body))),
    errors.length ? element("details", {}, element("summary", {}, "Errors"), element("ul", {}, errors.map(([status, error]) => element("li", {}, `${status}: ${error.description}`)))) : null);
})));
