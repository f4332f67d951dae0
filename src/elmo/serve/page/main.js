// The page: tabs, the state in the address, and what all panels share.
import { element, say, serviceInfo } from "./dom.js";
import { asCurl, asPicture, asPython, copy, download } from "./share.js";
import { paint, remember, remembered } from "./theme.js";
import * as senses from "./senses.js";
import * as neighbours from "./neighbours.js";
import * as map from "./map.js";
import * as fill from "./fill.js";
import * as tasks from "./tasks.js";

const panels = {};
for (const [name, module] of Object.entries({ senses, neighbours, map, fill, tasks })) {
  const section = document.getElementById(name);
  const panel = module.create(section);
  const tab = document.getElementById(`tab-${name}`);
  panels[name] = { section, tab, ran: false, work: new AbortController(), presets: { ...panel.state }, ...panel };
}
let current = "senses";
let model = "unknown", both = "unknown";

/** Back returns to the panel or question before; what only changes the view stays in one entry. */
function address({ back = false } = {}) {
  if (back && location.hash !== stateInAddress()) history.pushState(null, "", stateInAddress());
  else history.replaceState(null, "", stateInAddress());
}

function stateInAddress() {
  return `#${new URLSearchParams({ panel: current, state: JSON.stringify(panels[current].state) })}`;
}

/** Whether a link's value is of its preset's kind: numbers are whole and not below 0 or the preset, but for gamma. */
function fits(key, value, preset) {
  if (Array.isArray(preset)) return Array.isArray(value) && value.every(Number.isFinite);
  if (key === "gamma") return Number.isFinite(value);
  if (typeof preset === "number") return Number.isInteger(value) && value >= Math.min(preset, 0);
  return typeof value === typeof preset;
}

let notice = ""; // shown when the next run is done

/** Whether the address names a panel, which is current then. */
function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const name = given.get("panel");
  if (!Object.hasOwn(panels, name)) return false;
  current = name;
  try {
    const state = JSON.parse(given.get("state") ?? "{}");
    for (const [key, preset] of Object.entries(panels[name].presets)) {
      if (fits(key, state[key], preset)) panels[name].state[key] = state[key];
    }
  } catch {
    Object.assign(panels[name].state, panels[name].presets);
    notice = "The link's state could not be read; an example is shown.";
  }
  return true;
}

function select(name, { focus = false, back = false } = {}) {
  current = name;
  for (const [each, panel] of Object.entries(panels)) {
    const chosen = each === name;
    panel.tab.setAttribute("aria-selected", String(chosen));
    panel.tab.tabIndex = chosen ? 0 : -1;
    panel.section.hidden = !chosen;
  }
  if (focus) panels[name].tab.focus();
  panels[name].show();
  address({ back });
  if (!panels[name].ran) run(name);
}

/** A new question of the user's. */
function rerun(name) {
  address({ back: true });
  run(name);
}

/** Give up a panel's last run: its late answer may not stand over what is newer. */
function stop(panel) {
  panel.work.abort();
  panel.work = new AbortController();
  panel.section.removeAttribute("aria-busy");
}

/** The key's field is under Settings; focus is its mark. */
function pointToKey() {
  document.querySelector(".settings").open = true;
  const field = document.getElementById("key");
  field.placeholder = "needed here";
  field.focus();
}

async function run(name) {
  const panel = panels[name];
  stop(panel);
  const { signal } = panel.work;
  const told = notice;
  notice = "";
  panel.ran = true;
  panel.section.setAttribute("aria-busy", "true");
  say("Working …");
  try {
    await panel.run(signal);
    panel.show();
    say(told || "Done.");
  } catch (error) {
    if (signal.aborted) return;
    panel.section.querySelector(".result").replaceChildren(element("p", { class: "error", role: "alert" }, error.message));
    say(told);
    if (error.status === 401) pointToKey();
  }
  panel.section.removeAttribute("aria-busy");
  address();
}

const names = Object.keys(panels);
for (const [name, panel] of Object.entries(panels)) {
  panel.tab.addEventListener("click", () => select(name, { back: true }));
  panel.tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const place = names.indexOf(name);
    if (step) select(names[(place + step + names.length) % names.length], { focus: true, back: true });
    else if (event.key === "Home") select(names[0], { focus: true, back: true });
    else if (event.key === "End") select(names.at(-1), { focus: true, back: true });
    else return;
    event.preventDefault();
  });
  panel.section.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    rerun(name);
  });
  panel.section.addEventListener("rerun", () => rerun(name));
  panel.section.addEventListener("clear", () => {
    stop(panel);
    panel.section.querySelector(".result").replaceChildren();
    say("");
  });
  panel.section.addEventListener("changed", () => address());
  panel.section.addEventListener("change", (event) => {
    // What was typed is a question of its own, once it is asked.
    if (!event.target.matches("textarea, input:not([type=range])")) address();
  });
}

document.getElementById("share").addEventListener("click", async (event) => {
  const panel = panels[current];
  const kind = event.target.dataset?.take;
  if (!kind) return;
  try {
    if (["json", "png"].includes(kind) && !panel.result()) throw new Error("There is no answer to save.");
    if (kind === "curl") await copy(asCurl(panel.request()), "a curl command");
    if (kind === "python") await copy(asPython(panel.request()), "a Python program");
    if (kind === "link") await copy(location.origin + location.pathname + stateInAddress(), "a link to this");
    if (kind === "json") download(`elmo-${current}.json`, new Blob([JSON.stringify(panel.result(), null, 1)], { type: "application/json" }));
    if (kind === "png") download(`elmo-${current}.png`, await asPicture(panel.section.querySelector(".result"), panel.caption(), `Model ${panel.models?.(model) ?? both}, drawn by elmo ${current}`));
  } catch (error) {
    say(error.message);
  }
});

const theme = document.getElementById("theme");
theme.value = remembered();
theme.addEventListener("change", () => { remember(theme.value); paint(theme.value); });
paint(theme.value);

function describeModel() {
  serviceInfo().then((info) => {
    model = info.model_id;
    both = info.compare ? `${model} and ${info.compare}` : model;
    document.getElementById("model").textContent = `Model ${info.model_id}: ${info.layers} layers of ${info.dimensions} numbers for each word.${info.compare ? ` Beside it: ${info.compare}.` : ""}`;
  }).catch(() => {});
}

document.getElementById("settings").addEventListener("submit", (event) => event.preventDefault());
document.getElementById("key").addEventListener("change", () => {
  describeModel();
  for (const panel of Object.values(panels)) panel.ran = false;
  select(current);
});

// The link's own way, to #panels, would take the state out of the address.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  panels[current].section.focus();
});

addEventListener("hashchange", () => {
  if (!readAddress()) return;
  panels[current].ran = false;
  select(current);
});

readAddress();
select(current);
describeModel();
