// Tasks: what the task models that were given to the server see in a text.
import { ask, bars, element } from "./dom.js";

const EXAMPLES = {
  named_entities: "Angela Merkel was born in Hamburg and worked in Berlin.",
  semantic_roles: "The committee gave the prize to a young author.",
  sentiment: "A warm, funny and surprisingly honest film.",
  entailment: "Two dogs run across a field.\tAnimals are outside.",
  question_answering: "Who sat on the bank?\tAn old man sat on the bank of the river and watched the boats.",
  coreference: "Anna called her brother .\nHe told her that he was late .",
};

export function create(panel) {
  const form = panel.querySelector("form");
  const result = panel.querySelector(".result");
  const state = { task: "", text: "" };
  let served = null;
  let answer = null;

  const request = () => ({ route: `/tasks/${encodeURIComponent(state.task)}`, body: { inputs: state.text } });

  async function load(signal) {
    served = await ask("/tasks", undefined, signal);
    form.task.replaceChildren(...served.map((task) => element("option", { value: task.name }, task.name.replaceAll("_", " "))));
    form.hidden = !served.length;
  }

  /** An example goes with its task; a text of the user's stays. */
  function choose(task) {
    state.task = task;
    if (!state.text.trim() || Object.values(EXAMPLES).includes(state.text)) state.text = EXAMPLES[task] ?? "";
    show();
  }

  function show() {
    form.task.value = state.task;
    form.text.value = state.text;
    panel.querySelector(".format").textContent = served?.find((task) => task.name === state.task)?.input_format ?? "Text";
  }

  async function run(signal) {
    answer = null;
    const first = !served;
    if (first) await load(signal);
    // A link may name any task.
    if (!served.some((task) => task.name === state.task)) choose(served[0]?.name ?? "");
    else if (first && !state.text) choose(state.task);
    if (!served.length) {
      result.replaceChildren(element("p", {}, "No task model is served here. Train one with ", element("code", {}, "elmo task train"), " and start the server with ", element("code", {}, "elmo serve --task FOLDER"), "."));
      return;
    }
    const { route, body } = request();
    answer = await ask(route, body, signal);
    result.replaceChildren(...answer.map((record) => drawOne(record, body.inputs)));
  }

  function drawOne(record, inputs) {
    if (record.entities) return spans(record.tokens, record.entities);
    if (record.arguments) return spans(record.tokens, withPredicate(record));
    if (record.chains) return chains(record);
    if (record.probabilities) {
      const text = record.tokens ?? [...record.premise, "→", ...record.hypothesis];
      const list = Object.entries(record.probabilities).map(([name, share]) => ({ label: name, share, value: `${(100 * share).toFixed(1)}%` }));
      return element("div", {}, element("p", { class: "text", dir: "auto" }, text.join(" ")), element("h2", {}, record.label), bars(list));
    }
    if (record.answer !== undefined) return passage(record, inputs);
    return element("pre", {}, JSON.stringify(record, null, 2));
  }

  /** The predicate is mostly among its arguments, as V. */
  function withPredicate({ predicate, arguments: roles }) {
    const marked = roles.some((role) => role.label === "V");
    return marked ? roles : [...roles, { start: predicate, end: predicate + 1, label: "V" }];
  }

  /** Spans are half open: tokens start to end - 1. One may lie inside another; the mentions of chains do. */
  function spans(tokens, labelled) {
    const kinds = [...new Set(labelled.map((span) => span.label))];
    const draw = (from, to, left) => {
      const parts = [];
      for (let place = from; place < to;) {
        const [span] = left.filter((each) => each.start === place && each.end <= to).sort((one, other) => other.end - one.end);
        if (parts.length) parts.push(" ");
        if (span) {
          const mark = element("span", { class: "span" }, draw(place, span.end, left.filter((each) => each !== span)), element("small", {}, span.label));
          mark.style.borderColor = `var(--c${(kinds.indexOf(span.label) % 8) + 1})`;
          parts.push(mark);
        } else parts.push(tokens[place]);
        place = span ? span.end : place + 1;
      }
      return parts;
    };
    return element("p", { class: "text", dir: "auto" }, draw(0, tokens.length, labelled));
  }

  function chains(record) {
    const labelled = record.chains.flatMap((chain, number) => chain.map((mention) => ({ ...mention, label: String(number + 1) })));
    return spans(record.sentences.flat(), labelled);
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
  return { state, run, request, show, result: () => answer };
}
