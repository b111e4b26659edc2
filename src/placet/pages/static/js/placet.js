// The entry point. Every page works without scripts; each module improves one part of it.
// A module is loaded only if its selector finds elements, and is called with each of them.
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
  "form[data-push]": "./push.js",
  "[data-passkey]": "./passkey.js",
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
