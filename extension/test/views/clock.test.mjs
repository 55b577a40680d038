import assert from "node:assert/strict";
import { test } from "node:test";

import { Clock, axisBeforeNow, clockText, stepText, timeStep } from "../../lib/views/clock.js";

const [S, MS] = [1e9, 1e6];
const HOUR = 3600 * S;
/** The kernel's clock was 0 at 12:00 of 24 Nov 2026. */
const NOON = Date.UTC(2026, 10, 24, 12) * MS;
const texts = ({ ticks }) => ticks.map((tick) => tick.text);

test("what was has the time of day on its axis, as exactly as its marks need", () => {
  const clock = new Clock(NOON);
  const axis = clock.axis(257_820 * MS, 259_900 * MS, 5);
  assert.deepEqual(texts(axis), ["12:04:18.0", "12:04:18.5", "12:04:19.0", "12:04:19.5"]);
  assert.equal(axis.name, "time of day, 24 Nov 2026; 500 ms between two marks");
  assert.ok(axis.ticks.every(({ time }) => time % (500 * MS) < 1000 || time % (500 * MS) > 499.99 * MS));
  assert.deepEqual(texts(clock.axis(0, 60 * S, 6)), ["12:00:00", "12:00:10", "12:00:20", "12:00:30", "12:00:40", "12:00:50", "12:01:00"]);
  assert.deepEqual(texts(clock.axis(0, 4 * HOUR, 4)), ["12:00", "13:00", "14:00", "15:00", "16:00"]);
  assert.deepEqual(texts(clock.axis(11.5 * HOUR, 12.5 * HOUR, 2)), ["23:30", "00:00", "00:30"]);
  assert.equal(clock.text(1.2345 * S, MS), "12:00:01.234");
});

test("two axes never have two zeros: a time has one text in all views", () => {
  const clock = new Clock(NOON);
  const [one, other] = [clock.axis(3 * S, 5 * S, 4), clock.axis(4 * S, 6 * S, 4)];
  const found = new Map(one.ticks.map(({ time, text }) => [time, text]));
  for (const { time, text } of other.ticks) assert.equal(found.get(time) ?? text, text);
});

test("what is followed has the time before now, in one unit for all marks", () => {
  const now = 123.4 * S;
  const axis = axisBeforeNow(now - 2 * S, now, now, 4);
  assert.deepEqual(texts(axis), ["−2.0 s", "−1.5 s", "−1.0 s", "−0.5 s", "now"]);
  assert.equal(axis.name, "time before now; 500 ms between two marks");
  assert.deepEqual(texts(axisBeforeNow(now - 10 * MS, now, now, 2)), ["−10 ms", "−5 ms", "now"]);
  assert.deepEqual(texts(axisBeforeNow(now - 3600 * S, now, now, 2)), ["−60 min", "−30 min", "now"]);
  assert.deepEqual(texts(axisBeforeNow(now - 128 * S, now, now, 5)), ["−120 s", "−90 s", "−60 s", "−30 s", "now"]);
});

test("no span has more marks than there is room for, nor a text of many digits", () => {
  for (let span = 1e3; span < 24 * HOUR; span *= 1.7) {
    for (const count of [2, 4, 8]) {
      const axis = axisBeforeNow(5 * HOUR, 5 * HOUR + span, 5 * HOUR + span, count);
      assert.ok(axis.ticks.length <= count + 1, `${span} ${count}: ${texts(axis)}`);
      assert.ok(texts(axis).every((text) => text.length <= 9), `${span}: ${texts(axis)}`);
      assert.ok(timeStep(span, count) * count >= span * 0.999);
    }
  }
});

test("a recording without a wall clock counts from its first event", () => {
  const axis = new Clock(null, 70 * S).axis(70 * S, 72 * S, 4);
  assert.deepEqual(texts(axis), ["0", "500 ms", "1 s", "1.5 s", "2 s"]);
  assert.equal(axis.name, "time since the first event; 500 ms between two marks");
});

test("steps and times of day", () => {
  assert.deepEqual([MS, 2 * S, 120 * S, 3 * HOUR].map(stepText), ["1 ms", "2 s", "2 min", "3 h"]);
  assert.equal(clockText(25 * HOUR, 60 * S), "01:00");
  assert.equal(clockText(86399.999999 * S, 1000), "23:59:59.999999");
});
