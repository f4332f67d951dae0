// Fill: what the forward, the backward and the joint model expect in a word's place.
import { bars, element, gallery } from "./dom.js";
import { FILLS } from "./examples.js";
import { wordPanel } from "./word_panel.js";

const NAMES = [["forward", "From the left"], ["joint", "From both sides"], ["backward", "From the right"]];

const percent = (value) => (value < 0.01 ? "< 0.01%" : `${value.toFixed(2)}%`);

export function create(panel) {
  const { text, position } = FILLS[0];
  const state = { text, position, number: 10, model: "" };

  function draw(answer) {
    const word = answer.tokens[answer.position];
    return [element("div", { class: "columns" }, NAMES.map(([name, title]) => {
      const most = Math.max(...answer[name].map((each) => each.percent), 1e-9);
      const real = answer.actual[name];
      return element("div", {}, element("h2", {}, title),
        bars(answer[name].map((each) => ({ label: each.word, share: each.percent / most, value: percent(each.percent) }))),
        element("p", { class: "note" }, "“", element("bdi", {}, word), real == null ? "” is not in the vocabulary." : `”: ${real.toLocaleString("en", { maximumSignificantDigits: 3 })}%`));
    }))];
  }

  return wordPanel(panel, state, {
    route: "/fill", draw, caption: "What the two language models expect instead of",
    shown: (token, place) => (place === state.position ? `[${token}]` : token),
    show: () => gallery(panel, state, FILLS),
  });
}
