// Tables of results that sort, filter and go to a file. The kernel writes plain tables (`figures/tables.py`), which stay
// readable where nothing runs; here they get a line of tools once JupyterLab draws them. Own code, 3 kB: ipydatagrid 1.4.0
// is a wheel of 1.9 MB, itables 2.9.1 one of 1.6 MB (2026-11-28).

const ANIMATION = "tritonlab-table";
const UNITS: Record<string, number> = { ns: 1e-9, µs: 1e-6, us: 1e-6, ms: 1e-3, s: 1, min: 60, KB: 1e3, MB: 1e6, GB: 1e9 };

/** The number that a cell begins with, in the unit's base; NaN for a word. */
export function numberOf(text: string): number {
  const found = /^[-+−]?[\d,]*\.?\d+(?:e[-+]?\d+)?/.exec(text.trim());
  if (!found) return Number.NaN;
  const unit = text.trim().slice(found[0].length).trim().split(/\s/)[0];
  return Number(found[0].replaceAll(",", "").replace("−", "-")) * (UNITS[unit] ?? 1);
}

/** The order of two cells: numbers by value and before words, words by letters. */
export function compareCells(one: string, other: string): number {
  const [a, b] = [numberOf(one), numberOf(other)];
  if (Number.isNaN(a) && Number.isNaN(b)) return one.localeCompare(other, undefined, { numeric: true });
  if (Number.isNaN(a)) return 1;
  return Number.isNaN(b) ? -1 : a - b;
}

/** Rows as CSV (RFC 4180). */
export function csvOf(rows: readonly (readonly string[])[]): string {
  const cell = (text: string): string => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return rows.map((row) => row.map(cell).join(",") + "\r\n").join("");
}

const textsOf = (row: HTMLTableRowElement): string[] => [...row.cells].map((cell) => (cell.textContent ?? "").trim());

function sortBy(table: HTMLTableElement, column: number, heads: HTMLTableCellElement[]): void {
  const head = heads[column];
  const descends = head.getAttribute("aria-sort") === "ascending";
  for (const each of heads) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", descends ? "descending" : "ascending");
  const body = table.tBodies[0];
  const sign = descends ? -1 : 1;
  const rows = [...body.rows].map((row) => ({ row, text: textsOf(row)[column] ?? "" }));
  rows.sort((a, b) => sign * compareCells(a.text, b.text));
  body.append(...rows.map(({ row }) => row));
}

function download(table: HTMLTableElement): void {
  const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden);
  const heads = [...(table.tHead?.rows ?? [])].map(textsOf);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([csvOf([...heads, ...rows.map(textsOf)])], { type: "text/csv" }));
  link.download = "table.csv";
  link.click();
  URL.revokeObjectURL(link.href);
}

function addTools(table: HTMLTableElement): void {
  const row = table.tHead?.rows[0];
  if (!row || !table.tBodies[0] || table.dataset.tools) return;
  table.dataset.tools = "yes";
  const heads = [...row.cells] as HTMLTableCellElement[];
  heads.forEach((head, column) => {
    head.tabIndex = 0;
    head.title = "Sort";
    head.addEventListener("click", () => sortBy(table, column, heads));
    head.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        event.stopPropagation();
        sortBy(table, column, heads);
      }
    });
  });
  const tools = document.createElement("div");
  tools.className = "tritonlab-table-tools";
  const filter = document.createElement("input");
  Object.assign(filter, { type: "search", placeholder: "Filter rows" });
  filter.setAttribute("aria-label", "Filter rows");
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const each of table.tBodies[0].rows) {
      const text = textsOf(each).join(" ").toLowerCase();
      each.hidden = !words.every((word) => text.includes(word));
    }
  });
  filter.addEventListener("keydown", (event) => event.stopPropagation());
  const save = document.createElement("button");
  Object.assign(save, { type: "button", textContent: "CSV", title: "Save the rows that are shown as table.csv" });
  save.addEventListener("click", () => download(table));
  tools.append(filter, save);
  table.before(tools);
}

/** Gives every table of results that is drawn from now on its tools. An animation of its style tells of it. */
export function addTableTools(): void {
  document.addEventListener("animationstart", (event) => {
    if (event.animationName === ANIMATION && event.target instanceof HTMLTableElement) addTools(event.target);
  });
}
