// Neighbours: table 4 of the paper, live.
import { ask, bars, chooseWord, element, marked, named, offerModels } from "./dom.js";

export function create(panel) {
  const form = panel.querySelector("form");
  const result = panel.querySelector(".result");
  const state = { text: "The otter climbed up the bank of the stream.", position: 5, number: 8, model: "" };
  let answer = null;

  const request = () => ({ route: "/neighbours", body: { inputs: state.text, position: state.position, number: state.number, ...named(state.model) } });

  async function run(signal) {
    answer = null;
    await offerModels(form, state, signal);
    const inputs = state.text;
    await chooseWord(panel, state, signal);
    answer = await ask(request().route, { ...request().body, inputs }, signal);
    const found = answer.neighbours.map((each) => ({
      label: marked(each.tokens, each.position), share: each.similarity, value: each.similarity.toFixed(3),
    }));
    const fixed = answer.static?.map((each) => ({ label: each.word, share: each.similarity, value: each.similarity.toFixed(3) }));
    result.replaceChildren(element("div", { class: "columns wide" },
      element("div", {}, element("h2", {}, "In this sentence"), bars(found)),
      element("div", {}, element("h2", {}, "Without a sentence"),
        fixed ? bars(fixed) : element("p", { class: "note" }, "The corpus does not hold this word."))),
    element("p", { class: "note" }, `Among ${answer.index.num_occurrences.toLocaleString("en")} words in ${answer.index.num_sentences.toLocaleString("en")} sentences; layer: ${answer.index.layers}; without a sentence: ${answer.index.static}.`,
      answer.building ? ` The index is not complete yet (${answer.building}): ask again for better neighbours.` : ""));
  }

  form.addEventListener("input", () => { state.text = form.text.value; });
  form.model.addEventListener("change", () => {
    state.model = form.model.value;
    panel.dispatchEvent(new Event("rerun"));
  });
  const caption = () => `The uses most similar to “${answer.tokens[answer.position]}” in: ${answer.tokens.join(" ")}`;
  return { state, run, request, caption, show() { form.text.value = state.text; }, models: (first) => state.model || first, result: () => answer };
}
