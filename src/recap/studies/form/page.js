"use strict";
// One rater's form: shows an item at a time, keeps the answers in this browser, saves, loads and hands them in.
const page = document.body.dataset; // study, sheet, online
const items = [...document.querySelectorAll(".item")];
const KEY = `recap-study-${page.study}-${page.sheet}`;
const FORM = "recap study response 1";
const FINISH = page.online ? ["Send", "Send again"] : ["Finish", "Save the file again"];
const element = (id) => document.getElementById(id);
const empty = () => ({ consent: false, finished: false, answers: {}, seconds: {} });
let state = empty();
let place = -1; // the item shown; -1: consent; items.length: the end
let since = performance.now();
let visible = document.visibilityState === "visible";

function say(text, wrong = false) {
  const line = element("message");
  line.className = wrong ? "wrong" : "";
  line.textContent = text;
}

function stored(action) {
  try {
    return action();
  } catch (error) {
    say("This browser cannot keep your answers. Save a copy before you close the page (see below).", true);
    return null;
  }
}

const keep = () => stored(() => localStorage.setItem(KEY, JSON.stringify(state)));
const numberOf = (part) => part.closest(".item").dataset.item;
const questionsOf = (item) => [...item.querySelectorAll(".question")];
const answerTo = (question, values = state) => values.answers?.[numberOf(question)]?.[question.dataset.question];
const answered = (item) => questionsOf(item).every((question) => answerTo(question));

function answer(question, value, values = state) {
  (values.answers[numberOf(question)] ??= {})[question.dataset.question] = value;
}

// Adds the seconds since the last call to the item on the screen; a hidden page does not count.
function count() {
  const now = performance.now();
  const item = items[place];
  if (item && visible) {
    const before = state.seconds[numberOf(item)] || 0;
    state.seconds[numberOf(item)] = Math.round((before + (now - since) / 1000) * 10) / 10;
  }
  since = now;
}

function mark() {
  for (const input of document.querySelectorAll(".question input")) {
    input.checked = answerTo(input.closest(".question")) === input.value;
  }
  element("agree").checked = state.consent;
  const done = items.filter(answered).length;
  element("done").value = done;
  element("count").textContent = `${done} of ${items.length} answered`;
}

function show(next, focus = true) {
  count();
  place = next;
  element("consent-part").hidden = place !== -1;
  element("end").hidden = place !== items.length;
  items.forEach((item, index) => (item.hidden = index !== place));
  element("back").hidden = place < 1;
  element("next").hidden = place === items.length;
  element("next").textContent = place === -1 ? "Begin" : "Next";
  element("bar").hidden = place === -1;
  if (place === items.length) end();
  if (focus) {
    const part = items[place] || element(place === -1 ? "consent-part" : "end");
    (part.querySelector("[tabindex='-1']") || part).focus();
    window.scrollTo(0, 0);
  }
}

function end() {
  const open = items.filter((item) => !answered(item));
  element("open").replaceChildren(
    ...open.map((item) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = `Item ${numberOf(item)}`;
      button.addEventListener("click", () => show(items.indexOf(item)));
      return button;
    }),
  );
  element("open-part").hidden = open.length === 0;
  element("finish").disabled = open.length > 0;
  // Whether the answers were handed in; a changed answer has to be handed in again.
  element("to-do").hidden = state.finished;
  element("done-part").hidden = !state.finished;
  element("finish").className = state.finished ? "" : "main";
  element("finish").textContent = FINISH[Number(state.finished)];
}

function next() {
  say("");
  if (place === -1 && !state.consent) {
    say("To begin, say that you have read the text and take part.", true);
    element("agree").focus();
    return;
  }
  if (items[place] && !answered(items[place])) {
    say("This item is not answered yet.", true);
    const asked = questionsOf(items[place]).find((question) => !question.querySelector(":checked"));
    asked.querySelector("input").focus();
    return;
  }
  keep();
  show(Math.min(place + 1, items.length));
}

