// Fill: what the forward, the backward and the joint model expect in a word's place.
import { ask, bars, chooseWord, element, gallery, named, offerModels } from "./dom.js";
import { FILLS } from "./examples.js";

const NAMES = [["forward", "From the left"], ["joint", "From both sides"], ["backward", "From the right"]];

const percent = (value) => (value < 0.01 ? "< 0.01%" : `${value.toFixed(2)}%`);

export function create(panel) {
  const form = panel.querySelector("form");
  const result = panel.querySelector(".result");
  const { text, position } = FILLS[0];
  const state = { text, position, number: 10, model: "" };
  let answer = null;

  const request = () => ({ route: "/fill", body: { inputs: state.text, position: state.position, number: state.number, ...named(state.model) } });

  async function run(signal) {
    answer = null;
    await offerModels(form, state, signal);
    const inputs = state.text;
    await chooseWord(panel, state, signal, (token, place) => (place === state.position ? `[${token}]` : token));
    answer = await ask(request().route, { ...request().body, inputs }, signal);
    const word = answer.tokens[answer.position];
    result.replaceChildren(element("div", { class: "columns" }, NAMES.map(([name, title]) => {
      const most = Math.max(...answer[name].map((each) => each.percent), 1e-9);
      const real = answer.actual[name];
      return element("div", {}, element("h2", {}, title),
        bars(answer[name].map((each) => ({ label: each.word, share: each.percent / most, value: percent(each.percent) }))),
        element("p", { class: "note" }, "“", element("bdi", {}, word), real == null ? "” is not in the vocabulary." : `”: ${real.toLocaleString("en", { maximumSignificantDigits: 3 })}%`));
    })));
  }

  form.addEventListener("input", () => { state.text = form.text.value; });
  form.model.addEventListener("change", () => {
    state.model = form.model.value;
    panel.dispatchEvent(new Event("rerun"));
  });
  const caption = () => `What the two language models expect instead of “${answer.tokens[answer.position]}” in: ${answer.tokens.join(" ")}`;
  return { state, run, request, caption, show() { form.text.value = state.text; gallery(panel, state, FILLS); }, models: (first) => state.model || first, result: () => answer };
}
