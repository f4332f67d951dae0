// Neighbours: table 4 of the paper, live.
import { bars, element, marked } from "./dom.js";
import { wordPanel } from "./word_panel.js";

export function create(panel) {
  const state = { text: "The otter climbed up the bank of the stream.", position: 5, number: 8, model: "" };

  function draw(answer) {
    const found = answer.neighbours.map((each) => ({
      label: marked(each.tokens, each.position), share: each.similarity, value: each.similarity.toFixed(3),
    }));
    const fixed = answer.static?.map((each) => ({ label: each.word, share: each.similarity, value: each.similarity.toFixed(3) }));
    return [
      element("div", { class: "columns wide" },
        element("div", {}, element("h2", {}, "In this sentence"), bars(found)),
        element("div", {}, element("h2", {}, "Without a sentence"),
          fixed ? bars(fixed) : element("p", { class: "note" }, "The corpus does not hold this word."))),
      element("p", { class: "note" }, `Among ${answer.index.num_occurrences.toLocaleString("en")} words in ${answer.index.num_sentences.toLocaleString("en")} sentences; layer: ${answer.index.layers}; without a sentence: ${answer.index.static}.`,
        answer.building ? ` The index is not complete yet (${answer.building}): ask again for better neighbours.` : ""),
    ];
  }

  return wordPanel(panel, state, { route: "/neighbours", draw, caption: "The uses most similar to" });
}
