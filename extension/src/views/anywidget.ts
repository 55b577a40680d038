// The parts of the interfaces of anywidget, ipywidgets and JupyterLab's kernels that views use.

/** A comm to the kernel, as JupyterLab makes it. */
export interface Comm {
  onClose: (message: never) => void | PromiseLike<void>;
  readonly subshellStarted?: Promise<unknown>;
  open(data?: unknown): unknown;
  send(data: unknown): unknown;
}

export interface Kernel {
  readonly supportsSubshells?: boolean;
  createComm(target: string): Comm;
  interrupt(): Promise<void>;
}

export interface WidgetManager {
  /** null in a page without a kernel */
  readonly kernel?: Kernel | null;
  get_model?(id: string): Promise<{ comm_live?: boolean } | undefined>;
}

/** The widget of a view: `state` is JSON from the kernel, which `LiveView` of `views/widget.py` writes. */
export interface Model<State = unknown, Message = unknown> {
  readonly widget_manager?: WidgetManager;
  get(name: "state"): State;
  get(name: "view" | "own_id"): string;
  on(event: "msg:custom", handler: (message: Message, buffers: DataView[]) => void): void;
  on(event: string, handler: () => void): void;
  off(event: "msg:custom", handler: (message: Message, buffers: DataView[]) => void): void;
  off(event: string, handler: () => void): void;
  send(content: unknown, callbacks?: unknown, buffers?: ArrayBuffer[]): void;
}

/** What anywidget's `render` is called with. */
export interface RenderContext<State = unknown, Message = unknown> {
  model: Model<State, Message>;
  el: HTMLElement;
}

/** Ends a drawing. */
export type Cleanup = () => void;
