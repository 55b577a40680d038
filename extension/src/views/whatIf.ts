// The sliders of the timeline: what would have happened with another delay, other sizes, other instances. The timeline
// draws the replayed batches.
import { Model } from "./anywidget.js";
import { element, find, send } from "./base.js";
import { Choices, FIELDS, Field, ReplayMessage, Settings, WhatIfStore } from "./whatIfStore.js";

const LABELS: Record<Field, string> = {
  max_queue_delay_microseconds: "Delay",
  preferred_batch_size: "Preferred size",
  max_batch_size: "Largest batch",
  instances: "Instances",
};

/** Replies of `views/what_if_lanes.py`. */
export type WhatIfMessage = { kind: "what if" } & (
  | ({ what: "choices" } & Choices)
  | ({ what: "batches"; text: string; notes: string[]; config: string } & ReplayMessage)
  | { what: "problem" | "reloaded"; text: string }
  | { what: "reloading" }
);

export class WhatIf {
  readonly store = new WhatIfStore();
  isOpen = false;
  private readonly _button = element("button", "What if");
  private readonly _box = element("div", "", "tl-whatif");
  /** of the load, or what went wrong; not redrawn with the sliders */
  private readonly _status = element("div");
  private readonly _result = element("div", "", "tl-why tl-ifs");
  private readonly _notes = element("div", "", "tl-dim");
  private readonly _lines = element("pre", "", "tl-lines");
  /** a replay is under way, and another one waits for its end */
  private _isReplaying = false;
  private _isQueued = false;

  /** `window()`: the time in view; `onChange()`: something is to be drawn. */
  constructor(
    private readonly _model: Model,
    root: HTMLElement,
    private readonly _window: () => number[],
    private readonly _onChange: () => void,
  ) {
    this._button.dataset.do = "what-if";
    this._button.setAttribute("aria-expanded", "false");
    find(root, ".tl-bar2 .tl-grow").after(this._button);
    this._box.hidden = true;
    this._status.setAttribute("role", "status");
    this._result.setAttribute("aria-live", "polite");
    find(root, ".tl-facts").before(this._box);
    this._box.addEventListener("input", (event) => this._onSlider(event.target as HTMLInputElement));
    this._box.addEventListener("keydown", (event) => event.stopPropagation()); // an arrow would move to another cell
    this._box.addEventListener("click", (event) => this._onClick(event.target as HTMLElement));
  }

  toggle(): void {
    this.isOpen = !this.isOpen;
    this._button.setAttribute("aria-expanded", String(this.isOpen));
    this._box.hidden = !this.isOpen;
    this._box.replaceChildren(this._status);
    if (this.isOpen) void send(this._model, { do: "choices" });
    else this.store.clear();
    this._onChange();
  }

  onMessage(message: WhatIfMessage, buffers: DataView[]): void {
    if (message.what === "choices") {
      this.store.offer(message);
      this._build();
      this._replay();
    } else if (message.what === "batches") {
      this.store.apply(message, buffers[0]);
      this._result.textContent = message.text + (message.part === "view" ? " · of what is in view…" : "");
      this._notes.textContent = message.notes.join(" ");
      this._lines.textContent = message.config;
      if (message.part === "view") this._onReplayed();
    } else if (message.what === "problem") {
      this._status.textContent = message.text;
      this._onReplayed();
    } else if (message.what === "reloading") this._status.textContent = "Loading…";
    else {
      this._status.textContent = message.text;
      void send(this._model, { do: "choices" });
    }
    this._onChange();
  }

  private _onClick(target: HTMLElement): void {
    if (target.dataset.do === "reload") void send(this._model, { do: "reload", settings: this.store.settings });
    if (target.dataset.do === "reset" && this.store.choices) {
      this.store.offer(this.store.choices);
      this._build();
      this._replay();
    }
  }

  private _onSlider(slider: HTMLInputElement): void {
    this._status.textContent = "";
    this.store.set(slider.dataset.field as Field, Number(slider.value));
    this._show();
    this._replay();
  }

  /** Requests a replay; while one is under way, the last request waits. */
  private _replay(): void {
    this._isQueued = this._isReplaying;
    if (this._isReplaying) return;
    this._isReplaying = true;
    void send(this._model, { do: "replay", settings: this.store.settings, window: this._window().map(Math.round) });
  }

  private _onReplayed(): void {
    this._isReplaying = false;
    if (this._isQueued) this._replay();
  }

  private _build(): void {
    const row = element("div", "", "tl-sliders");
    for (const field of FIELDS) {
      const count = this.store.choices?.[field].length ?? 0;
      const label = element("label");
      label.append(element("span", LABELS[field], "tl-dim"));
      const slider = element("input");
      Object.assign(slider, { type: "range", min: 0, max: count - 1, step: 1, disabled: count < 2 });
      slider.dataset.field = field;
      label.append(slider, element("span", "", "tl-count"));
      row.append(label);
    }
    this._result.textContent = this._notes.textContent = this._lines.textContent = "";
    const keep = element("details", "", "tl-twin");
    keep.append(element("summary", "Lines for config.pbtxt"), this._lines);
    const buttons = element("div", "", "tl-buttons");
    for (const [what, text] of [["reload", "Reload with this"], ["reset", "As it is now"]]) {
      const button = element("button", text);
      button.dataset.do = what;
      buttons.append(button);
    }
    this._box.replaceChildren(row, this._result, this._notes, buttons, this._status, keep);
    this._show();
  }

  /** Shows the values of the sliders. */
  private _show(): void {
    const { settings } = this.store;
    if (!settings) return;
    for (const slider of this._box.querySelectorAll("input")) {
      const field = slider.dataset.field as Field;
      slider.value = String(this.store.place(field));
      const text = settingText(field, settings);
      if (slider.nextElementSibling) slider.nextElementSibling.textContent = text;
      slider.setAttribute("aria-valuetext", text);
    }
    for (const button of this._box.querySelectorAll("button")) button.disabled = this.store.isUnchanged;
  }
}

function settingText(field: Field, settings: Settings): string {
  if (field === "preferred_batch_size") return settings.preferred_batch_size.join(", ") || "none";
  const value = settings[field];
  if (field !== "max_queue_delay_microseconds") return String(value);
  return value >= 1000 ? `${value / 1000} ms` : `${value} µs`;
}
