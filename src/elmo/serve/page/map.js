// Map: every occurrence of a word in two dimensions.
import { ask, element, marked } from "./dom.js";

const SIZE = { width: 640, height: 420, edge: 30 };
const COLOURS = 8;

export function create(panel) {
  const form = panel.querySelector("form");
  const result = panel.querySelector(".result");
  const state = { word: "bank", clusters: 2, layer: -1 };
  let answer = null;

  const request = () => ({ route: "/map", body: { word: state.word, clusters: state.clusters } });

  async function run(signal) {
    answer = null;
    answer = await ask(request().route, request().body, signal);
    const count = answer.layers.length;
    if (state.layer < 0 || state.layer >= count) state.layer = Math.max(count - 2, 0);
    form.layer.replaceChildren(...answer.layers.map((layer, place) => element("option", { value: place }, layer.name)));
    form.layer.value = state.layer;
    draw();
  }

  function draw() {
    if (!answer) return;
    const layer = answer.layers[state.layer];
    const labels = [...new Set(answer.occurrences.map((each) => each.sense))].sort();
    const place = scale(layer.points);
    const tip = element("p", { class: "tip", "aria-live": "polite" }, "Point at a mark, or reach it with Tab, to read its sentence.");
    const points = layer.points.map((point, index) => {
      const each = answer.occurrences[index];
      const group = labels.indexOf(each.sense);
      const tell = () => tip.replaceChildren(`${each.sense}: `, sentence(each));
      const mark = shape(group, ...place(point), {
        class: "point", tabindex: 0, role: "img", "aria-label": `${each.sense}: ${each.tokens.join(" ")}`, onmouseenter: tell, onfocus: tell,
      });
      mark.style.fill = `var(--c${(group % COLOURS) + 1})`;
      return mark;
    });
    const svg = element("svg", { class: "plane", viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, role: "group", "aria-label": `${answer.occurrences.length} occurrences of ${answer.word} on ${layer.name}` }, points);
    const legend = element("ul", { class: "legend" }, labels.map((label, group) => {
      const sample = shape(group, 8, 8, {});
      sample.style.fill = `var(--c${(group % COLOURS) + 1})`;
      const number = answer.occurrences.filter((each) => each.sense === label).length;
      return element("li", {}, element("svg", { width: 16, height: 16, viewBox: "0 0 16 16", "aria-hidden": "true" }, sample), ` ${label}, ${number} of them`);
    }));
    const list = element("details", {}, element("summary", {}, "The sentences as a list"),
      element("ul", {}, answer.occurrences.map((each) => element("li", {}, `${each.sense}: `, sentence(each)))));
    const facts = `The axes hold ${layer.explained.map((share) => share.toFixed(0)).join("% and ")}% of the variance. Mean cosine within a cluster ${layer.within?.toFixed(2) ?? "–"}, across ${layer.across?.toFixed(2) ?? "–"}.`;
    result.replaceChildren(legend, svg, tip, element("p", { class: "note" }, facts), list);
  }

  function sentence({ tokens, position }) {
    return element("bdi", {}, marked(tokens, position));
  }

  function scale(points) {
    const [low, high] = [0, 1].map((axis) => points.map((point) => point[axis])).reduce(([lows, highs], values) => [[...lows, Math.min(...values)], [...highs, Math.max(...values)]], [[], []]);
    const along = (value, axis, length) => SIZE.edge + ((value - low[axis]) / Math.max(high[axis] - low[axis], 1e-9)) * (length - 2 * SIZE.edge);
    return ([x, y]) => [along(x, 0, SIZE.width), SIZE.height - along(y, 1, SIZE.height)];
  }

  /** Colour is not the only sign: clusters have shapes, too. */
  function shape(group, x, y, attributes) {
    if (group % 3 === 0) return element("circle", { cx: x, cy: y, r: 6, ...attributes });
    if (group % 3 === 1) return element("rect", { x: x - 5.5, y: y - 5.5, width: 11, height: 11, ...attributes });
    return element("polygon", { points: `${x},${y - 7} ${x + 7},${y + 6} ${x - 7},${y + 6}`, ...attributes });
  }

  form.addEventListener("input", () => {
    state.word = form.word.value;
    state.clusters = Number(form.clusters.value) || 2;
  });
  form.layer.addEventListener("change", () => {
    state.layer = Number(form.layer.value);
    draw();
    panel.dispatchEvent(new Event("changed"));
  });
  return {
    state, run, request,
    show() { form.word.value = state.word; form.clusters.value = state.clusters; },
    result: () => answer,
  };
}
