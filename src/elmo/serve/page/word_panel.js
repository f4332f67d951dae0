// What Neighbours and Fill share: a sentence, its words as buttons, and a question about the one that is chosen.
import { ask, element, serviceInfo } from "./dom.js";

const MOST_WORDS = 500; // each is a button

/** The panel of a route; `draw` gives the nodes of an answer, `shown` the text of a word's button. */
export function wordPanel(panel, state, { route, draw, caption, shown = (token) => token, show = () => {} }) {
  const form = panel.querySelector("form");
  let answer = null;

  /** The first model needs no name. */
  const named = () => (state.model ? { model: state.model } : {});
  const request = () => ({ route, body: { inputs: state.text, position: state.position, number: state.number, ...named() } });

  async function run(signal) {
    answer = null;
    await offerModels(signal);
    const inputs = state.text;
    await chooseWord(inputs, signal);
    answer = await ask(route, { ...request().body, inputs }, signal);
    panel.querySelector(".result").replaceChildren(...draw(answer));
  }

  /** Offer both models where the service has two; `state.model` is empty for the first. */
  async function offerModels(signal) {
    const { model_id: first, compare } = await serviceInfo(signal);
    if (state.model !== compare) state.model = "";
    const names = [["", first], ...(compare ? [[compare, compare]] : [])];
    form.model.replaceChildren(...names.map(([value, name]) => element("option", { value, selected: value === state.model }, name)));
    form.model.parentNode.hidden = !compare;
  }

  /** Show the words as buttons, the one at `state.position` pressed; another one reruns the panel. */
  async function chooseWord(inputs, signal) {
    const [found] = await ask("/tokenize", { inputs, add_special_tokens: false, ...named() }, signal);
    if (found.length > MOST_WORDS) throw new Error(`The sentence holds ${found.length} words; the most here is ${MOST_WORDS}. Shorten it.`);
    if (state.position >= found.length) state.position = 0;
    const words = panel.querySelector(".words");
    const focused = words.contains(document.activeElement);
    words.replaceChildren(...found.map((token, place) => element("button", {
      type: "button",
      "aria-pressed": String(place === state.position),
      onclick: () => {
        state.position = place;
        panel.dispatchEvent(new Event("rerun"));
      },
    }, shown(token.text, place))));
    if (focused) words.children[state.position].focus();
  }

  form.addEventListener("input", () => { state.text = form.text.value; });
  form.model.addEventListener("change", () => {
    state.model = form.model.value;
    panel.dispatchEvent(new Event("rerun"));
  });
  return {
    state, run, request,
    caption: () => `${caption} “${answer.tokens[answer.position]}” in: ${answer.tokens.join(" ")}`,
    show() { form.text.value = state.text; show(); },
    models: (first) => state.model || first, result: () => answer,
  };
}
