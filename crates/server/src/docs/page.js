"use strict";
// Shows `openapi.json`, and sends requests to the server that has served the page.

const element = (name, properties = {}, ...children) => {
  const created = Object.assign(document.createElement(name), properties);
  created.append(...children);
  return created;
};

const resolve = (api, schema) => {
  const name = schema?.$ref?.split("/").pop();
  return name ? api.components.schemas[name] : schema ?? {};
};

// Returns the type of a schema, with the permitted values.
const typeOf = (api, unresolved) => {
  const schema = resolve(api, unresolved);
  const choices = (schema.oneOf ?? schema.anyOf ?? []).filter((choice) => choice.type !== "null");
  if (choices.length) return choices.map((choice) => typeOf(api, choice)).join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(", ");
  const types = [schema.type ?? "any"].flat().filter((type) => type !== "null").join(" or ");
  return schema.items ? `${types} of ${typeOf(api, schema.items)}` : types;
};

// Returns an example for a schema: its required members, and those without a default.
const example = (api, unresolved, depth = 0) => {
  const schema = resolve(api, unresolved);
  const choices = schema.oneOf ?? schema.anyOf ?? schema.allOf;
  if (schema.enum) return schema.enum[0];
  if (choices) return example(api, choices.find((choice) => choice.type !== "null") ?? choices[0], depth);
  const types = [schema.type].flat();
  if (depth > 4) return null;
  if (types.includes("object")) {
    const required = schema.required ?? [];
    const members = Object.entries(schema.properties ?? {}).filter(([name]) => required.includes(name));
    return Object.fromEntries(members.map(([name, member]) => [name, example(api, member, depth + 1)]));
  }
  if (types.includes("array")) return [example(api, schema.items, depth + 1)];
  if (types.includes("integer") || types.includes("number")) return 0;
  if (types.includes("boolean")) return false;
  return "text";
};

const send = async (operation, form, output) => {
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(form.elements[`path:${name}`].value));
  const query = new URLSearchParams();
  const headers = {};
  const token = document.getElementById("token").value;
  if (token) headers.Authorization = `Bearer ${token}`;
  for (const { name, in: place } of operation.parameters ?? []) {
    const value = form.elements[`${place}:${name}`].value;
    if (value && place === "query") query.set(name, value);
    if (value && place === "header") headers[name] = value;
  }
  const body = form.elements.body?.value;
  if (body) headers["Content-Type"] = "application/json";
  output.hidden = false;
  output.textContent = "…";
  try {
    const url = `${path.slice(1)}${query.size ? `?${query}` : ""}`;
    const response = await fetch(url, { method: operation.method.toUpperCase(), headers, body: body || undefined });
    output.textContent = `${response.status} ${response.statusText}\n\n`;
    const isJson = response.headers.get("content-type")?.includes("application/json");
    if (isJson) {
      output.textContent += JSON.stringify(await response.json(), null, 2);
      return;
    }
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    for (let part; reader && !(part = await reader.read()).done; ) output.textContent += part.value;
  } catch (error) {
    output.textContent += `the request failed: ${error.message}`;
  }
};

const show = (api, operation) => {
  const form = element("form");
  for (const parameter of operation.parameters ?? []) {
    const name = `${parameter.in}:${parameter.name}`;
    const input = element("input", { name, required: parameter.required ?? false });
    form.append(element("label", {}, `${parameter.name} (${parameter.in}, ${typeOf(api, parameter.schema)}): ${parameter.description ?? ""}`, input));
  }
  const schema = operation.requestBody?.content?.["application/json"]?.schema;
  if (schema) {
    const value = JSON.stringify(example(api, schema), null, 2);
    form.append(element("label", {}, "Body", element("textarea", { name: "body", value })));
    const body = resolve(api, schema.oneOf?.find((it) => it.$ref) ?? schema);
    const described = (member) => [member, resolve(api, member), resolve(api, member.oneOf?.find((it) => it.$ref))]
      .find((it) => it?.description)?.description ?? "";
    form.append(element("table", {}, ...Object.entries(body.properties ?? {}).map(([name, member]) =>
      element("tr", {}, element("th", {}, name), element("td", {}, element("code", {}, typeOf(api, member)),
        body.required?.includes(name) ? " (required)" : "", ` ${described(member)}`)))));
  }
  const output = element("pre", { hidden: true });
  form.append(element("button", {}, "Send"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(operation, form, output);
  });
  const title = element("summary", {},
    element("span", { className: "method" }, operation.method), element("code", {}, operation.path), ` ${operation.summary ?? ""}`);
  const description = operation.description ? [element("p", {}, operation.description)] : [];
  return element("details", {}, title, ...description, form, output);
};

const load = async () => {
  const api = await (await fetch("openapi.json")).json();
  document.getElementById("token-field").hidden = !api.security;
  const operations = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, ...operation })));
  const groups = (api.tags ?? []).map(({ name, description }) => element("section", {},
    element("h2", {}, name), element("p", {}, description ?? ""),
    ...operations.filter((it) => it.tags?.includes(name)).map((it) => show(api, it))));
  document.getElementById("operations").replaceChildren(...groups);
};

load().catch((error) => { document.getElementById("operations").textContent = `openapi.json cannot be read: ${error.message}`; });
