// Light or dark, before the first paint: a plain script, so that the page does not flash.
"use strict";
(() => {
  const KEY = "fairlead:theme";
  const root = document.documentElement;
  const show = (theme) => {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
  };
  show(localStorage.getItem(KEY));
  // Other tabs follow.
  addEventListener("storage", (event) => event.key === KEY && show(event.newValue));
  globalThis.fairleadTheme = {
    get dark() {
      return root.dataset.theme
        ? root.dataset.theme === "dark"
        : matchMedia("(prefers-color-scheme: dark)").matches;
    },
    toggle() {
      const theme = this.dark ? "light" : "dark";
      localStorage.setItem(KEY, theme);
      show(theme);
      return theme;
    },
  };
})();
