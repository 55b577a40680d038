// The words and bars of a timeline.
import { Tone, counted, element, factsTable } from "./base.js";
import { RecordStore } from "./recordStore.js";
import { duration } from "./text.js";
import { bars } from "./timeCanvas.js";
import { TimelineFacts } from "./timelineStore.js";

/** What is known of a batch. */
export function batchText(record: RecordStore, row: number): string {
  const { batches } = record.tables;
  const { instance, reason } = record.words;
  const parts = [
    `input ${duration(batches.compute_input(row))}`,
    `infer ${duration(batches.compute_infer(row))}`,
    `output ${duration(batches.compute_output(row))}`,
  ];
  return (
    `Batch ${row} on ${instance[batches.instance(row)]}, version ${batches.version(row)}: ` +
    `${counted(batches.count(row), "request")}, size ${batches.size(row)}, ` +
    `closed because: ${reason[batches.reason(row)] || "unknown"}. ` +
    `It took ${duration(batches.end(row) - batches.start(row))} (${parts.join(", ")})` +
    (batches.failed(row) ? " and failed." : ".")
  );
}

/** What is known of a request. */
export function requestText(record: RecordStore, row: number): string {
  const { batches, requests } = record.tables;
  const batch = requests.batch(row);
  const waited = duration(batches.start(batch) - requests.queued(row));
  const answered = duration(batches.end(batch) - requests.arrived(row));
  const times = batch >= batches.oldest ? `, waited ${waited}, answered after ${answered}` : "";
  const failed = record.marks.find((mark) => mark.serial && mark.serial === requests.serial(row));
  const shapes = record.shapesText(requests.shapes(row)) || "shapes not kept";
  return `${record.name(row)}: ${shapes}${times}` + (failed ? `; ${failed.kind}: ${failed.text}` : "");
}

export function factsText(facts: TimelineFacts): string {
  if (!facts.batches) return "Nothing was executed in the time shown.";
  return (
    `${counted(facts.requests, "request")} in ${counted(facts.batches, "batch")}; waited ${duration(facts.queue.p50)} at the median, ` +
    `${duration(facts.queue.p95)} at the 95th percentile; executed ${duration(facts.compute.p50)} and ${duration(facts.compute.p95)}.`
  );
}

export const byCount = (one: [string, number], other: [string, number]): number => other[1] - one[1];

export function sizeBars(facts: TimelineFacts): HTMLElement {
  return bars("Batch sizes", [...facts.sizes].sort((one, other) => one[0] - other[0]), "accent");
}

/** Bars whose keys are words. */
export function wordBars(title: string, entries: [string, number][], tone: "accent" | "warn"): HTMLElement {
  const box = bars(title, entries, tone);
  box.classList.add("tl-words");
  return box;
}

export function splitBar(facts: TimelineFacts): HTMLElement {
  const box = element("div", "", "tl-chart");
  box.append(element("div", "Queue and compute", "tl-dim"));
  const whole = facts.queued + facts.computed;
  const strip = element("div", "", "tl-bar");
  const parts: [number, Tone][] = [[facts.queued, "warn"], [facts.computed, "accent"]];
  for (const [part, tone] of whole ? parts : []) {
    const piece = element("span"); // a pixel wide at least
    piece.style.cssText = `width:${(part / whole) * 100}%;background:var(--tl-${tone})`;
    strip.append(piece);
  }
  box.append(strip);
  const rows = ([["queue", facts.queue], ["compute", facts.compute]] as const).map(([word, { p50, p95 }]) => {
    return [word, duration(p50), duration(p95)];
  });
  box.append(factsTable(["", "p50", "p95"], rows));
  return box;
}
