"use strict";
// One rater's form: shows an item at a time, keeps the answers in this browser, saves, loads and hands them in.
const page = document.body.dataset; // study, sheet
const items = [...document.querySelectorAll(".item")];
const KEY = `recap-study-${page.study}-${page.sheet}`;
const FORM = "recap study response 1";
const FINISH = ["Finish", "Save the file again"];
const element = (id) => document.getElementById(id);
let finished = false; // handed in; a changed answer has to be handed in again
let seconds = {}; // on the screen, by item
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

const keep = () => stored(() => localStorage.setItem(KEY, JSON.stringify(response())));
const open = (item) => [...item.querySelectorAll(".question")].find((question) => !question.querySelector(":checked"));
const namesOf = (input) => [input.closest(".item").dataset.item, input.closest(".question").dataset.question];

// What is stored and saved; the inputs hold the answers.
function response() {
  const answers = {};
  for (const input of document.querySelectorAll(".question :checked")) {
    const [number, question] = namesOf(input);
    (answers[number] ??= {})[question] = input.value;
  }
  const consent = element("agree").checked;
  return { form: FORM, study: page.study, sheet: page.sheet, consent, finished, answers, seconds };
}

// Adds the seconds since the last call to the item on the screen; a hidden page does not count.
function count() {
  const now = performance.now();
  const item = items[place];
  if (item && visible) {
    const before = seconds[item.dataset.item] || 0;
    seconds[item.dataset.item] = Math.round((before + (now - since) / 1000) * 10) / 10;
  }
  since = now;
}

function mark() {
  const done = items.filter((item) => !open(item)).length;
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
  element("to-do").hidden = finished;
  element("done-part").hidden = !finished;
  element("finish").className = finished ? "" : "main";
  element("finish").textContent = FINISH[Number(finished)];
}

function next() {
  say("");
  if (place === -1 && !element("agree").checked) {
    say("To begin, say that you have read the text and take part.", true);
    element("agree").focus();
    return;
  }
  if (items[place] && open(items[place])) {
    say("This item is not answered yet.", true);
    open(items[place]).querySelector("input").focus();
    return;
  }
  keep();
  show(Math.min(place + 1, items.length));
}

function save(name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(response())], { type: "application/json" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Takes what fits this form from a copy or from the browser's store, and nothing else.
function take(values) {
  element("agree").checked = values.consent === true;
  finished = values.finished === true;
  for (const input of document.querySelectorAll(".question input")) {
    const [number, question] = namesOf(input);
    input.checked = values.answers?.[number]?.[question] === input.value;
  }
  const times = items.map((item) => [item.dataset.item, values.seconds?.[item.dataset.item]]);
  seconds = Object.fromEntries(times.filter(([, time]) => Number.isFinite(time) && time >= 0));
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

function finish() {
  finished = true;
  keep();
  save(`response-${page.sheet}.json`);
  end();
  say(`Saved as response-${page.sheet}.json.`);
}

// Where to go on: consent, or the first open item; so at the end all items are answered.
function start() {
  if (!element("agree").checked) return -1;
  const first = items.findIndex(open);
  return first === -1 ? items.length : first;
}

document.addEventListener("change", (event) => {
  if (event.target.id === "load") {
    if (event.target.files[0]) load(event.target.files[0]);
    event.target.value = "";
    return;
  }
  finished &&= !event.target.closest(".question");
  say("");
  count();
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
