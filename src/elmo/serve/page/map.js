// Map: every occurrence of a word in two dimensions, on one layer or on two side by side.
import { ask, element, gallery, marked, serviceInfo } from "./dom.js";
import { WORDS } from "./examples.js";

const SIZE = { width: 640, height: 420, edge: 30 };
const COLOURS = 8;

export function create(panel) {
  const form = panel.querySelector("form");
  const result = panel.querySelector(".result");
  const state = { word: WORDS[0].word, clusters: 2, layer: -1, beside: -1, own: "" };
  let answer = null;
  let layers = [];
  let planes = [];
  let told = 0;

  const own = () => state.own.split("\n").map((line) => line.trim()).filter(Boolean);
  const request = () => ({ route: "/map", body: { word: state.word, clusters: state.clusters, ...(own().length ? { own: own() } : {}) } });

  async function run(signal) {
    answer = null;
    const { route, body } = request(), { compare } = await serviceInfo(signal);
    const [first, second] = await Promise.all([ask(route, body, signal), compare && ask(route, { ...body, model: compare }, signal)]);
    answer = first;
    layers = [...first.layers, ...layersOf(second, compare)];
    const count = layers.length;
    if (state.layer < 0 || state.layer >= count) state.layer = Math.max(first.layers.length - 2, 0);
    if (state.beside >= count) state.beside = -1;
    const options = layers.map((layer, place) => element("option", { value: place }, layer.name));
    form.layer.replaceChildren(...options);
    form.beside.replaceChildren(element("option", { value: -1 }, "nothing"), ...options.map((option) => option.cloneNode(true)));
    form.layer.value = state.layer;
    form.beside.value = state.beside;
    told = answer.own.length ? answer.own[0] : 0;
    draw();
  }

  /** The layers of the model to compare with. The groups and their cosines are the first model's, so it shows no cosines. */
  function layersOf(second, name) {
    // The user's own sentences may have other tokens there.
    if (second?.occurrences.length !== answer.occurrences.length) return [];
    return second.layers.map((layer) => ({ ...layer, name: `${layer.name} of ${name}`, within: null }));
  }

  const labels = () => answer.clusters.map((cluster) => cluster.label);
  const groupOf = (index) => labels().indexOf(answer.occurrences[index].sense);
  const nameOf = (cluster) => (cluster.words.length ? cluster.words.join(", ") : cluster.label);

  function draw() {
    if (!answer) return;
    planes = [plane(state.layer), ...(state.beside >= 0 ? [plane(state.beside)] : [])];
    const tip = element("p", { class: "tip", "aria-live": "polite" });
    const list = element("ol", { class: "sentences", tabindex: 0, "aria-label": "The sentences" }, answer.occurrences.map((each, index) =>
      element("li", { onmouseenter: () => tell(index), onclick: () => tell(index) }, sample(groupOf(index), isOwn(index)), " ", sentence(each))));
    result.replaceChildren(element("div", { class: "mapview" },
      element("div", {}, legend(), element("div", { class: "planes" }, planes.map((each) => each.figure))),
      element("div", { class: "beside" }, tip, list)));
    tell(told);
  }

  const isOwn = (index) => answer.own.includes(index);

  function legend() {
    const items = answer.clusters.map((cluster, group) => element("li", {}, sample(group), " ", element("bdi", {}, nameOf(cluster)), ` (${cluster.count})`));
    if (answer.own.length) items.push(element("li", {}, sample(-1, true), ` yours (${answer.own.length})`));
    return element("ul", { class: "legend" }, items);
  }

  /** A plane holds its points in one tab stop; arrow keys go to the next point in that direction. */
  function plane(layer) {
    const points = answer.occurrences.map((each, index) => {
      const mark = element("g", {
        class: "point", tabindex: -1, role: "img", "aria-label": `${nameOf(answer.clusters[groupOf(index)])}: ${each.tokens.join(" ")}`,
        onmouseenter: () => tell(index), onfocus: () => tell(index), onclick: () => tell(index), onkeydown: (event) => step(event, index),
      }, element("circle", { class: "reach", r: 12 }), shape(groupOf(index), isOwn(index)));
      mark.style.color = `var(--c${(groupOf(index) % COLOURS) + 1})`;
      return mark;
    });
    const svg = element("svg", { class: "plane", viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, role: "group" }, points);
    const note = element("figcaption", { class: "note" });
    const made = { figure: element("figure", {}, svg, note), svg, note, points, places: [] };
    move(made, layer);
    return made;
  }

  /** Put a plane's points where a layer has them; the browser animates the way. */
  function move(made, number) {
    const layer = layers[number];
    made.places = scale(alike(layer.points, layers[state.layer].points));
    made.points.forEach((point, index) => {
      const [x, y] = made.places[index];
      point.style.transform = `translate(${x}px, ${y}px)`;
    });
    made.svg.setAttribute("aria-label", `${answer.occurrences.length} occurrences of ${answer.word} on ${layer.name}`);
    const cosines = layer.within == null || layer.across == null ? "" : `: cosine ${layer.within.toFixed(2)} within a group, ${layer.across.toFixed(2)} across`;
    made.note.textContent = `${layer.name}${cosines}; the axes hold ${layer.explained.map((share) => share.toFixed(0)).join("% and ")}% of the variance`;
  }

  /** An axis has no sign of its own: the one is taken that leaves most points on their side. */
  function alike(points, model) {
    const signs = [0, 1].map((axis) => (points.reduce((sum, point, index) => sum + point[axis] * model[index][axis], 0) < 0 ? -1 : 1));
    return points.map((point) => point.map((value, axis) => value * signs[axis]));
  }

  function tell(index) {
    told = index;
    for (const { points } of planes) points.forEach((point, place) => {
      point.classList.toggle("told", place === index);
      point.setAttribute("tabindex", place === index ? 0 : -1);
    });
    const list = result.querySelector(".sentences");
    [...list.children].forEach((item, place) => item.classList.toggle("told", place === index));
    const item = list.children[index];
    if (!item.matches(":hover")) list.scrollTop = item.offsetTop - list.offsetTop - 40;
    result.querySelector(".tip").replaceChildren(isOwn(index) ? "Yours: " : "", sentence(answer.occurrences[index]));
  }

  function step(event, index) {
    const direction = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    const { points, places } = planes.find((each) => each.points[index] === event.currentTarget);
    let next = { Home: 0, End: points.length - 1 }[event.key];
    if (direction) {
      const ways = places.map(([x, y], place) => {
        const [dx, dy] = [x - places[index][0], y - places[index][1]];
        const along = dx * direction[0] + dy * direction[1], across = Math.abs(dx * direction[1]) + Math.abs(dy * direction[0]);
        return { place, along, cost: along + 2 * across };
      });
      next = ways.filter(({ place, along }) => place !== index && along > 0).sort((one, other) => one.cost - other.cost)[0]?.place;
    }
    if (next === undefined) return;
    event.preventDefault();
    points[next].focus();
  }

  function sentence({ tokens, position }) {
    return element("bdi", {}, marked(tokens, position));
  }

  function scale(points) {
    const [xs, ys] = [0, 1].map((axis) => points.map((point) => point[axis]));
    const along = (value, values, length) => {
      const [low, high] = [Math.min(...values), Math.max(...values)];
      return SIZE.edge + ((value - low) / Math.max(high - low, 1e-9)) * (length - 2 * SIZE.edge);
    };
    return points.map(([x, y]) => [along(x, xs, SIZE.width), SIZE.height - along(y, ys, SIZE.height)]);
  }

  /** Colour is not the only sign: groups have shapes, too, and the user's own sentences have a ring. */
  function shape(group, mine) {
    const parts = [];
    if (mine) parts.push(element("circle", { class: "ring", r: 10 }));
    if (group % 3 === 0) parts.push(element("circle", { r: 6 }));
    if (group % 3 === 1) parts.push(element("rect", { x: -5.5, y: -5.5, width: 11, height: 11 }));
    if (group % 3 === 2) parts.push(element("polygon", { points: "0,-7 7,6 -7,6" }));
    return element("g", {}, parts);
  }

  function sample(group, mine = false) {
    const drawn = element("svg", { class: "sample", width: 24, height: 24, viewBox: "-12 -12 24 24", "aria-hidden": "true" }, shape(group, mine));
    drawn.style.color = group < 0 ? "var(--front)" : `var(--c${(group % COLOURS) + 1})`;
    return drawn;
  }

  form.addEventListener("input", () => {
    state.word = form.word.value;
    state.clusters = Number(form.clusters.value) || 2;
    state.own = form.own.value;
  });
  form.layer.addEventListener("change", () => {
    state.layer = Number(form.layer.value);
    // The plane beside it stays where it is, but is turned as the new layer is.
    if (answer) planes.forEach((each, place) => move(each, place ? state.beside : state.layer));
  });
  form.beside.addEventListener("change", () => {
    state.beside = Number(form.beside.value);
    draw();
  });
  return {
    state, run, request,
    caption: () => `${answer.occurrences.length} occurrences of “${answer.word}”: near points are used alike`,
    show() {
      form.word.value = state.word;
      form.clusters.value = state.clusters;
      form.own.value = state.own;
      gallery(panel, state, WORDS);
    },
    result: () => answer,
  };
}
