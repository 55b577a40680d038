import assert from "node:assert/strict";
import { test } from "node:test";
import { MetricsRecord, MetricsStore, differingText, labelText, rateText, valueText } from "../../lib/views/metricsStore.js";
import { short } from "../../lib/views/text.js";

const S = 1e9;

function store(...series) {
  const record = new MetricsRecord({}, 1000);
  const rows = series.map(([name], number) => ({ number, name, labels: [["kind", "a"]], at: 0, oldest: 0 }));
  const families = { hits_total: ["counter", "hits"], size: ["gauge", ""], took: ["histogram", ""] };
  record.apply({ epoch: 1, rows, families }, series.map(([, ...points]) => Float64Array.from(points.flat()).buffer));
  return new MetricsStore(record);
}

test("a counter is a rate, and begins at nothing", () => {
  const metrics = store(["hits_total", [1 * S, 5], [2.5 * S, 9], [3.5 * S, 2]]);
  const [series] = metrics.record.series.values();
  // each point is the growth of 2 s before; 9 to 2: it has begun again
  assert.deepEqual([...metrics.points(series, "counter", 0, 6 * S, 6)], [5, 5, 2, 3, 1, 0]);
  assert.deepEqual([...metrics.points(series, "counter", 2 * S, 4 * S, 2)], [2, 3]);
  assert.deepEqual([...metrics.points(series, "counter", -4 * S, 4 * S, 2)], [NaN, 11 / 3]); // no shorter than a point, and no longer than is known
  assert.equal(metrics.seriesText(series, "counter", 0, 3 * S), "2, 2 per second");
});

test("a counter that is read now and then is a slope", () => {
  const metrics = store(["nv_inference_exec_count", [1 * S, 5], [2 * S, 15], [4 * S, 15]]);
  const [series] = metrics.record.series.values();
  assert.deepEqual([...metrics.points(series, "sampled", 0, 5 * S, 5)], [0, 10, 5, 0, NaN]);
  assert.equal(metrics.seriesText(series, "sampled", 0, 2 * S), "15, 10 per second");
});

test("a gauge stays what it was", () => {
  const metrics = store(["size", [1.5 * S, 5], [2.5 * S, 9]]);
  const [series] = metrics.record.series.values();
  assert.deepEqual([...metrics.points(series, "gauge", 0, 4 * S, 4)], [NaN, 5, 9, 9]);
  assert.deepEqual([...metrics.points(series, "gauge", 3 * S, 4 * S, 1)], [9]);
  assert.equal(metrics.seriesText(series, "gauge", 0, 3 * S), "9");
  assert.deepEqual([0, 2 * S, 2.5 * S].map((to) => metrics.present(series, "gauge", to)), [NaN, 5, 9]);
});

test("a histogram is what was observed in the time", () => {
  const metrics = store(["took", [1.5 * S, 3], [1.6 * S, 1], [2.5 * S, 2]]);
  const [series] = metrics.record.series.values();
  assert.deepEqual([...metrics.points(series, "histogram", 0, 4 * S, 4)], [0, 2, 1, 0]);
  assert.deepEqual(metrics.observed(series, 0, 4 * S), { count: 3, p50: 2, p95: 3 });
  assert.equal(metrics.seriesText(series, "histogram", 0, 2 * S), "2 observed, p50 3, p95 3");
});

test("families stand by name, Triton's own last", () => {
  const metrics = store(["took", [1, 1]], ["nv_inference_exec_count", [3, 1]], ["hits_total", [2, 1]], ["took", [1, 1]]);
  assert.deepEqual(metrics.families().map((one) => [one.name, one.kind, one.series.length]), [
    ["hits_total", "counter", 1],
    ["size", "gauge", 0], // described, and without a value yet: its chart does not come later
    ["took", "histogram", 2],
    ["nv_inference_exec_count", "gauge", 1],
  ]);
  assert.deepEqual([metrics.first(), metrics.last(), metrics.busy], [1, 3, true]);
});

const FAILURES = ["BACKEND", "CANCELED", "OTHER", "REJECTED"];

