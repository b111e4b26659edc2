// The entry: every page works without scripts, and each module makes one thing of it nicer.
// A module is fetched only where its selector finds something, and gets each element that it finds.
const MODULES = {
  "[data-opened-url]": "./opened.js",
  "[data-draft-url]": "./autosave.js",
  // Here the server adds the scripts of the review types.
  "[data-tally]": "./limits.js",
  "template[data-finds]": "./search.js",
  "#f-edits[data-words]": "./edit.js",
  ".presets": "./presets.js",
  "[data-live]": "./live.js",
  "[data-away]": "./countdown.js",
  "[data-local]": "./localtime.js",
  "[data-keep]": "./keep.js",
  "[data-send]": "./send.js",
  "[data-handover]": "./handover.js",
  "[data-inbox]": "./inbox.js",
};

export async function enhance(page) {
  const wanted = Object.entries(MODULES).map(async ([selector, module]) => {
    const found = page.querySelectorAll(selector);
    if (!found.length) return;
    const { default: improve } = await import(module);
    found.forEach((element) => improve(element));
  });
  await Promise.allSettled(wanted);
  page.documentElement.dataset.enhanced = "";
}

enhance(document);
