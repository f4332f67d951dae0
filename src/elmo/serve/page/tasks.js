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

  const request = () => ({ route: `/tasks/${state.task}`, body: { inputs: state.text } });

  async function load() {
    served = await ask("/tasks");
    form.task.replaceChildren(...served.map((task) => element("option", { value: task.name }, task.name.replaceAll("_", " "))));
    if (!served.some((task) => task.name === state.task)) state.task = served[0]?.name ?? "";
    form.hidden = !served.length;
    choose();
  }

  function choose() {
    if (!state.text) state.text = EXAMPLES[state.task] ?? "";
    panel.querySelector(".format").textContent = served.find((task) => task.name === state.task)?.input_format ?? "Text";
    show();
  }

  function show() {
    form.task.value = state.task;
    form.text.value = state.text;
  }

  async function run() {
    if (!served) await load();
    if (!served.length) {
      answer = null;
      result.replaceChildren(element("p", {}, "No task model is served here. Train one with ", element("code", {}, "elmo task train"), " and start the server with ", element("code", {}, "elmo serve --task FOLDER"), "."));
      return null;
    }
    answer = await ask(request().route, request().body);
    result.replaceChildren(...answer.map(drawOne));
    return answer;
  }

  function drawOne(record) {
    if (record.entities) return spans(record.tokens, record.entities);
    if (record.arguments) return spans(record.tokens, withPredicate(record));
    if (record.chains) return chains(record);
    if (record.probabilities) {
      const text = record.tokens ?? [...record.premise, "→", ...record.hypothesis];
      const list = Object.entries(record.probabilities).map(([name, share]) => ({ label: name, share, value: `${(100 * share).toFixed(1)}%` }));
      return element("div", {}, element("p", { class: "text" }, text.join(" ")), element("h2", {}, record.label), bars(list));
    }
    if (record.answer !== undefined) return passage(record);
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
    return element("p", { class: "text" }, draw(0, tokens.length, labelled));
  }

  function chains(record) {
    const labelled = record.chains.flatMap((chain, number) => chain.map((mention) => ({ ...mention, label: String(number + 1) })));
    return spans(record.sentences.flat(), labelled);
  }

  function passage(record) {
    // A question's id is the number of its line.
    const [question, text = ""] = (state.text.split("\n")[Number(record.id) - 1] ?? "").split("\t");
    // The service counts whole characters; JavaScript's own indices count an emoji twice.
    const characters = [...text], start = record.answer_start, end = start + [...record.answer].length;
    const cut = (from, to) => characters.slice(from, to).join("");
    return element("div", {}, element("h2", {}, question),
      element("p", { class: "text" }, cut(0, start), element("mark", {}, cut(start, end)), cut(end)));
  }

  form.text.addEventListener("input", () => { state.text = form.text.value; });
  form.task.addEventListener("change", () => {
    state.task = form.task.value;
    state.text = "";
    choose();
  });
  return { state, run, request, show, result: () => answer };
}
