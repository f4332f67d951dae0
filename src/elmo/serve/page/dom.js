// Building and asking: the few lines that every panel needs.

/** element("td", {title: "x", class: "y", onclick: f}, "text", child) */
export function element(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "circle", "rect", "polygon"].includes(tag);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child != null));
  return made;
}

export function key() {
  return document.getElementById("key")?.value.trim();
}

/** What the service answers, or an Error with its message; one that is not ready is asked again. */
export async function ask(route, body, signal) {
  const headers = { "Content-Type": "application/json" };
  if (/[^\x00-\xff]/.test(key())) throw new Error("The API key holds a character that cannot be sent; check the key.");
  if (key()) headers.Authorization = `Bearer ${key()}`;
  const options = body === undefined ? { headers, signal } : { method: "POST", headers, signal, body: JSON.stringify(body) };
  for (;;) {
    const answer = await fetch(route, options).catch(() => { throw new Error("The server does not answer."); });
    // A proxy's answer may be HTML.
    const value = await answer.json().catch(() => null);
    signal?.throwIfAborted();
    if (answer.ok && value) return value;
    const problem = value?.error || value?.message || `The server answered ${answer.status}.`;
    const seconds = answer.status === 503 && Number(answer.headers.get("Retry-After"));
    if (!seconds) throw Object.assign(new Error(problem), { status: answer.status });
    say(problem);
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
  }
}

let info = null;

/** What the service says of itself, asked once. */
export async function serviceInfo(signal) {
  info ??= await ask("/info", undefined, signal);
  return info;
}

export function say(text) {
  document.getElementById("status").textContent = text;
}

/** Little-endian float32 in base64. */
export function floats(base64) {
  const raw = atob(base64);
  const bytes = Uint8Array.from(raw, (character) => character.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

/** A list with bars: items are {label: node or text, share: 0..1, value: text}. */
export function bars(items) {
  const list = element("ol", { class: "bars" });
  for (const { label, share, value } of items) {
    const item = element("li", {}, element("span", { dir: "auto" }, label), element("span", { class: "value" }, value));
    item.style.backgroundImage = "linear-gradient(rgb(var(--heat) / .2), rgb(var(--heat) / .2))";
    item.style.backgroundSize = `${Math.max(0, Math.min(1, share)) * 100}% 100%`;
    list.append(item);
  }
  return list;
}

/** A sentence with one word marked. */
export function marked(tokens, position) {
  const parts = [];
  tokens.forEach((token, place) => parts.push(place === position ? element("mark", {}, token) : token, " "));
  return parts;
}

/** Examples as buttons: each is a name and the parts of the state that it sets. */
export function gallery(panel, state, examples) {
  const pressed = (example) => Object.entries(example).every(([key, value]) => key === "name" || state[key] === value);
  panel.querySelector(".gallery").replaceChildren(...examples.map((example) => element("button", {
    type: "button",
    "aria-pressed": String(pressed(example)),
    onclick: (event) => {
      const { name: _, ...parts } = example;
      Object.assign(state, parts);
      for (const each of event.target.parentNode.children) each.setAttribute("aria-pressed", String(each === event.target));
      panel.dispatchEvent(new Event("rerun"));
    },
  }, example.name)));
}
