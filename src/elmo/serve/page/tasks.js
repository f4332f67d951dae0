// Tasks: the predictions of the task models that the server was given.
import { ask, bars, element } from "./dom.js";

/** What to type; the data files are the user's own. */
const STEPS = [
  ["Put your data into a folder, a folder for each task that you have data for", `data/named_entities/train.conll     data/named_entities/dev.conll
data/sentiment/train.txt            data/sentiment/dev.txt
data/semantic_roles/train.conll     data/semantic_roles/dev.conll`],
  ["Train a model for each: minutes on two cores", "elmo task train-all data -o tasks"],
  ["Start the service with them", "elmo serve --task tasks"],
];

function howToGetOne() {
  return [
    element("p", {}, "No task model is loaded. Train them on your own files: entities (who and where), sentiment (how it feels), roles (who did what to whom), and three others."),
    element("ol", {}, STEPS.map(([title, text]) => element("li", {}, title, element("pre", { tabindex: 0, role: "region", "aria-label": title }, text)))),
    element("p", { class: "note" }, "The file formats are in docs/tasks.md."),
  ];
}

export function create(panel) {
  const form = panel.querySelector("form");
  const result = panel.querySelector(".result");
  const state = { task: "", text: "" };
  let served = null;
  let answer = null;
  let asked = ""; // the text of the answer; that of the state may be newer

  const chosen = () => served?.find((task) => task.name === state.task);
  const request = () => ({ route: `/tasks/${encodeURIComponent(state.task)}`, body: { inputs: state.text } });

  async function load(signal) {
    served = await ask("/tasks", undefined, signal);
    form.task.replaceChildren(...served.map((task) => element("option", { value: task.name }, task.name.replaceAll("_", " "))));
    form.hidden = !served.length;
  }

  /** A task's example replaces another's; the user's own text stays. */
  function choose(task) {
    state.task = task;
    if (!state.text.trim() || served.some((each) => each.example === state.text)) state.text = chosen()?.example ?? "";
    show();
  }

  function show() {
    form.task.value = state.task;
    form.text.value = state.text;
    panel.querySelector(".format").textContent = chosen()?.input_format ?? "Text";
  }

  async function run(signal) {
    answer = null;
    const first = !served;
    if (first) await load(signal);
    // A link may name any task.
    if (!served.some((task) => task.name === state.task)) choose(served[0]?.name ?? "");
    else if (first && !state.text) choose(state.task);
    if (!served.length) {
      result.replaceChildren(...howToGetOne());
      return;
    }
    const { route, body } = request(), { drawing } = chosen();
    answer = await ask(route, body, signal);
    asked = body.inputs;
    result.replaceChildren(...answer.map((record) => draw(record, drawing, body.inputs)));
  }

  /** The task says how its predictions are drawn, and which keys of a record hold what. */
  function draw(record, { kind, field, text, focus }, inputs) {
    const value = record[field];
    const tokens = text.flatMap((key, number) => [...(number ? ["→"] : []), ...record[key].flat()]);
    if (kind === "tags") return spans(tokens, value.map((label, place) => ({ start: place, end: place + 1, label })));
    if (kind === "spans") return spans(tokens, focus ? withFocus(value, record[focus]) : value);
    if (kind === "clusters") {
      return spans(tokens, value.flatMap((cluster, number) => cluster.map((mention) => ({ ...mention, label: String(number + 1) }))));
    }
    if (kind === "label") {
      const list = Object.entries(value).map(([name, share]) => ({ label: name, share, value: `${(100 * share).toFixed(1)}%` }));
      return element("div", {}, element("p", { class: "text", dir: "auto" }, tokens.join(" ")), element("h2", {}, record.label), bars(list));
    }
    return passage(record, inputs);
  }

  /** A predicate is usually among its arguments, as V; it is marked if it is not. */
  function withFocus(labelled, place) {
    const marked = labelled.some((span) => span.label === "V");
    return marked ? labelled : [...labelled, { start: place, end: place + 1, label: "V" }];
  }

  /** Spans are half open: tokens start to end - 1. One may be inside another, as mentions are. */
  function spans(tokens, labelled) {
    const kinds = [...new Set(labelled.map((span) => span.label))];
    const nest = (from, to, left) => {
      const parts = [];
      for (let place = from; place < to;) {
        const [span] = left.filter((each) => each.start === place && each.end <= to).sort((one, other) => other.end - one.end);
        if (parts.length) parts.push(" ");
        if (span) {
          const mark = element("span", { class: "span" }, nest(place, span.end, left.filter((each) => each !== span)), element("small", {}, span.label));
          mark.style.borderColor = `var(--c${(kinds.indexOf(span.label) % 8) + 1})`;
          parts.push(mark);
        } else parts.push(tokens[place]);
        place = span ? span.end : place + 1;
      }
      return parts;
    };
    return element("p", { class: "text", dir: "auto" }, nest(0, tokens.length, labelled));
  }

  function passage(record, inputs) {
    // A question's id is the number of its line.
    const [question, text = ""] = (inputs.split("\n")[Number(record.id) - 1] ?? "").split("\t");
    // The service counts whole characters; JavaScript's own indices count an emoji twice.
    const characters = [...text], start = record.answer_start, end = start + [...record.answer].length;
    const cut = (from, to) => characters.slice(from, to).join("");
    return element("div", {}, element("h2", { dir: "auto" }, question),
      element("p", { class: "text", dir: "auto" }, cut(0, start), element("mark", {}, cut(start, end)), cut(end)));
  }

  form.text.addEventListener("input", () => { state.text = form.text.value; });
  form.task.addEventListener("change", () => {
    answer = null;
    choose(form.task.value);
    panel.dispatchEvent(new Event("clear"));
  });
  const caption = () => `${state.task.replaceAll("_", " ")}: ${asked}`;
  return { state, run, request, caption, show, models: (first) => first, result: () => answer };
}
