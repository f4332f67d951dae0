// Senses: how similar one word is to all others, on each layer and in any mix of them, with one model or two.
import { ask, element, gallery, serviceInfo } from "./dom.js";
import { SENSES } from "./examples.js";
import { firstWeights, Similarities } from "./similarities.js";

const { text, word } = SENSES[0];

export function create(panel) {
  const form = panel.querySelector("form");
  const sliders = panel.querySelector(".sliders");
  const result = panel.querySelector(".result");
  const state = { text, word, weights: [], gamma: 1, measure: "cosine" };
  let views = []; // one for each model; the words are coloured by the first
  let drawn = null;
  let layersOpen = false;

  async function run(signal) {
    views = [];
    sliders.hidden = true;
    const { inputs, groups } = sentences();
    const { model_id: first, compare } = await serviceInfo(signal);
    const names = compare ? [first, compare] : [first];
    const answers = await Promise.all(names.map((model, number) => ask("/senses", { inputs, ...(number ? { model } : {}) }, signal)));
    views = answers.map((answer, number) => new Similarities(names[number], answer, groups));
    if (state.word >= views[0].tokens.length) state.word = 0;
    if (state.weights.length !== views[0].layers) state.weights = firstWeights(views[0].layers);
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
    if (layer === views[0].layers - 1) return "the sentence, rather its meaning";
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

  /** The sliders mix the layers of every model that has as many; another one keeps equal weights. */
  function rowsOf(view) {
    const weights = view.layers === state.weights.length ? state.weights : firstWeights(view.layers);
    return view.rows(weights, state.gamma, state.measure);
  }

  const chosenIn = (view) => (view === views[0] ? state.word : view.find(views[0].tokens[state.word]));

  /** The mean similarity in the same and in other senses, by layer: for the saved file. */
  function sensesIn(view) {
    const chosen = chosenIn(view);
    return chosen < 0 ? [] : rowsOf(view).map((row) => [row.name, ...view.compareSenses(view.pairs(chosen), row)]);
  }

  const number = (value) => element("strong", {}, value.toFixed(2));

  /** What a model says of the chosen word: one line, and where senses can be compared, its layers. */
  function summary(view) {
    const chosen = chosenIn(view);
    const name = element("bdi", {}, views[0].tokens[state.word].text);
    const line = (...parts) => element("p", { class: "summary" }, ...(views.length > 1 ? [element("span", { class: "note" }, view.model), element("br")] : []), "“", name, "”: ", ...parts);
    if (chosen < 0) return [line("this model has no such word")];
    const rows = rowsOf(view), mix = rows.at(-1), all = view.pairs(chosen);
    const [same, other] = view.compareSenses(all, mix);
    if (same !== null && other !== null) return [line("same sense ", number(same), ", other sense ", number(other)), byLayer(view, all, rows)];
    if (all.length) {
      const ranked = all.map((pair) => ({ ...pair, value: view.similarity(pair.one.token, pair.other.token, mix) })).sort((a, b) => b.value - a.value);
      const tell = (pair) => `sentences ${pair.one.sentence + 1} and ${pair.other.sentence + 1} `;
      const [first, last] = [ranked[0], ranked.at(-1)];
      return [line("most alike in ", tell(first), number(first.value), ...(all.length > 1 ? ["; least alike in ", tell(last), number(last.value)] : []))];
    }
    const [best] = view.tokens.map((token, place) => ({ token, place, value: view.similarity(chosen, place, mix) })).filter(({ place }) => place !== chosen).sort((a, b) => b.value - a.value);
    return [best ? line("nearest is “", element("bdi", {}, best.token.text), "” ", number(best.value)) : line("no other word to compare with")];
  }

  function byLayer(view, all, rows) {
    const bar = (value) => {
      const cell = element("td", {}, value.toFixed(2));
      cell.style.backgroundSize = `${Math.max(0, Math.min(1, value)) * 100}% 100%`;
      return cell;
    };
    return element("table", { class: "compare" }, element("thead", {}, element("tr", {}, ["By layer", "same sense", "other sense"].map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, rows.map((row) => element("tr", { class: row.name === "mix" ? "mix" : null }, element("th", { scope: "row" }, row.name), view.compareSenses(all, row).map(bar)))));
  }

  function draw() {
    if (!views.length) return;
    const [view] = views, rows = rowsOf(view);
    drawn = rows.map((row) => view.tokens.map((_, other) => view.similarity(state.word, other, row)));
    const focused = document.activeElement?.dataset?.word;
    let start = 0;
    const lines = [], tables = [];
    view.texts.forEach((tokens, number) => {
      lines.push(inMix(tokens, start, number));
      tables.push(element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Sentence ${number + 1}` }, inNumbers(tokens, start, rows, number)));
      start += tokens.length;
    });
    const details = element("details", { open: layersOpen, ontoggle: (event) => { layersOpen = event.target.open; } },
      element("summary", {}, "Every layer in numbers"), tables);
    const beside = views.length > 1 ? [element("div", { class: "columns" }, views.map((each) => element("div", {}, summary(each))))] : summary(view);
    const note = `Choose any word to compare the others with it${views.length > 1 ? `; the colours are those of ${view.model}` : ""}.`;
    result.replaceChildren(...beside, element("p", { class: "note" }, note), ...lines, details);
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
    const { senses } = views[0], apart = number && senses[number] !== senses[number - 1];
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
    caption: () => `How similar the other words are to “${views[0].tokens[state.word].text}”: ${state.measure}, layers mixed as ${rowsOf(views[0]).at(-1).weights.map((weight) => weight.toFixed(2)).join(" : ")}`,
    show() {
      form.text.value = state.text;
      gallery(panel, state, SENSES);
    },
    result: () => views.length && {
      tokens: views[0].texts, word: state.word, weights: rowsOf(views[0]).at(-1).weights, gamma: state.gamma, measure: state.measure,
      rows: rowsOf(views[0]).map((row) => row.name), similarities: drawn,
      senses: views.map((view) => ({ model: view.model, rows: sensesIn(view) })),
    },
  };
}
