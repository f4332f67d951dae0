// The theme that was chosen, for every page. Where site data is blocked, it is forgotten with the page.
export function remembered() {
  try {
    return localStorage.getItem("elmo-theme") ?? "auto";
  } catch {
    return "auto";
  }
}

export function remember(theme) {
  try {
    localStorage.setItem("elmo-theme", theme);
  } catch {}
}

export function paint(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}
