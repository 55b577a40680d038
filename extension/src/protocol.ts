// The messages between a window and a kernel. `tritonlab/notebook/shell/comm.py` is the other half.

/** Changes when a message means something else than before. */
export const PROTOCOL = 1;
export const TARGET = "tritonlab";

export type State = "READY" | "NOT READY" | "LOADING" | "UNLOADING" | "UNLOADED" | "NOT LOADED" | "FAILED";

/** A model of the notebook. `cell`: the text of the cell it was tried from last; `served`: of the one that serves. */
export interface Model {
  name: string;
  version: number;
  state: State;
  reason: string;
  cell: string;
  served: string;
  error: { text: string; line: number | null } | null;
}

/** What an export would do with a model. `needed_by`: the model it goes with, "" if it was asked for. */
export interface Plan {
  name: string;
  needed_by: string;
  path: string;
  exists: boolean;
  differs: boolean;
  added: string[];
  changed: string[];
  removed: string[];
  unchanged: string[];
  warnings: string[];
}

/** What an export did. `relative`: the repository as seen from the notebook's directory. */
export interface Exported {
  repository: string;
  relative: string;
  models: { name: string; path: string; files: string[]; changed: boolean; backup: string; warnings: string[] }[];
  tree: string;
  commands: string[];
}

/** A model as the panel shows it. Times in milliseconds, of the last seconds; `loading`: seconds since it began. */
export interface ModelNow {
  name: string;
  version: number;
  state: State;
  reason: string;
  loading: number | null;
  /** `place`: what it was put on, such as "CPU" or "simulated GPU 1"; `holds`: what its process has of GPUs. */
  instances: { name: string; kind: string; place: string; holds: string; pid: number | null; state: string; restarts: number; failure: string }[];
  answered: number;
  failed: number;
  rate: number;
  p50_ms: number | null;
  p99_ms: number | null;
}

/** A request in flight. `age` in seconds. `ends`: what ends it once it was cancelled in vain, "" before. */
export interface RequestNow {
  model: string;
  version: number;
  request_id: string;
  serial: number;
  state: string;
  age: number;
  instance: string;
  called_by: string;
  ends: string;
}

export interface Overview {
  models: ModelNow[];
  requests: RequestNow[];
  more: number;
  draining: { name: string; text: string }[];
  /** a sentence on each line */
  memory: string;
  gpus: string;
  ports: Record<string, string>;
}

export interface Log {
  count: number;
  lines: { time: string; model: string; instance: string; stream: string; level: string; text: string }[];
}

/** What Triton would refuse in a config. `line` from 1, 0 for the whole; `start` and `end`: columns from 0. */
export interface Refused {
  text: string;
  line: number;
  start: number;
  end: number;
}

/** What a window can ask for: what goes with it, and what comes back. The rows of `comm_calls.CALLS`. */
export interface Calls {
  plan: { with: { models: string[]; directory: string; alone?: boolean }; ok: { directory: string; models: Plan[] } };
  export: {
    with: { model: string; directory: string; overwrite?: boolean; alone?: boolean };
    ok: Exported;
  };
  /** The texts of the cells that write a model of a repository that was opened. */
  cells: { with: { model: string }; ok: { cells: string[] } };
  load: { with: { name: string }; ok: { name: string; state: State } };
  unload: { with: { name: string }; ok: { name: string } };
  stop: { with: { name: string }; ok: { name: string } };
  kill: { with: { name: string }; ok: { name: string; killed: unknown[] } };
  cancel: { with: { serial: number }; ok: { serial: number; cancelled: boolean } };
  overview: { with: Record<string, never>; ok: Overview };
  /** Answers `typing`: whether the window was asked for the line that a debugger in the kernel waits for, and whether
   *  it shows a box for it. */
  typing: { with: InputBox; ok: null };
  logs: { with: { model?: string; level?: string; search?: string; limit?: number }; ok: Log };
  check: { with: { text: string; model?: string }; ok: Refused[] };
  /** What may stand at the end of `text`: what is `typed` of it, and the words that begin so. */
  complete: { with: { text: string }; ok: { typed: string; words: string[] } };
  explain: { with: { text: string }; ok: { field: string; type: string; says: string } };
}

export interface InputBox {
  asked: boolean;
  shown: boolean;
}

/** What the kernel sends: an answer, or something it tells. */
export type Received =
  | { id: number; ok: unknown }
  | { id: number; error: { kind: string; text: string } }
  | { hello: { protocol: number; version: string } }
  | { models: Model[] }
  | { typing: boolean };
