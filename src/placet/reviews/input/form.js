// Updates a form while it is filled in: shows the questions that the server asks for and the problems of a
// field once it is left; adds counters, sliders, and buttons that show masked values.
export default function enhanceForm(box) {
  const form = box.closest("form");
  const words = box.dataset;
  const heard = form.querySelector(".heard") ?? document.createElement("p");
  const typed = new Set();
  const left = new Set();
  let latest = {};

  box.querySelectorAll("template[data-when]").forEach(unfold);
  box.querySelectorAll("[data-most]").forEach(count);
  box.querySelectorAll("[data-from]").forEach(slide);
  box.querySelectorAll("input[type=password], textarea.masked").forEach(unmask);
  // Each step has an address, so that the browser's Back and Reload work.
  const address = `${location.pathname.replace(/\/respond$/, "")}?step=${words.step}`;
  if (words.step) history.replaceState(null, "", address);

  box.addEventListener("input", ({ target }) => {
    const key = fieldOf(target)?.dataset.field;
    if (!key) return;
    typed.add(key);
    left.delete(key);
    delete latest[key]; // this problem is about an earlier answer
  });

  box.addEventListener("focusout", ({ target, relatedTarget }) => {
    const field = fieldOf(target);
    if (!field || field.contains(relatedTarget) || !typed.has(field.dataset.field)) return;
    left.add(field.dataset.field);
    form.dispatchEvent(new Event("keep"));
    settle(judge);
  });

  form.addEventListener("kept", ({ detail }) => {
    const since = detail.unsaved.map((name) => name.replace(/^field\./, ""));
    latest = detail.problems;
    since.forEach((key) => delete latest[key]);
    settle(() => {
      ask(detail.asked);
      typed.forEach((key) => { if (!latest[key] && !since.includes(key)) clear(key); });
      judge();
    });
  });

  // Nothing moves while a person presses something.
  let pressed = false;
  const waiting = [];
  const release = () => setTimeout(() => {
    pressed = false;
    waiting.splice(0).forEach((change) => change());
  });
  document.addEventListener("pointerdown", () => { pressed = true; });
  document.addEventListener("pointerup", release);
  document.addEventListener("pointercancel", release);

  function settle(change) {
    if (pressed) waiting.push(change);
    else setTimeout(change);
  }

  function fieldOf(element) {
    return element.closest?.("[data-field]");
  }

  // Conditional questions

  function unfold(template) {
    const key = template.dataset.when;
    const part = document.createElement("fieldset");
    part.className = "when";
    part.setAttribute("role", "none");
    part.dataset.when = key;
    part.hidden = part.disabled = true;
    const asked = document.createElement("input");
    Object.assign(asked, { type: "hidden", name: "asked", value: key });
    part.append(asked, template.content);
    template.replaceWith(part);
  }

  function ask(keys) {
    let more = false;
    for (const part of box.querySelectorAll("fieldset[data-when]")) {
      const asked = keys.includes(part.dataset.when);
      more ||= asked && part.hidden;
      part.hidden = part.disabled = !asked;
    }
    if (more) heard.textContent = words.more;
  }

  // Problems

  function judge() {
    for (const [key, text] of Object.entries(latest)) {
      const field = box.querySelector(`[data-field="${key}"]`);
      const shown = field?.querySelector(".problem");
      if (field && (left.has(key) || shown)) show(field, key, text, shown);
    }
  }

  function show(field, key, text, shown) {
    if (shown?.lastChild.textContent.trim() === text) return;
    clear(key);
    const problem = document.createElement("p");
    const word = document.createElement("span");
    problem.className = "problem";
    problem.id = `e-${key}`;
    word.className = "offscreen";
    word.textContent = words.problem;
    problem.append(word, ` ${text}`);
    (field.querySelector(".hint") ?? field.querySelector("label, legend")).after(problem);
    field.classList.add("wrong");
    describe(field, key, true);
    heard.textContent = `${field.querySelector("label bdi, legend bdi").textContent}: ${text}`;
  }

  function clear(key) {
    const field = box.querySelector(`[data-field="${key}"]`);
    if (!field?.querySelector(".problem")) return;
    field.querySelector(".problem").remove();
    field.classList.remove("wrong");
    describe(field, key, false);
    const listed = document.querySelector(`.problems a[href="#f-${key}"]`)?.closest("li");
    const list = listed?.closest(".problems");
    listed?.remove();
    if (list && !list.querySelector("li")) list.remove();
  }

  function describe(field, key, wrong) {
    const control = document.getElementById(`f-${key}`);
    const ids = new Set((control.getAttribute("aria-describedby") ?? "").split(" ").filter(Boolean));
    ids[wrong ? "add" : "delete"](`e-${key}`);
    if (ids.size) control.setAttribute("aria-describedby", [...ids].join(" "));
    else control.removeAttribute("aria-describedby");
    if (control === field) return;
    if (wrong) control.setAttribute("aria-invalid", "true");
    else control.removeAttribute("aria-invalid");
  }

  // Counters, sliders and masked values

  function count(line) {
    const control = line.parentElement.querySelector("input, textarea");
    const most = Number(line.dataset.most);
    const number = new Intl.NumberFormat(document.documentElement.dataset.locale);
    let timer;
    const tell = () => {
      const used = [...control.value].length;
      line.hidden = used < (control.matches("textarea") ? 1 : most / 2);
      line.classList.toggle("over", used > most);
      line.setAttribute("aria-live", used > most * 0.8 ? "polite" : "off");
      line.textContent = line.dataset.text
        .replace("{used}", number.format(used))
        .replace("{most}", number.format(most));
    };
    control.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(tell, 400);
    });
    tell();
  }

  function slide(control) {
    const [from, to] = [Number(control.dataset.from), Number(control.dataset.to || 100)];
    const slider = document.createElement("input");
    const whole = Number.isInteger(from) && Number.isInteger(to) && to - from > 1;
    Object.assign(slider, { type: "range", min: from, max: to, step: whole ? 1 : 0.01 });
    slider.tabIndex = -1; // for pointers: the box beside it has the same value
    slider.setAttribute("aria-hidden", "true");
    slider.value = control.value || from;
    const row = document.createElement("div");
    row.className = "slide";
    control.replaceWith(row);
    row.append(control, slider);
    slider.addEventListener("input", () => {
      control.value = slider.value;
      control.dispatchEvent(new Event("input", { bubbles: true }));
    });
    control.addEventListener("input", () => { slider.value = control.value || from; });
  }

  function unmask(control) {
    const field = fieldOf(control);
    const key = field.dataset.field;
    const [row, button, word, label] = ["div", "button", "span", "span"].map((tag) => document.createElement(tag));
    const emptied = document.createElement("input");
    let masked = true;
    button.type = "button";
    word.textContent = words.show;
    label.className = "offscreen";
    label.textContent = ` ${field.querySelector("label bdi").textContent}`;
    button.append(word, label);
    row.className = "secret";
    control.replaceWith(row);
    row.append(control, button);
    button.addEventListener("click", () => {
      masked = !masked;
      if (control.matches("textarea")) control.classList.toggle("masked", masked);
      else control.type = masked ? "password" : "text";
      word.textContent = masked ? words.show : words.hide;
    });
    // An empty box keeps the saved value, unless something was typed here and deleted again.
    Object.assign(emptied, { type: "hidden", name: "emptied", value: key });
    control.addEventListener("input", () => (control.value ? emptied.remove() : row.append(emptied)));
  }
}
