// Take it with you: the request as curl or Python, the page's state as a link, the result as JSON or PNG.
import { element, key, say } from "./dom.js";

export function asCurl({ route, body }) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const auth = key() ? " -H \"Authorization: Bearer $ELMO_API_KEY\"" : "";
  return `curl -s ${quoted(location.origin + route)} -H 'Content-Type: application/json'${auth} -d ${quoted(JSON.stringify(body))}`;
}

export function asPython({ route, body }) {
  // JSON is Python, too, as long as no panel sends true, false or null.
  const plain = JSON.stringify(body, null, 4);
  const auth = key() ? ",\n    headers={\"Authorization\": \"Bearer \" + os.environ[\"ELMO_API_KEY\"]}" : "";
  return `${key() ? "import os\n" : ""}import httpx\n\nanswer = httpx.post(\n    ${JSON.stringify(location.origin + route)},\n    json=${plain.replaceAll("\n", "\n    ")},\n    timeout=60${auth},\n)\nprint(answer.raise_for_status().json())\n`;
}

export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without a secure origin there is no clipboard; the old way still works.
    const area = element("textarea", {}, text), focused = document.activeElement;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    focused?.focus();
    if (!done) throw new Error(`The browser does not let the page copy ${what}.`);
  }
  say(`Copied ${what}.`);
}

export function download(name, blob) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  say(`Saved ${name}.`);
}

/** A panel's result as a picture with its caption above and its source below: elements, drawn by the browser inside an SVG image. */
export async function asPicture(node, caption, source) {
  const box = node.getBoundingClientRect();
  // What scrolls on the page is shown whole in the picture.
  const parts = [...node.querySelectorAll(".scroll")].map((part) => part.scrollWidth);
  const width = Math.ceil(Math.max(box.width, node.scrollWidth, ...parts)) + 32;
  const copyOf = node.cloneNode(true);
  inline(node, copyOf);
  for (const part of copyOf.querySelectorAll(".scroll")) part.style.overflow = "visible";
  // On the page the result may be as high as what stands beside it.
  copyOf.style.height = "auto";
  const content = Math.max(...[...node.children].map((child) => child.getBoundingClientRect().bottom)) - box.top;
  const lines = [line(caption, "600 18px/26px", width), line(source, "14px/20px", width)];
  const height = Math.ceil(content) + 56 + lines.reduce((sum, each) => sum + each.height, 0);
  const style = getComputedStyle(document.body);
  const whole = element("div", {}, lines[0].made, copyOf, lines[1].made);
  Object.assign(whole.style, { padding: "16px", boxSizing: "border-box", width: `${width}px`, minHeight: `${height}px`, background: style.backgroundColor, color: style.color });
  const xml = new XMLSerializer().serializeToString(whole);
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"><foreignObject width="100%" height="100%">${xml}</foreignObject></svg>`;
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = element("canvas", { width: 2 * width, height: 2 * height });
  const context = canvas.getContext("2d");
  context.scale(2, 2);
  context.drawImage(image, 0, 0);
  return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("The picture could not be drawn."))), "image/png"));
}

/** A paragraph of the picture, and how high it becomes: it is measured on the page, out of sight. */
function line(text, font, width) {
  const made = element("p", { dir: "auto" }, text);
  Object.assign(made.style, { font: `${font} system-ui, sans-serif`, margin: "0 0 8px", width: `${width - 32}px`, overflowWrap: "anywhere" });
  const shown = made.cloneNode(true);
  Object.assign(shown.style, { position: "absolute", visibility: "hidden" });
  document.body.append(shown);
  const height = shown.offsetHeight + 8;
  shown.remove();
  return { made, height };
}

/** Styles come from a sheet that the image cannot see: write them into the copy. */
function inline(from, to) {
  const computed = getComputedStyle(from);
  for (const name of computed) to.style.setProperty(name, computed.getPropertyValue(name));
  const targets = [...to.children];
  [...from.children].forEach((child, place) => inline(child, targets[place]));
}
