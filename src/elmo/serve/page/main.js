// The page: tabs, the state in the address, and what all panels share.
import { ask, element, say } from "./dom.js";
import { asCurl, asPicture, asPython, copy, download } from "./share.js";
import * as senses from "./senses.js";
import * as neighbours from "./neighbours.js";
import * as map from "./map.js";
import * as fill from "./fill.js";
import * as tasks from "./tasks.js";

const panels = {};
for (const [name, module] of Object.entries({ senses, neighbours, map, fill, tasks })) {
  const section = document.getElementById(name);
  panels[name] = { section, tab: document.getElementById(`tab-${name}`), ran: false, ...module.create(section) };
}
let current = "senses";

function stateInAddress() {
  return `#${new URLSearchParams({ panel: current, state: JSON.stringify(panels[current].state) })}`;
}

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const name = given.get("panel");
  if (!(name in panels)) return;
  current = name;
  try {
    const state = JSON.parse(given.get("state") ?? "{}");
    for (const key of Object.keys(panels[name].state)) {
      if (typeof state[key] === typeof panels[name].state[key]) panels[name].state[key] = state[key];
    }
  } catch {
    say("The link's state could not be read; an example is shown.");
  }
}

function select(name, { focus = false } = {}) {
  current = name;
  for (const [each, panel] of Object.entries(panels)) {
    const chosen = each === name;
    panel.tab.setAttribute("aria-selected", String(chosen));
    panel.tab.tabIndex = chosen ? 0 : -1;
    panel.section.hidden = !chosen;
  }
  if (focus) panels[name].tab.focus();
  panels[name].show();
  history.replaceState(null, "", stateInAddress());
  if (!panels[name].ran) run(name);
}

async function run(name) {
  const panel = panels[name];
  const result = panel.section.querySelector(".result");
  panel.ran = true;
  panel.section.setAttribute("aria-busy", "true");
  say("Working …");
  try {
    await panel.run();
    panel.show();
    say("Done.");
  } catch (error) {
    result.replaceChildren(element("p", { class: "error", role: "alert" }, error.message));
    say("");
  }
  panel.section.removeAttribute("aria-busy");
  history.replaceState(null, "", stateInAddress());
}

const names = Object.keys(panels);
for (const [name, panel] of Object.entries(panels)) {
  panel.tab.addEventListener("click", () => select(name));
  panel.tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const place = names.indexOf(name);
    if (step) select(names[(place + step + names.length) % names.length], { focus: true });
    else if (event.key === "Home") select(names[0], { focus: true });
    else if (event.key === "End") select(names.at(-1), { focus: true });
    else return;
    event.preventDefault();
  });
  panel.section.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    run(name);
  });
  panel.section.addEventListener("rerun", () => run(name));
  panel.section.addEventListener("changed", () => history.replaceState(null, "", stateInAddress()));
  panel.section.addEventListener("change", () => history.replaceState(null, "", stateInAddress()));
}

document.getElementById("share").addEventListener("click", async (event) => {
  const panel = panels[current];
  const kind = event.target.dataset?.take;
  if (!kind) return;
  try {
    if (kind === "curl") await copy(asCurl(panel.request()), "a curl command");
    if (kind === "python") await copy(asPython(panel.request()), "a Python program");
    if (kind === "link") await copy(location.origin + location.pathname + stateInAddress(), "a link to this");
    if (kind === "json") download(`elmo-${current}.json`, new Blob([JSON.stringify(panel.result(), null, 1)], { type: "application/json" }));
    if (kind === "png") download(`elmo-${current}.png`, await asPicture(panel.section.querySelector(".result")));
  } catch (error) {
    say(error.message);
  }
});

const theme = document.getElementById("theme");
function paint() {
  if (theme.value === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
}
theme.value = localStorage.getItem("elmo-theme") ?? "auto";
theme.addEventListener("change", () => { localStorage.setItem("elmo-theme", theme.value); paint(); });
paint();

addEventListener("hashchange", () => { readAddress(); panels[current].ran = false; select(current); });

readAddress();
select(current);
ask("/info").then((info) => {
  document.getElementById("model").textContent = `Model ${info.model_id}: ${info.layers} layers of ${info.dimensions} numbers for each word.`;
}).catch(() => {});
