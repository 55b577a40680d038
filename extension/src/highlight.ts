// Colours for what Triton's users write: the magics' line, `%%triton_config` cells, and .pbtxt files.
import { JupyterFrontEnd } from "@jupyterlab/application";
import { CodeCell, ICodeCellModel } from "@jupyterlab/cells";
import { EditorExtensionRegistry, IEditorExtensionRegistry, IEditorLanguageRegistry } from "@jupyterlab/codemirror";
import { NotebookPanel } from "@jupyterlab/notebook";

import { configHelp } from "./configHelp.js";
import { Config, configOfCell, isConfigCell } from "./configText.js";
import { KernelLinks } from "./links.js";
import { magicLine } from "./magicLine.js";
import { pbtxt, PBTXT_MIME } from "./pbtxt.js";

export function addHighlighting(
  app: JupyterFrontEnd,
  links: KernelLinks,
  languages: IEditorLanguageRegistry | null,
  extensions: IEditorExtensionRegistry | null,
): void {
  languages?.addLanguage({ name: "pbtxt", mime: PBTXT_MIME, extensions: ["pbtxt"], support: pbtxt() });
  app.docRegistry.addFileType({
    name: "pbtxt",
    displayName: "Protobuf text",
    extensions: [".pbtxt"],
    mimeTypes: [PBTXT_MIME],
    fileFormat: "text",
  });
  extensions?.addExtension({
    name: "tritonlab:magic-line",
    factory: ({ inline }) => (inline ? EditorExtensionRegistry.createImmutableExtension(magicLine) : null),
  });
  extensions?.addExtension({
    name: "tritonlab:config-help",
    factory: ({ inline, model }) => {
      const file = (): boolean => !inline && model.mimeType === PBTXT_MIME;
      const configIn = (text: string): Config | null =>
        inline ? configOfCell(text) : file() ? { from: 0, model: "" } : null;
      return EditorExtensionRegistry.createImmutableExtension(configHelp(configIn, () => links.listening));
    },
  });
  const { tracker } = links;
  if (languages) {
    tracker.widgetAdded.connect((_, panel) => colourConfigs(panel));
    tracker.forEach(colourConfigs);
  }
}

/** Has `%%triton_config` cells coloured as what they hold. */
function colourConfigs(panel: NotebookPanel): void {
  const known = new WeakSet<ICodeCellModel>();
  const colour = (): void => {
    for (const cell of panel.content.widgets) {
      if (!(cell instanceof CodeCell)) continue;
      const { model } = cell;
      if (!known.has(model)) {
        known.add(model);
        // the notebook gives all cells the kernel's language, whenever the kernel tells it
        model.mimeTypeChanged.connect(colour);
      }
      const config = isConfigCell(model.sharedModel.getSource());
      if (config && model.mimeType !== PBTXT_MIME) model.mimeType = PBTXT_MIME;
      else if (!config && model.mimeType === PBTXT_MIME) model.mimeType = panel.content.codeMimetype;
    }
  };
  panel.content.modelContentChanged.connect(colour);
  void panel.revealed.then(colour);
}
