// The messages between a window and a kernel. `tritonlab/notebook/shell/comm.py` is the other half.

/** Changes when a message means something else than before. */
export const PROTOCOL = 3;
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

/** What pre-flight found: `row` P1 to P11; `outcome`: what comes of it at the target, "attention" if it depends. */
export interface Finding {
  row: string;
  sentence: string;
  remedy: string;
  source_line: string;
  outcome: string;
}

/** A file that is left out unless it is asked for. */
export interface LeftOut {
  path: string;
  why: string;
  bytes: number | null;
  included: boolean;
}

/** A model in the report of an export: `report.to_dict()["models"]`. `backup`: where the former directory is now. */
export interface ExportedModel {
  name: string;
  path: string;
  differs: boolean;
  bytes: number;
  added: string[];
  changed: string[];
  removed: string[];
  files: string[];
  warnings: string[];
  backup: string | null;
}

/** What an export would do with a model. `needed_by`: the model it goes with, "" if it was asked for. `captured`: the
 *  names that would be written in front of it. */
export interface Plan extends ExportedModel {
  needed_by: string;
  exists: boolean;
  findings: Finding[];
  notes: string[];
  captured: string[];
  left_out: LeftOut[];
}

/** Why a choice cannot be, and what to do. `is_place`: `fix` is the directory to export to instead. */
export interface Refusal {
  text: string;
  fix: string;
  is_place?: boolean;
}

/** An environment that goes with the models. `bytes`: in each model's directory, about. */
export interface Environment {
  text: string;
  packages: string[];
  bytes: number;
  warnings: string[];
}

/** Files beside the repository. */
export interface Beside {
  path: string;
  added: string[];
  changed: string[];
  unchanged: string[];
}

/** The report of an export: `report.to_dict()`, its text, and the repository as seen from the notebook's directory.
 *  `bytes`: of all models, with their environments. */
export interface Report<Of extends ExportedModel> {
  repository: string;
  relative: string;
  models: Of[];
  bytes: number;
  beside: Beside | null;
  environment: Environment | null;
  tree: string;
  commands: string[];
}

/** What an export would do. */
export interface Plans extends Report<Plan> {
  artifacts: { file: string; problem: string; bytes: number | null }[];
  /** what is sent to prove it; `kept`: the most last requests of one model that there are */
  requests: { text: string; problem: string; kept: number } | null;
  verify: { release: string; problem: string; cached: boolean; text: string }[];
  refused: { env?: Refusal; deploy?: Refusal; capture?: Refusal };
}

/** What can be chosen, the defaults first where they have no field. `started`: it is judged by more than a table. */
export interface Choices {
  targets: { name: string; text: string; started: boolean }[];
  target: string;
  environments: string[];
  kinds: string[];
}

/** The options of an export besides its models and its directory; one that is left out is as it was without it. */
export interface ExportOptions {
  alone?: boolean;
  target?: string;
  env?: string;
  deploy?: string[];
  capture?: boolean;
  artifacts?: Record<string, string>;
  include?: string[];
  verify?: string[];
  last?: number;
}

/** How far an export is: bytes of the models, or a line about what it does now. */
export type Progress = { done: number; total: number } | { line: string };

/** What an export did. `relative`: the page of the verdict, as seen from the notebook's directory. */
export interface Exported extends Report<ExportedModel> {
  verification: {
    passed: boolean;
    verified: { triton: string; passed: boolean; verified: boolean; verdict: string }[];
    not_verified: string[];
    page: string;
    relative: string;
  } | null;
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
  export_choices: { with: Record<string, never>; ok: Choices };
  plan: { with: { models: string[]; directory: string } & ExportOptions; ok: Plans };
  /** `job`: a name for `cancel_export`. Says how far it is. */
  export: {
    with: { models: string[]; directory: string; overwrite?: boolean; job?: string } & ExportOptions;
    ok: Exported;
  };
  zip_export: { with: { job: string }; ok: { path: string; relative: string; bytes: number } };
  cancel_export: { with: { job: string }; ok: { cancelled: boolean } };
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
  | { id: number; progress: Progress }
  | { hello: { protocol: number; version: string } }
  | { models: Model[] }
  | { typing: boolean };
