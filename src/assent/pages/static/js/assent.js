// The entry: every page works without scripts, and each module makes one thing of it nicer.
// A module is fetched only where its selector finds something, and gets each element that it finds.
const MODULES = {
  "[data-opened-url]": "./opened.js",
  "[data-draft-url]": "./autosave.js",
  "[data-step]": "./form.js",
  "[data-tally]": "./limits.js",
  "[data-was]": "./changes.js",
  "[data-word]": "./word.js",
  "template[data-finds]": "./search.js",
  "#f-edits[data-words]": "./edit.js",
  ".presets": "./presets.js",
};

for (const [selector, module] of Object.entries(MODULES)) {
  const found = document.querySelectorAll(selector);
  if (!found.length) continue;
  import(module).then(({ default: enhance }) => found.forEach((element) => enhance(element)));
}
