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

/** What a window can ask for: what goes with it, and what comes back. The rows of `comm_calls.CALLS`. */
export interface Calls {
  plan: { with: { models: string[]; directory: string; alone?: boolean }; ok: { directory: string; models: Plan[] } };
  export: {
    with: { model: string; directory: string; overwrite?: boolean; alone?: boolean };
    ok: Exported;
  };
  load: { with: { name: string }; ok: { name: string; state: State } };
  unload: { with: { name: string }; ok: { name: string } };
}

/** What the kernel sends: an answer, or something it tells. */
export type Heard =
  | { id: number; ok: unknown }
  | { id: number; error: { kind: string; text: string } }
  | { hello: { protocol: number; version: string } }
  | { models: Model[] };