function response(finished = state.finished) {
  return JSON.stringify({ form: FORM, study: page.study, sheet: page.sheet, ...state, finished });
}

function save(name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([response()], { type: "application/json" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Takes what fits this form from a copy or from the browser's store, and nothing else.
function take(values) {
  const taken = { ...empty(), consent: values.consent === true, finished: values.finished === true };
  for (const item of items) {
    for (const question of questionsOf(item)) {
      const value = answerTo(question, values);
      const inputs = [...question.querySelectorAll("input")];
      if (inputs.some((input) => input.value === value)) answer(question, value, taken);
    }
    const seconds = values.seconds?.[numberOf(item)];
    if (Number.isFinite(seconds) && seconds >= 0) taken.seconds[numberOf(item)] = seconds;
  }
  state = taken;
}

async function load(file) {
  const values = await file.text().then(JSON.parse).catch(() => null);
  if (!values || values.form !== FORM) return say("This file is no copy of a form.", true);
  if (values.study !== page.study || values.sheet !== page.sheet) {
    return say(`This is a copy of another form${values.sheet ? ` (${values.sheet})` : ""}, not of ${page.sheet}.`, true);
  }
  take(values);
  keep();
  mark();
  show(start());
  say("The copy is loaded.");
}

async function finish() {
  if (!page.online) {
    state.finished = true;
    keep();
    save(`response-${page.sheet}.json`);
    end();
    say(`Saved as response-${page.sheet}.json.`);
    return;
  }
  const button = element("finish");
  button.disabled = true; // a second click while the first is under way would send the same again
  say("Sending…");
  try {
    const reply = await fetch(location.pathname, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: response(true),
    });
    if (!reply.ok) throw new Error((await reply.text()).trim().replace(/\.$/, "") || String(reply.status));
    state.finished = true;
    keep();
    end();
    say("Your answers have arrived. Thank you!");
  } catch (error) {
    say(`Not sent: ${error.message}. Your answers are kept in this browser: try again, or save a copy.`, true);
  }
  button.disabled = false;
}

function start() {
  if (!state.consent) return -1;
  const open = items.findIndex((item) => !answered(item));
  return open === -1 ? items.length : open;
}

document.addEventListener("change", (event) => {
  const question = event.target.closest(".question");
  if (question) {
    state.finished = false;
    answer(question, event.target.value);
    say("");
    count();
  } else if (event.target.id === "agree") {
    state.consent = event.target.checked;
    say("");
  } else if (event.target.id === "load") {
    if (event.target.files[0]) load(event.target.files[0]);
    event.target.value = "";
    return;
  }
  keep();
  mark();
});

// A digit chooses an answer of the question that has the focus; Enter goes on.
document.addEventListener("keydown", (event) => {
  const question = event.target.closest(".question");
  const asked = question || event.target.id === "agree";
  if (!asked || event.ctrlKey || event.altKey || event.metaKey) return;
  const inputs = question ? [...question.querySelectorAll("input")] : [];
  const chosen = /^[1-9]$/.test(event.key) ? inputs[Number(event.key) - 1] : null;
  if (chosen) {
    chosen.focus();
    chosen.click();
  } else if (event.key === "Enter") {
    event.preventDefault();
    next();
  }
});

for (const name of ["visibilitychange", "pagehide"]) {
  window.addEventListener(name, () => {
    count();
    visible = document.visibilityState === "visible";
    keep();
  });
}

element("form").addEventListener("submit", (event) => event.preventDefault());
element("next").addEventListener("click", next);
element("back").addEventListener("click", () => show(place - 1));
element("finish").addEventListener("click", finish);
element("save").addEventListener("click", () => save(`copy-${page.sheet}.json`));
element("print").addEventListener("click", () => window.print());
for (const part of document.querySelectorAll(".screen[hidden]")) part.hidden = false;
const before = stored(() => JSON.parse(localStorage.getItem(KEY) || "null"));
if (before) take(before);
mark();
show(start(), false);
