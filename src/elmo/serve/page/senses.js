// Senses: how similar one word is to all others, on each layer and in any mix of them.
import { ask, element, floats, gallery } from "./dom.js";
import { SENSES } from "./examples.js";

const { text, word } = SENSES[0];

export function create(panel) {
  const form = panel.querySelector("form");
  const sliders = panel.querySelector(".sliders");
  const result = panel.querySelector(".result");
  const state = { text, word, weights: [], gamma: 1, measure: "cosine" };
  let answer = null;
  let products = null;
  let drawn = null;
  let senses = null;
  let layersOpen = false;

  async function run(signal) {
    answer = null;
    sliders.hidden = true;
    const { inputs, groups } = sentences();
    answer = await ask("/senses", { inputs }, signal);
    senses = groups;
    products = floats(answer.products);
    const count = answer.texts.flat().length;
    if (state.word >= count) state.word = 0;
    // Layer 0 does not see the sentence, so it cannot tell senses apart: it starts without weight.
    if (state.weights.length !== answer.layers) state.weights = Array.from({ length: answer.layers }, (_, layer) => Math.min(layer, 1));
    buildSliders();
    draw();
  }

  /** The sentences, and for each the number of its paragraph: an empty line separates senses. */
  function sentences() {
    const inputs = [], groups = [];
    let group = 0;
    for (const line of state.text.split("\n").map((each) => each.trim())) {
      if (line) {
        inputs.push(line);
        groups.push(group);
      } else if (inputs.length) group = groups.at(-1) + 1;
    }
    return { inputs, groups };
  }

  const request = () => ({ route: "/senses", body: { inputs: sentences().inputs } });

  /** What a layer knows, in words. */
  function meaningOf(layer) {
    if (!layer) return "the word alone";
    if (layer === answer.layers - 1) return "the sentence, rather its meaning";
    return layer === 1 ? "the sentence, rather its grammar" : "the sentence";
  }

  function buildSliders() {
    sliders.hidden = false;
    sliders.querySelectorAll("label, p").forEach((part) => part.remove());
    const add = (name, value, most, change) => {
      const shown = element("output", {}, value.toFixed(2));
      const slider = element("input", {
        type: "range", "aria-label": `weight of ${name}`, min: 0, max: most, step: 0.01, value,
        oninput: (event) => { change(Number(event.target.value)); shown.textContent = Number(event.target.value).toFixed(2); draw(); },
      });
      sliders.append(element("label", {}, `${name} `, shown, slider));
      return slider;
    };
    sliders.append(element("p", { class: "note" }, "A word's vector is a weighted sum of the layers. Move a slider to give a layer more or less weight, and watch the senses part or meet."));
    state.weights.forEach((weight, layer) => add(`layer ${layer}: ${meaningOf(layer)}`, weight, 1, (value) => { state.weights[layer] = value; }));
    const gamma = add("all (γ): scales the whole vector", state.gamma, 3, (value) => { state.gamma = value; }).parentNode;
    const options = [["cosine", "cosine: the angle between vectors"], ["product", "inner product: angle and length"]];
    const hideGamma = () => { gamma.hidden = state.measure === "cosine"; };
    const select = element("select", { onchange: (event) => { state.measure = event.target.value; hideGamma(); draw(); } },
      options.map(([value, name]) => element("option", { value, selected: state.measure === value }, name)));
    sliders.append(element("label", {}, "Measure ", select), gamma);
    hideGamma();
  }

  /** Inner product of two tokens under layer weights; `products` is (token, layer, token, layer). */
  function product(one, other, weights) {
    const count = answer.texts.flat().length, layers = answer.layers;
    let sum = 0;
    for (let l = 0; l < layers; l++) {
      if (!weights[l]) continue;
      for (let m = 0; m < layers; m++) sum += weights[l] * weights[m] * products[((one * layers + l) * count + other) * layers + m];
    }
    return sum;
  }

  function similarity(one, other, { weights, gamma }) {
    const value = product(one, other, weights);
    if (state.measure === "product") return gamma * gamma * value;
    return value / Math.sqrt(Math.max(product(one, one, weights) * product(other, other, weights), 1e-12));
  }

  function mixWeights() {
    const total = state.weights.reduce((sum, weight) => sum + weight, 0);
    return state.weights.map((weight) => (total ? weight / total : 0));
  }

  /** Where the chosen word occurs: its number among all tokens, and its sentence. */
  function occurrences() {
    const spelled = (token) => token.text.toLowerCase();
    const wanted = spelled(answer.texts.flat()[state.word]);
    const found = [];
    let token = 0;
    answer.texts.forEach((tokens, sentence) => tokens.forEach((each) => {
      if (spelled(each) === wanted) found.push({ token, sentence });
      token += 1;
    }));
    return found;
  }

  /** Every two occurrences of the chosen word, and whether they are in one sense. */
  function pairs() {
    const found = occurrences();
    return found.flatMap((one, place) => found.slice(place + 1).map((other) => ({ one, other, same: senses[one.sentence] === senses[other.sentence] })));
  }

  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

  /** Mean similarity of pairs in the same sense and in different ones; null where no pair is of the kind. */
  function compareSenses(all, row) {
    return [true, false].map((same) => {
      const of = all.filter((pair) => pair.same === same).map((pair) => similarity(pair.one.token, pair.other.token, row));
      return of.length ? mean(of) : null;
    });
  }

  function summary(rows) {
    const all = pairs(), mix = rows.at(-1);
    const name = element("bdi", {}, answer.texts.flat()[state.word].text);
    const line = (...parts) => element("p", { class: "summary" }, "“", name, "”: ", ...parts);
    const number = (value) => element("strong", {}, value.toFixed(2));
    const [same, other] = compareSenses(all, mix);
    if (same !== null && other !== null) return [line("same sense ", number(same), ", other sense ", number(other)), byLayer(all, rows)];
    if (all.length) {
      const ranked = all.map((pair) => ({ ...pair, value: similarity(pair.one.token, pair.other.token, mix) })).sort((a, b) => b.value - a.value);
      const tell = (pair) => `sentences ${pair.one.sentence + 1} and ${pair.other.sentence + 1} `;
      const [first, last] = [ranked[0], ranked.at(-1)];
      return [line("most alike in ", tell(first), number(first.value), ...(all.length > 1 ? ["; least alike in ", tell(last), number(last.value)] : []))];
    }
    const [best] = drawn.at(-1).map((value, token) => ({ value, token })).filter(({ token }) => token !== state.word).sort((a, b) => b.value - a.value);
    return [best ? line("nearest is “", element("bdi", {}, answer.texts.flat()[best.token].text), "” ", number(best.value)) : line("no other word to compare with")];
  }

  function byLayer(all, rows) {
    const bar = (value) => {
      const cell = element("td", {}, value.toFixed(2));
      cell.style.backgroundSize = `${Math.max(0, Math.min(1, value)) * 100}% 100%`;
      return cell;
    };
    return element("table", { class: "compare" }, element("thead", {}, element("tr", {}, ["By layer", "same sense", "other sense"].map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, rows.map((row) => element("tr", { class: row.name === "mix" ? "mix" : null }, element("th", { scope: "row" }, row.name), compareSenses(all, row).map(bar)))));
  }

  function draw() {
    if (!answer) return;
    const rows = state.weights.map((_, layer) => {
      const only = state.weights.map((_, each) => Number(each === layer));
      return { name: layer ? `layer ${layer}` : "layer 0 (the word alone)", weights: only, gamma: 1 };
    });
    rows.push({ name: "mix", weights: mixWeights(), gamma: state.gamma });
    const count = answer.texts.flat().length;
    drawn = rows.map((row) => Array.from({ length: count }, (_, other) => similarity(state.word, other, row)));
    const focused = document.activeElement?.dataset?.word;
    let start = 0;
    const lines = [], tables = [];
    answer.texts.forEach((tokens, number) => {
      lines.push(inMix(tokens, start, number));
      tables.push(element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Sentence ${number + 1}` }, inNumbers(tokens, start, rows, number)));
      start += tokens.length;
    });
    const details = element("details", { open: layersOpen, ontoggle: (event) => { layersOpen = event.target.open; } },
      element("summary", {}, "Every layer in numbers"), tables);
    result.replaceChildren(...summary(rows), element("p", { class: "note" }, "Choose any word to compare the others with it."), ...lines, details);
    if (focused !== undefined) result.querySelector(`[data-word="${focused}"]`)?.focus({ preventScroll: true });
  }

  /** Cosines of a layer are often all high or all low; the colours tell its own words apart. */
  function paint(node, values, value) {
    const [low, most] = [Math.min(...values), Math.max(...values)];
    const heat = Math.max(0, (value - low) / Math.max(most - low, 1e-9)) ** 1.5;
    node.style.backgroundColor = `rgb(var(--heat) / calc(var(--heat-most) * ${heat.toFixed(3)}))`;
    return node;
  }

  /** A sentence's words as buttons, as dark as they are similar in the mix. */
  function inMix(tokens, start, number) {
    const values = drawn.at(-1);
    const apart = number && senses[number] !== senses[number - 1];
    return element("div", { class: apart ? "line apart" : "line", dir: "auto", role: "group", "aria-label": `Sentence ${number + 1}` }, tokens.map((token, place) => {
      const chosen = start + place === state.word;
      const button = element("button", {
        type: "button", "data-word": start + place, "aria-pressed": String(chosen),
        onclick: () => { state.word = start + place; draw(); panel.dispatchEvent(new Event("changed")); },
      }, token.text, " ", element("small", {}, element("bdi", {}, values[start + place].toFixed(2))));
      return chosen ? button : paint(button, values, values[start + place]);
    }));
  }

  /** The words decide the table's direction: what is not the user's stands in bdi. */
  function inNumbers(tokens, start, rows, number) {
    const body = rows.map((row, index) => element("tr", { class: row.name === "mix" ? "mix" : null }, element("th", { scope: "row" }, element("bdi", {}, row.name)),
      tokens.map((_, place) => paint(element("td", {}, element("bdi", {}, drawn[index][start + place].toFixed(2))), drawn[index], drawn[index][start + place]))));
    return element("table", { class: "heat", dir: "auto" }, element("caption", {}, element("bdi", {}, `Sentence ${number + 1}`)),
      element("thead", {}, element("tr", {}, element("td"), tokens.map((token) => element("th", { scope: "col" }, token.text)))), element("tbody", {}, body));
  }

  form.addEventListener("input", () => { state.text = form.text.value; });
  return {
    state, run, request,
    caption: () => `How similar the other words are to “${answer.texts.flat()[state.word].text}”: ${state.measure}, layers mixed as ${mixWeights().map((weight) => weight.toFixed(2)).join(" : ")}`,
    show() {
      form.text.value = state.text;
      gallery(panel, state, SENSES);
    },
    result: () => answer && { tokens: answer.texts, word: state.word, weights: mixWeights(), gamma: state.gamma, measure: state.measure,
      rows: [...state.weights.map((_, layer) => `layer ${layer}`), "mix"], similarities: drawn },
  };
}