test("failed requests are a chart of Triton's own, with a line for each reason", () => {
  const record = new MetricsRecord({}, 1000);
  const name = "nv_inference_request_failure";
  const rows = FAILURES.map((reason, number) => ({ number, name, labels: [["version", "1"], ["reason", reason]], at: 0, oldest: 0 }));
  rows.push({ number: 4, name: "nv_inference_request_success", labels: [["version", "1"]], at: 0, oldest: 0 });
  const values = [[0, 0], [0, 0], [0, 30], [2, 2], [7, 7]];
  const buffers = values.map(([before, after]) => Float64Array.of(1 * S, before, 2 * S, after).buffer);
  record.apply({ epoch: 1, rows, families: { [name]: ["sampled", "Triton's own"] } }, buffers);
  const metrics = new MetricsStore(record);
  const [failures, success] = metrics.families();
  assert.deepEqual([failures.name, failures.kind, failures.series.length], [name, "sampled", 4]);
  const lines = failures.series.map((series) => [...metrics.points(series, failures.kind, 1 * S, 2 * S, 1)]);
  assert.deepEqual(lines, [[0], [0], [30], [0]]);
  const told = ["BACKEND 0, 0", "CANCELED 0, 0", "OTHER 30, 30", "REJECTED 2, 0"].map((one) => `version=1, reason=${one} per second`);
  assert.equal(metrics.familyText(failures, 1 * S, 2 * S), told.join("; "));
  assert.equal(metrics.familyText(success, 1 * S, 2 * S), "7"); // one series needs no labels
});

test("what was lost is asked for again", () => {
  const { record } = store(["took", [1, 1]]);
  const row = { number: 0, name: "took", labels: [], oldest: 0 };
  const more = Float64Array.of(2, 1).buffer;
  assert.equal(record.apply({ epoch: 1, rows: [{ ...row, at: 5 }] }, [more]), false);
  assert.equal(record.apply({ epoch: 1, rows: [{ ...row, at: 1 }] }, [more]), true);
  assert.deepEqual(record.known, { epoch: 1, rows: { 0: 2 } });
  record.apply({ epoch: 2, rows: [] }, []);
  assert.deepEqual(record.known, { epoch: 2, rows: {} });
});

test("custom counters and those that are read have the same rate", () => {
  const metrics = store(["hits_total", [1 * S, 10], [2 * S, 20], [3 * S, 30], [4 * S, 40]], ["nv_inference_exec_count", [1 * S, 10], [2 * S, 20], [3 * S, 30], [4 * S, 40]]);
  const [custom, own] = metrics.record.series.values();
  assert.deepEqual([metrics.present(custom, "counter", 4 * S), metrics.present(own, "sampled", 4 * S)], [10, 10]);
  assert.deepEqual(metrics.points(custom, "counter", 3 * S, 4 * S, 1), metrics.points(own, "sampled", 3 * S, 4 * S, 1));
  // an idle counter falls to 0, one that was not read again is not known
  assert.deepEqual([metrics.present(custom, "counter", 9 * S), metrics.present(own, "sampled", 9 * S)], [0, 10]);
});

test("the number beside a curve is the curve's last point", () => {
  const metrics = store(["hits_total", [1 * S, 5], [2.5 * S, 9], [3.4 * S, 30]]);
  const [series] = metrics.record.series.values();
  assert.equal(metrics.points(series, "counter", 1 * S, 4 * S, 300).at(-1), metrics.present(series, "counter", 4 * S));
});

test("durations are words, whatever the unit of the metric", () => {
  assert.equal(rateText("nv_inference_compute_infer_duration_us", 1_600_000), "1.6 s of compute per second");
  assert.equal(rateText("nv_inference_queue_duration_us", 2_810), "2.81 ms of waiting per second");
  assert.equal(rateText("spent_seconds_total", 0.25), "250 ms per second");
  assert.equal(rateText("hits_total", 25.5), "25.5 per second");
  assert.equal(rateText("nv_inference_queue_duration_us", NaN), "–");
  assert.equal(valueText("took_ms", "gauge", 1500), "1.5 s");
  assert.equal(valueText("inputs", "bytes", 3 * 2 ** 20), "3 MiB");
  assert.equal(valueText("last_score", "gauge", 0.20731), "0.207");
});

test("curves of a family are named by what differs", () => {
  const series = (...labels) => ({ labels });
  const reasons = ["BACKEND", "OTHER"].map((reason) => series(["version", "1"], ["reason", reason]));
  assert.deepEqual(reasons.map((one) => differingText(one, reasons)), ["BACKEND", "OTHER"]);
  const pairs = [series(["a", "1"], ["b", "1"]), series(["a", "2"], ["b", "2"])];
  assert.equal(differingText(pairs[1], pairs), "a=2, b=2");
  assert.equal(differingText(reasons[0], [reasons[0]]), "");
});

test("what people read", () => {
  assert.deepEqual([NaN, 3, 1200, 0.12345, 1234567, 12.3456].map(short), ["–", "3", "1,200", "0.123", "1.23M", "12.3"]);
  assert.equal(labelText([["a", "1"], ["b", "2"]]), "a=1, b=2");
});
