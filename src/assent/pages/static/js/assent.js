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
  "[data-live]": "./live.js",
  "[data-away]": "./countdown.js",
  "[data-local]": "./localtime.js",
  "[data-keep]": "./keep.js",
  "[data-send]": "./send.js",
  "[data-handover]": "./handover.js",
};

export function enhance(page) {
  for (const [selector, module] of Object.entries(MODULES)) {
    const found = page.querySelectorAll(selector);
    if (!found.length) continue;
    import(module).then(({ default: each }) => found.forEach((element) => each(element)));
  }
}

enhance(document);
