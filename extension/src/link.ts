// One comm to one kernel, and what it has sent.
import { ISignal, Signal } from "@lumino/signaling";

import { Calls, InputBox, Model, Progress, PROTOCOL, Received, TARGET } from "./protocol.js";

/** The part of JupyterLab's kernel connection that a link uses. */
export interface Kernel {
  readonly id: string;
  readonly status: string;
  readonly supportsSubshells?: boolean;
  hasPendingInput: boolean;
  readonly statusChanged: ISignal<unknown, string>;
  createComm(target: string): Comm;
  interrupt(): Promise<void>;
}

export interface Comm {
  onMsg: (message: { content: { data: unknown } }) => void | PromiseLike<void>;
  onClose: (message: never) => void | PromiseLike<void>;
  readonly isDisposed: boolean;
  readonly subshellStarted?: Promise<unknown>;
  open(data?: never): unknown;
  send(data: never): unknown;
  close(): unknown;
}

/** `absent`: the kernel does not know tritonlab; `foreign`: its tritonlab speaks another protocol. */
export type LinkState = "closed" | "opening" | "open" | "absent" | "foreign";

/** The kernel refused what was asked. `kind`: the class of the error, or Triton's code. */
export class KernelError extends Error {
  constructor(
    readonly kind: string,
    text: string,
  ) {
    super(text);
  }
}

interface Waiting {
  resolve: (value: never) => void;
  progress?: (progress: Progress) => void;
  reject: (error: Error) => void;
}

const SUBSHELL_MS = 2000;
const GONE = ["restarting", "autorestarting", "terminating", "dead"];

/** Guarantees: every question is answered or fails, also when the kernel goes; `models` is empty while it is not open. */
export class KernelLink {
  models: Model[] = [];
  /** The box for a line of input to the kernel. */
  inputBox: () => InputBox = () => ({ asked: false, shown: false });
  /** tritonlab's version in the kernel */
  version = "";
  private _state: LinkState = "closed";
  private _comm: Comm | null = null;
  private _opening: Promise<boolean> | null = null;
  private _next = 1;
  private readonly _waiting = new Map<number, Waiting>();
  private readonly _changed = new Signal<this, void>(this);

  constructor(readonly kernel: Kernel) {
    kernel.statusChanged.connect(this._onStatus, this);
  }

  get state(): LinkState {
    return this._state;
  }

  /** The state or the models are others. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Opens it, unless it is open. False if the kernel does not know tritonlab, or another one. */
  connect(): Promise<boolean> {
    if (this._state === "open") return Promise.resolve(true);
    this._opening ??= this._open().finally(() => (this._opening = null));
    return this._opening;
  }

  /** Asks the kernel, and opens the link before if need be. Rejects with a KernelError. */
  async ask<K extends keyof Calls>(
    name: K,
    given: Calls[K]["with"],
    progress?: (progress: Progress) => void,
  ): Promise<Calls[K]["ok"]> {
    if (!(await this.connect())) throw new KernelError("absent", "the kernel has not loaded tritonlab");
    const id = this._next++;
    return new Promise((resolve, reject) => {
      this._waiting.set(id, { resolve: resolve, reject, progress });
      this._comm?.send({ id, do: name, with: given } as never);
    });
  }

  /** Tells the kernel that nobody listens any more. */
  dispose(): void {
    this.kernel.statusChanged.disconnect(this._onStatus, this);
    if (this._comm && !this._comm.isDisposed) this._comm.close();
    this._drop("closed", "the window was closed");
    Signal.clearData(this);
  }

  private async _open(): Promise<boolean> {
    this._set("opening");
    let comm: Comm;
    try {
      comm = this.kernel.createComm(TARGET);
    } catch {
      this._set("closed"); // JupyterLab gives the kernel's messages to another notebook of this window
      return false;
    }
    this._comm = comm;
    // What a subshell serves is served while a cell runs. Its id comes later than the comm.
    const late = new Promise((resolve) => setTimeout(resolve, SUBSHELL_MS));
    if (this.kernel.supportsSubshells) await Promise.race([comm.subshellStarted, late]);
    if (this._comm !== comm) return false;
    const answered = new Promise<LinkState>((resolve) => {
      comm.onMsg = (message) => {
        const received = message.content.data as Received;
        if ("hello" in received) {
          this.version = received.hello.version;
          resolve(received.hello.protocol === PROTOCOL ? "open" : "foreign");
        }
        this._receive(received);
      };
      comm.onClose = () => {
        resolve("absent");
        if (this._comm === comm) this._drop(this._state === "opening" ? "absent" : "closed", "the kernel closed it");
      };
      this._waiting.set(0, { resolve: () => undefined, reject: () => resolve("closed") });
    });
    comm.open();
    const state = await answered;
    this._waiting.delete(0);
    if (this._comm === comm) this._set(state);
    return state === "open";
  }

  private _receive(received: Received): void {
    if ("models" in received) {
      this.models = received.models;
      this._changed.emit();
    } else if ("typing" in received) {
      if (received.typing) void this.ask("typing", this.inputBox()).catch(() => undefined);
      else this.kernel.hasPendingInput = false; // otherwise JupyterLab runs no cell: the box for the line is gone
    } else if ("progress" in received) {
      this._waiting.get(received.id)?.progress?.(received.progress);
    } else if ("id" in received) {
      const waiting = this._waiting.get(received.id);
      this._waiting.delete(received.id);
      if ("error" in received) waiting?.reject(new KernelError(received.error.kind, received.error.text));
      else waiting?.resolve(received.ok as never);
    }
  }

  private _onStatus(_: unknown, status: string): void {
    if (GONE.includes(status)) this._drop("closed", "the kernel was restarted");
  }

  private _drop(state: LinkState, why: string): void {
    this._comm = null;
    this.models = [];
    for (const waiting of [...this._waiting.values()]) waiting.reject(new KernelError("gone", why));
    this._waiting.clear();
    this._set(state);
  }

  private _set(state: LinkState): void {
    this._state = state;
    this._changed.emit();
  }
}
