// The sliders of the timeline: what would have happened with another delay, other sizes, other instances. Their ghost
// lanes are drawn by the timeline.
import { ask } from "./base.js";
import { element } from "./time_canvas.js";
import { FIELDS, WhatIfStore } from "./what_if_store.js";

const WORDS = {
  max_queue_delay_microseconds: "Delay",
  preferred_batch_size: "Preferred size",
  max_batch_size: "Largest batch",
  instances: "Instances",
};

export class WhatIf {
  /** `window()`: the time in view; `changed()`: something is to be drawn. */
  constructor(model, root, window, changed) {
    Object.assign(this, { model, window, changed, store: new WhatIfStore(), open: false, waits: false, asked: false });
    this.button = element("button", "What if");
    this.button.dataset.do = "what-if";
    this.button.setAttribute("aria-expanded", "false");
    root.querySelector(".tl-bar2 .tl-grow").after(this.button);
    this.box = element("div", "", "tl-whatif");
    this.box.hidden = true;
    this.state = element("div"); // of the load, or what went wrong; not redrawn with the sliders
    this.state.setAttribute("role", "status");
    root.querySelector(".tl-facts").before(this.box);
    this.box.addEventListener("input", (event) => this.moved(event.target));
    this.box.addEventListener("keydown", (event) => event.stopPropagation()); // an arrow would move to another cell
    this.box.addEventListener("click", (event) => {
      if (event.target.dataset.do === "reload") ask(model, { do: "reload", settings: this.store.settings });
      if (event.target.dataset.do === "reset") this.reset();
    });
  }

  toggle() {
    this.open = !this.open;
    this.button.setAttribute("aria-expanded", String(this.open));
    this.box.hidden = !this.open;
    this.box.replaceChildren(this.state);
    if (this.open) ask(this.model, { do: "choices" });
    else this.store.clear();
    this.changed();
  }

  reset() {
    this.store.offer(this.store.choices);
    this.build();
    this.replay();
  }

  moved(slider) {
    this.state.textContent = "";
    this.store.set(slider.dataset.field, Number(slider.value));
    this.show();
    this.replay();
  }

  /** Asks for a replay; while one is under way, the last question waits. */
  replay() {
    if (this.asked) {
      this.waits = true;
      return;
    }
    this.asked = true;
    ask(this.model, { do: "replay", settings: this.store.settings, window: this.window().map(Math.round) });
  }

  heard(message, buffers) {
    if (message.what === "choices") {
      this.store.offer(message);
      this.build();
      this.replay();
    } else if (message.what === "ghosts") {
      this.store.apply(message, buffers[0]);
      this.say(message);
      if (message.part === "view") this.answered();
    } else if (message.what === "problem") {
      this.state.textContent = message.text;
      this.answered();
    } else if (message.what === "reloading") this.state.textContent = "Loading…";
    else if (message.what === "reloaded") {
      this.state.textContent = message.text;
      ask(this.model, { do: "choices" });
    }
    this.changed();
  }

  answered() {
    this.asked = false;
    if (!this.waits) return;
    this.waits = false;
    this.replay();
  }

  build() {
    const row = element("div", "", "tl-sliders");
    for (const field of FIELDS) {
      const choices = this.store.choices[field];
      const label = element("label");
      label.append(element("span", WORDS[field], "tl-dim"));
      const slider = element("input");
      Object.assign(slider, { type: "range", min: 0, max: choices.length - 1, step: 1, disabled: choices.length < 2 });
      slider.dataset.field = field;
      label.append(slider, element("span", "", "tl-count"));
      row.append(label);
    }
    this.said = element("div", "", "tl-why tl-ifs");
    this.said.setAttribute("aria-live", "polite");
    this.note = element("div", "", "tl-dim");
    const keep = element("details", "", "tl-twin");
    this.lines = element("pre", "", "tl-lines");
    keep.append(element("summary", "Lines for config.pbtxt"), this.lines);
    const buttons = element("div", "", "tl-buttons");
    for (const [what, words] of [["reload", "Reload with this"], ["reset", "As it is now"]]) {
      const button = element("button", words);
      button.dataset.do = what;
      buttons.append(button);
    }
    this.box.replaceChildren(row, this.said, this.note, buttons, this.state, keep);
    this.show();
  }

  /** Shows what the sliders say. */
  show() {
    for (const slider of this.box.querySelectorAll("input")) {
      const { field } = slider.dataset;
      slider.value = this.store.place(field);
      const text = words(field, this.store.settings[field]);
      slider.nextSibling.textContent = text;
      slider.setAttribute("aria-valuetext", text);
    }
    const { settings, choices } = this.store;
    const same = FIELDS.every((field) => JSON.stringify(settings[field]) === JSON.stringify(choices.now[field]));
    for (const button of this.box.querySelectorAll("button")) button.disabled = same;
  }

  say(message) {
    this.said.textContent = message.text + (message.part === "view" ? " · of what is in view…" : "");
    this.note.textContent = message.notes.join(" ");
    this.lines.textContent = message.config;
  }
}

function words(field, value) {
  if (field === "preferred_batch_size") return value.length ? value.join(", ") : "none";
  if (field !== "max_queue_delay_microseconds") return String(value);
  return value >= 1000 ? `${value / 1000} ms` : `${value} µs`;
}
