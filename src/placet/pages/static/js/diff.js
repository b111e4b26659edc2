// What changed between two texts, as pieces ["same" | "added" | "removed" | "gap", text]; as the server does it.
const PUNCTUATION = "!-/:-@\\[-\\^`{-~\\u00a1-\\u00bf\\u2010-\\u205e\\u3001-\\u301f\\uff01-\\uff0f";
const SINGLE = "\\u3040-\\u30ff\\u3400-\\u9fff\\uf900-\\ufaff\\u{20000}-\\u{3ffff}";
const PARTS = new RegExp(`\\s+|[${PUNCTUATION}]|[${SINGLE}]|[^\\s${PUNCTUATION}${SINGLE}]+`, "gu");
const WORD = new RegExp(`[^\\s${PUNCTUATION}]`, "u");
const MAX_CELLS = 4e6;
const KEPT = 80;

const parts = (text) => text.match(PARTS) ?? [];
export const countWords = (text) => parts(text).filter((part) => WORD.test(part)).length;

// Runs of [in common, removed, added] from two lists of texts.
function runs(old, now) {
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head++;
  let tail = 0;
  while (tail < old.length - head && tail < now.length - head && old.at(-1 - tail) === now.at(-1 - tail)) tail++;
  const a = old.slice(head, old.length - tail);
  const b = now.slice(head, now.length - tail);
  const found = [[old.slice(0, head).join(""), "", ""]];
  if (a.length * b.length > MAX_CELLS) found.push(["", a.join(""), b.join("")]);
  else found.push(...common(a, b));
  found.push([old.slice(old.length - tail).join(""), "", ""]);
  return found;
}

function common(a, b) {
  const width = b.length + 1;
  const table = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      table[i * width + j] =
        a[i] === b[j]
          ? table[(i + 1) * width + j + 1] + 1
          : Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
  const found = [["", "", ""]];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    const last = found.at(-1);
    if (i < a.length && j < b.length && a[i] === b[j]) {
      if (last[1] || last[2]) found.push([a[i], "", ""]);
      else last[0] += a[i];
      i++, j++;
    } else if (j >= b.length || (i < a.length && table[(i + 1) * width + j] >= table[i * width + j + 1])) {
      last[1] += a[i++];
    } else last[2] += b[j++];
  }
  return found;
}

function isSplinter(last, [same, gone, come]) {
  const before = Math.max(last[1].length, last[2].length);
  const after = Math.max(gone.length, come.length);
  if (!before || !after) return before > 0 && !same;
  return !same.includes("\n") && (same.length <= Math.min(before, after) || !WORD.test(same));
}

function tidied(found) {
  const tidy = [["", "", ""]];
  for (const run of found) {
    const last = tidy.at(-1);
    if (isSplinter(last, run)) {
      last[1] += run[0] + run[1];
      last[2] += run[0] + run[2];
    } else if (!last[1] && !last[2]) tidy[tidy.length - 1] = [last[0] + run[0], run[1], run[2]];
    else tidy.push([...run]);
  }
  return tidy;
}

// A space that both sides of a change end with did not change.
function spacesKept(found) {
  let carried = "";
  const kept = found.map(([same, gone, come]) => {
    const end = /\s$/.test(gone) && gone.at(-1) === come.at(-1) ? gone.at(-1) : "";
    const run = [carried + same, ...[gone, come].map((text) => text.slice(0, text.length - end.length))];
    carried = end;
    return run;
  });
  return [...kept, [carried, "", ""]];
}

function inCommon(text, first, last) {
  const [head, tail] = [first ? 0 : KEPT, last ? 0 : KEPT];
  if (text.length <= head + tail + KEPT) return [["same", text]];
  return [["same", text.slice(0, head)], ["gap", "⋯"], ["same", tail ? text.slice(-tail) : ""]];
}

export function compare(before, now) {
  const lines = (text) => text.match(/[^\n]*\n|[^\n]+/g) ?? [];
  const found = runs(lines(before), lines(now)).flatMap(([same, gone, come]) => [
    [same, "", ""],
    ...(gone && come ? runs(parts(gone), parts(come)) : [["", gone, come]]),
  ]);
  const tidy = spacesKept(tidied(found));
  const words = tidy.reduce((sum, [, gone, come]) => sum + Math.max(countWords(gone), countWords(come)), 0);
  const pieces = tidy.flatMap(([same, gone, come], at) => [
    ...inCommon(same, at === 0, !gone && !come),
    ["removed", gone],
    ["added", come],
  ]);
  return { words, pieces: pieces.filter(([, text]) => text) };
}
