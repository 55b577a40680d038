// Completion in .pbtxt files, as the kernel has it for `%%triton_config` cells.
import {
  CompletionHandler,
  ICompletionContext,
  ICompletionProvider,
  ICompletionProviderManager,
} from "@jupyterlab/completer";

import { KernelLink } from "./link.js";
import { PBTXT_MIME } from "./pbtxt.js";

/** `listening`: a link that is open; without one nothing is offered. */
export function completeConfigFiles(manager: ICompletionProviderManager, listening: () => KernelLink | null): void {
  manager.registerProvider(new ConfigFields(listening));
}

class ConfigFields implements ICompletionProvider {
  readonly identifier = "tritonlab:config-fields";
  readonly rank = 600;
  readonly renderer = null;

  constructor(private readonly _listening: () => KernelLink | null) {}

  isApplicable({ editor, session }: ICompletionContext): Promise<boolean> {
    // a cell has a session, and its kernel completes it
    return Promise.resolve(editor?.model.mimeType === PBTXT_MIME && !session);
  }

  async fetch(request: CompletionHandler.IRequest): Promise<CompletionHandler.ICompletionItemsReply> {
    const end = request.offset; // in characters, as Python counts them
    const text = [...request.text].slice(0, end).join("");
    const link = this._listening();
    const found = link ? await link.ask("complete", { text }).catch(() => null) : null;
    const { typed, words } = found ?? { typed: "", words: [] };
    return { start: end - [...typed].length, end, items: words.map((label) => ({ label })) };
  }
}
