// What the kernel has recorded of one model, as far as the browser has it: `views/record_view.py` sends it.
// Nothing here knows of a page, so that node can test it.
import { Table, makeTable, numbersOf } from "./table.js";

const MOST_MARKS = 1000;

/** The tables of a record, with the columns that views read (`profile/model_record.py`); a view has some of them. */
export interface Tables {
  batches: Table<
    | "start"
    | "end"
    | "instance"
    | "version"
    | "size"
    | "count"
    | "reason"
    | "compute_input"
    | "compute_infer"
    | "compute_output"
    | "failed"
    | "first"
  >;
  requests: Table<"serial" | "arrived" | "queued" | "batch" | "size" | "shapes">;
  rejected?: Table<"time" | "reason">;
  responses: Table<"serial" | "time" | "kind" | "shapes">;
  streams: Table<StreamColumn | "serial">;
}

export type StreamColumn =
  | "arrived"
  | "executed"
  | "first"
  | "last"
  | "end"
  | "count"
  | "kind"
  | "polls"
  | "asked"
  | "noticed";

export interface Words {
  instance: string[];
  reason: string[];
  /** name and shape of each input */
  shapes: [string, number[]][][];
  sequence: string[];
}
type WordKind = keyof Words;

/** Something that happened once; `serial` is that of its request, or 0. */
export interface Mark {
  number: number;
  time: number;
  kind: string;
  text: string;
  serial: number;
}

export interface RunningBatch {
  instance: string;
  start: number;
  size: number;
  count: number;
}

export interface OpenRequest {
  serial: number;
  id: string;
  arrived: number;
  executed: number;
  instance: string;
  /** its `execute` runs */
  executes: boolean;
  polls: number;
  asked: number;
  noticed: number;
}

/** What happens now; a view has some of it. */
export interface Live {
  /** the names of the instances there are */
  instances?: string[];
  waiting?: number[];
  waiting_count?: number;
  running?: RunningBatch[];
  open?: OpenRequest[];
}

/** A record in the browser: that of a model's events, or of its metrics. */
export interface BrowserRecord {
  /** what the kernel need not send again */
  readonly known: unknown;
  /** Takes a message of the kernel; false if one before it was lost, and `known` must be sent again. */
  apply(message: never, buffers: (DataView | ArrayBuffer)[]): boolean;
}

export interface RecordMessage {
  kind: "record";
  epoch: number;
  rows: { table: keyof Tables; at: number; oldest: number }[];
  words?: Partial<Record<WordKind, [number, never[]]>>;
  ids?: [number, string][];
  marks?: [number, number, string, string, number][];
  live?: Live;
  dropped?: number;
  /** the kernel's clock */
  now?: number;
  done?: boolean;
}

export class RecordStore implements BrowserRecord {
  readonly tables: Tables;
  epoch: number | null = null;
  words!: Words;
  /** by rows of `requests`, those that have one */
  ids!: Map<number, string>;
  marks!: Mark[];
  live!: Live;
  /** events that the kernel has dropped, of all tables */
  dropped = 0;
  private _markCount = 0;

  /** `columns`: of each table its columns; `capacity`: rows kept of each. */
  constructor(columns: Partial<Record<keyof Tables, string[]>>, capacity: number) {
    const tables = Object.entries(columns).map(([name, names]) => [name, makeTable(names, capacity)]);
    this.tables = Object.fromEntries(tables) as Tables;
    this.clear();
  }

  clear(): void {
    for (const table of this._tables()) table.clear();
    this.words = { instance: [], reason: [], shapes: [], sequence: [] };
    this.ids = new Map();
    this.marks = [];
    this._markCount = 0;
    this.live = {};
    this.dropped = 0;
  }

  /** How many rows are kept. */
  get kept(): number {
    return this._tables().reduce((sum, table) => sum + table.length, 0);
  }

  get known(): unknown {
    const rows = Object.fromEntries(Object.entries(this.tables).map(([name, table]) => [name, (table as Table).total]));
    return { epoch: this.epoch, rows, marks: this._markCount, words: this._counts() };
  }

  apply(message: RecordMessage, buffers: (DataView | ArrayBuffer)[]): boolean {
    if (message.epoch !== this.epoch) {
      this.clear();
      this.epoch = message.epoch;
    }
    const words = Object.entries(message.words ?? {}) as [WordKind, [number, never[]]][];
    const counts = this._counts();
    if (words.some(([kind, [from]]) => from > counts[kind])) return false;
    for (const { table, at, oldest } of message.rows) {
      if (at > this._table(table).total && at > oldest) return false;
    }
    for (const [place, { table, at }] of message.rows.entries()) this._table(table).put(at, numbersOf(buffers[place]));
    for (const [kind, [from, more]] of words) this.words[kind].splice(from, more.length, ...more);
    for (const [row, id] of message.ids ?? []) this.ids.set(row, id);
    this._forgetIds();
    for (const [number, time, kind, text, serial] of message.marks ?? []) {
      if (number < this._markCount) continue;
      this.marks.push({ number, time, kind, text, serial });
      this._markCount = number + 1;
    }
    if (this.marks.length > MOST_MARKS) this.marks.splice(0, this.marks.length - MOST_MARKS);
    if (message.live) this.live = message.live;
    this.dropped = message.dropped ?? this.dropped;
    return true;
  }

  /** What people call the request of a row. */
  name(row: number): string {
    return this.ids.get(row) || `request ${this.tables.requests.serial(row)}`;
  }

  /** The inputs of a request, by the number of its shapes: "X [1, 4], Y [1]". */
  shapesText(number: number): string {
    return (this.words.shapes[number] ?? []).map(([name, shape]) => `${name} [${shape.join(", ")}]`).join(", ");
  }

  private _tables(): Table[] {
    return Object.values(this.tables) as Table[];
  }

  private _table(name: keyof Tables): Table {
    return this.tables[name] as Table;
  }

  private _counts(): Record<WordKind, number> {
    const { instance, reason, shapes, sequence } = this.words;
    return { instance: instance.length, reason: reason.length, shapes: shapes.length, sequence: sequence.length };
  }

  private _forgetIds(): void {
    const { requests } = this.tables;
    if (!requests || this.ids.size <= requests.length) return;
    for (const row of this.ids.keys()) if (row < requests.oldest) this.ids.delete(row);
  }
}
