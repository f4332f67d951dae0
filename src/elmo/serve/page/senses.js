// Senses: the similarity of one word to all others, on each layer and in any mix of them.
import { ask, element, floats } from "./dom.js";

const EXAMPLE = "We sat on the bank of the river.\nShe opened an account at the bank.\nThe bank raised its interest rates.";

export function create(panel) {
  const form = panel.querySelector("form");
  const sliders = panel.querySelector(".sliders");
  const result = panel.querySelector(".result");
  const state = { text: EXAMPLE, word: 4, weights: [], gamma: 1, measure: "cosine" };
  let answer = null;
  let products = null;
  let drawn = null;

  async function run(signal) {
    answer = null;
    sliders.hidden = true;
    answer = await ask("/senses", request().body, signal);
    products = floats(answer.products);
    const count = answer.texts.flat().length;
    if (state.word >= count) state.word = 0;
    if (state.weights.length !== answer.layers) state.weights = Array(answer.layers).fill(1);
    buildSliders();
    draw();
  }

  function request() {
    return { route: "/senses", body: { inputs: state.text.split("\n").map((line) => line.trim()).filter(Boolean) } };
  }

  function buildSliders() {
    sliders.hidden = false;
    sliders.querySelectorAll("label").forEach((label) => label.remove());
    const add = (name, value, most, change) => {
      const shown = element("output", {}, value.toFixed(2));
      const [letter, index] = [name[0], name.slice(1)];
      const slider = element("input", {
        type: "range", "aria-label": index ? `weight of layer ${index}` : "gamma", min: 0, max: most, step: 0.01, value,
        oninput: (event) => { change(Number(event.target.value)); shown.textContent = Number(event.target.value).toFixed(2); draw(); },
      });
      sliders.append(element("label", {}, letter, index ? element("sub", {}, index) : null, " ", shown, slider));
    };
    state.weights.forEach((weight, layer) => add(`s${layer}`, weight, 1, (value) => { state.weights[layer] = value; }));
    add("γ", state.gamma, 3, (value) => { state.gamma = value; });
    const options = [["cosine", "cosine (γ changes nothing)"], ["product", "inner product (γ² scales it)"]];
    const select = element("select", { onchange: (event) => { state.measure = event.target.value; draw(); } },
      options.map(([value, name]) => element("option", { value, selected: state.measure === value }, name)));
    sliders.append(element("label", {}, "Measure ", select));
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

  function similarity(one, other, weights, gamma) {
    const value = product(one, other, weights);
    if (state.measure === "product") return gamma * gamma * value;
    return value / Math.sqrt(Math.max(product(one, one, weights) * product(other, other, weights), 1e-12));
  }

  function mixWeights() {
    const total = state.weights.reduce((sum, weight) => sum + weight, 0);
    return state.weights.map((weight) => (total ? weight / total : 0));
  }

  function draw() {
    if (!answer) return;
    const rows = state.weights.map((_, layer) => {
      const only = state.weights.map((_, each) => Number(each === layer));
      return { name: layer ? `layer ${layer}` : "layer 0 (tokens)", weights: only, gamma: 1 };
    });
    rows.push({ name: "mix", weights: mixWeights(), gamma: state.gamma });
    const count = answer.texts.flat().length;
    drawn = rows.map((row) => Array.from({ length: count }, (_, other) => similarity(state.word, other, row.weights, row.gamma)));
    const focused = document.activeElement?.dataset?.word;
    let start = 0;
    const tables = answer.texts.map((tokens, number) => {
      const table = sentence(tokens, start, rows, number);
      start += tokens.length;
      return element("div", { class: "scroll" }, table);
    });
    result.replaceChildren(
      element("p", { class: "note" }, "Similarity to “", element("bdi", {}, answer.texts.flat()[state.word].text), `”, by ${state.measure}. Choose another word above any column.`),
      ...tables);
    if (focused !== undefined) result.querySelector(`[data-word="${focused}"]`)?.focus();
  }

  /** The words decide the table's direction: what is not the user's stands in bdi. */
  function sentence(tokens, start, rows, number) {
    const head = tokens.map((token, place) => element("th", { scope: "col" }, element("button", {
      type: "button", "data-word": start + place, "aria-pressed": String(start + place === state.word),
      onclick: () => { state.word = start + place; draw(); panel.dispatchEvent(new Event("changed")); },
    }, token.text)));
    const body = rows.map((row, index) => {
      const values = drawn[index];
      // Cosines of a layer are often all high or all low; the colours tell its own words apart.
      const [low, most] = [Math.min(...values), Math.max(...values)];
      return element("tr", { class: row.name === "mix" ? "mix" : null }, element("th", { scope: "row" }, element("bdi", {}, row.name)),
        tokens.map((_, place) => {
          const value = values[start + place];
          const cell = element("td", {}, element("bdi", {}, value.toFixed(2)));
          const heat = Math.max(0, (value - low) / Math.max(most - low, 1e-9)) ** 1.5;
          cell.style.backgroundColor = `rgb(var(--heat) / calc(var(--heat-most) * ${heat.toFixed(3)}))`;
          return cell;
        }));
    });
    return element("table", { class: "heat", dir: "auto" }, element("caption", {}, element("bdi", {}, `Sentence ${number + 1}`)),
      element("thead", {}, element("tr", {}, element("td"), head)), element("tbody", {}, body));
  }

  form.addEventListener("input", () => { state.text = form.text.value; });
  return {
    state, run, request,
    show() { form.text.value = state.text; },
    result: () => answer && { tokens: answer.texts, word: state.word, weights: mixWeights(), gamma: state.gamma, measure: state.measure,
      rows: [...state.weights.map((_, layer) => `layer ${layer}`), "mix"], similarities: drawn },
  };
}
