// Tables of numbers as the kernel records them (`profile/ring.py`).
const FIRST_ROWS = 1024;

/** The last rows of a table; row n is the n-th that was ever added. */
class Rows {
  readonly width: number;
  total = 0;
  /** the oldest row that is kept */
  oldest = 0;
  private _room = 0;
  private _data = new Float64Array(0);

  constructor(
    readonly columns: readonly string[],
    readonly capacity: number,
  ) {
    this.width = columns.length;
    this.clear();
  }

  clear(): void {
    this._room = Math.min(FIRST_ROWS, this.capacity);
    this._data = new Float64Array(this._room * this.width);
    this.total = this.oldest = 0;
  }

  get length(): number {
    return this.total - this.oldest;
  }

  /** The number in a row, at a place among the columns. */
  at(row: number, place: number): number {
    return this._data[(row % this._room) * this.width + place];
  }

  /** Adds rows that begin at number `at`; those that are known are skipped. */
  put(at: number, numbers: Float64Array): void {
    const skipped = Math.max(this.total - at, 0);
    const count = numbers.length / this.width - skipped;
    if (count <= 0) return;
    if (at > this.total) this.total = this.oldest = at;
    this._grow(this.length + count);
    for (let n = 0; n < count; n++, this.total++) {
      const from = (skipped + n) * this.width;
      this._data.set(numbers.subarray(from, from + this.width), (this.total % this._room) * this.width);
    }
    this.oldest = Math.max(this.oldest, this.total - this.capacity);
  }

  /** The first kept row whose `value(row)` is at least `limit`; `value` must not fall from row to row. */
  find(value: (row: number) => number, limit: number): number {
    let [low, high] = [this.oldest, this.total];
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (value(middle) < limit) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  private _grow(rows: number): void {
    if (rows <= this._room || this._room === this.capacity) return;
    const [room, data] = [this._room, this._data];
    while (this._room < rows) this._room *= 2;
    this._room = Math.min(this._room, this.capacity);
    this._data = new Float64Array(this._room * this.width);
    for (let row = this.oldest; row < this.total; row++) {
      const from = (row % room) * this.width;
      this._data.set(data.subarray(from, from + this.width), (row % this._room) * this.width);
    }
  }
}

/** A table with a function of the row for each of its columns: `batches.start(row)`. */
export type Table<Column extends string = never> = Rows & Readonly<Record<Column, (row: number) => number>>;

export function makeTable<Column extends string>(columns: readonly Column[], capacity: number): Table<Column> {
  const rows = new Rows(columns, capacity);
  const readers = columns.map((name, place) => [name, (row: number) => rows.at(row, place)]);
  return Object.assign(rows, Object.fromEntries(readers)) as Table<Column>;
}

/** The numbers of a buffer, wherever in memory the comm put it. */
export function numbersOf(buffer: DataView | ArrayBuffer): Float64Array {
  const view = buffer instanceof DataView ? buffer : new DataView(buffer);
  if (view.byteOffset % 8 === 0) return new Float64Array(view.buffer, view.byteOffset, view.byteLength / 8);
  return new Float64Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));
}
