// Compares two texts as the server does. Returns pieces: ["same" | "added" | "removed" | "gap", text].
const PUNCTUATION = "!-/:-@\\[-\\^`{-~\\u00a1-\\u00bf\\u2010-\\u205e\\u3001-\\u301f\\uff01-\\uff0f";
const SINGLE = "\\u3040-\\u30ff\\u3400-\\u9fff\\uf900-\\ufaff\\u{20000}-\\u{3ffff}";
const PARTS = new RegExp(`\\s+|[${PUNCTUATION}]|[${SINGLE}]|[^\\s${PUNCTUATION}${SINGLE}]+`, "gu");
const WORD = new RegExp(`[^\\s${PUNCTUATION}]`, "u");
const MAX_CELLS = 4e6;
const KEPT = 80;

const parts = (text) => text.match(PARTS) ?? [];
export const countWords = (text) => parts(text).filter((part) => WORD.test(part)).length;

// Return runs of [common, removed, added] from two lists of texts.
function findRuns(old, now) {
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head++;
  let tail = 0;
  while (tail < old.length - head && tail < now.length - head && old.at(-1 - tail) === now.at(-1 - tail)) tail++;
  const a = old.slice(head, old.length - tail);
  const b = now.slice(head, now.length - tail);
  const found = [[old.slice(0, head).join(""), "", ""]];
  if (a.length * b.length > MAX_CELLS) found.push(["", a.join(""), b.join("")]);
  else found.push(...findCommonRuns(a, b));
  found.push([old.slice(old.length - tail).join(""), "", ""]);
  return found;
}

function findCommonRuns(a, b) {
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

function isSplinter(last, [same, removed, added]) {
  const before = Math.max(last[1].length, last[2].length);
  const after = Math.max(removed.length, added.length);
  if (!before || !after) return before > 0 && !same;
  return !same.includes("\n") && (same.length <= Math.min(before, after) || !WORD.test(same));
}

function joinSplinters(found) {
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

// Move a space that ends both sides of a change out of the change.
function moveSpacesOut(found) {
  let carried = "";
  const kept = found.map(([same, removed, added]) => {
    const end = /\s$/.test(removed) && removed.at(-1) === added.at(-1) ? removed.at(-1) : "";
    const run = [carried + same, ...[removed, added].map((text) => text.slice(0, text.length - end.length))];
    carried = end;
    return run;
  });
  return [...kept, [carried, "", ""]];
}

function shortenCommonText(text, first, last) {
  const [head, tail] = [first ? 0 : KEPT, last ? 0 : KEPT];
  if (text.length <= head + tail + KEPT) return [["same", text]];
  return [["same", text.slice(0, head)], ["gap", "⋯"], ["same", tail ? text.slice(-tail) : ""]];
}

export function compare(before, now) {
  const lines = (text) => text.match(/[^\n]*\n|[^\n]+/g) ?? [];
  const found = findRuns(lines(before), lines(now)).flatMap(([same, removed, added]) => [
    [same, "", ""],
    ...(removed && added ? findRuns(parts(removed), parts(added)) : [["", removed, added]]),
  ]);
  const tidy = moveSpacesOut(joinSplinters(found));
  const words = tidy.reduce((sum, [, removed, added]) => sum + Math.max(countWords(removed), countWords(added)), 0);
  const pieces = tidy.flatMap(([same, removed, added], at) => [
    ...shortenCommonText(same, at === 0, !removed && !added),
    ["removed", removed],
    ["added", added],
  ]);
  return { words, pieces: pieces.filter(([, text]) => text) };
}
