// The legend of a picture, and texts that fit. The shapes are those of `figures/svg_picture.py`.
import { Tone } from "./base.js";

export type Shape = "block" | "bar" | "line" | "dashes" | "ring" | "tick" | "triangle" | "dot" | "frame";

/** A line of a legend; `alpha`: how opaque the mark is. */
export interface Key {
  shape: Shape;
  tone: Tone;
  text: string;
  alpha?: number;
}

/** A key at its place: `y` is the middle of its mark. */
export interface Placed {
  key: Key;
  x: number;
  y: number;
}

/** The height of a line. */
export const LINE = 16;
const MARK = 20;
const GAP = 14;

/** Places keys between `left` and `right`, in as many lines as they take. */
export function placeKeys(keys: Key[], left: number, right: number, width: (text: string) => number): Placed[] {
  let [x, y] = [left, 8];
  return keys.map((key) => {
    const wide = MARK + width(key.text);
    if (x > left && x + wide > right) [x, y] = [left, y + LINE];
    const placed = { key, x, y };
    x += wide + GAP;
    return placed;
  });
}

/** A text that is at most `room` wide: its begin, or with `end` its end. */
export function elided(text: string, room: number, width: (text: string) => number, end = false): string {
  if (width(text) <= room) return text;
  let [low, high] = [0, text.length];
  const cut = (letters: number): string => (end ? `…${text.slice(text.length - letters)}` : `${text.slice(0, letters)}…`);
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (width(cut(middle)) <= room) low = middle;
    else high = middle - 1;
  }
  return cut(low);
}

/** Draws the mark of a key, 14 pixels wide, around the height `y`. */
export function drawMark(context: CanvasRenderingContext2D, key: Key, colour: string, x: number, y: number): void {
  context.save();
  context.fillStyle = context.strokeStyle = colour;
  context.globalAlpha = key.alpha ?? 1;
  context.lineWidth = 1.5;
  context.beginPath();
  if (key.shape === "block") context.fillRect(x, y - 5, 14, 10);
  else if (key.shape === "bar") context.fillRect(x, y - 1, 14, 3);
  else if (key.shape === "tick") context.fillRect(x + 6, y - 5, 2, 10);
  else if (key.shape === "frame") {
    context.strokeRect(x + 0.5, y - 4.5, 13, 9);
    context.globalAlpha *= 0.3;
    context.fillRect(x, y - 5, 14, 10);
  } else if (key.shape === "triangle") {
    drawTriangle(context, x + 7, y);
    context.fill();
  } else if (key.shape === "dot" || key.shape === "ring") {
    context.arc(x + 7, y, 3.5, 0, 7);
    if (key.shape === "dot") context.fill();
    else context.stroke();
  } else {
    if (key.shape === "dashes") context.setLineDash([3, 3]);
    context.moveTo(x, y);
    context.lineTo(x + 14, y);
    context.stroke();
  }
  context.restore();
}

export function drawTriangle(context: CanvasRenderingContext2D, x: number, y: number): void {
  context.moveTo(x, y - 5);
  context.lineTo(x + 5, y + 4);
  context.lineTo(x - 5, y + 4);
}
