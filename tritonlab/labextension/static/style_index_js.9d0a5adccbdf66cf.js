"use strict";(self.rspackChunktritonlab=self.rspackChunktritonlab||[]).push([["style_index_js"],{"./node_modules/css-loader/dist/cjs.js!./style/base.css"(t,o,r){var e=r("./node_modules/css-loader/dist/runtime/noSourceMaps.js"),a=r.n(e),l=r("./node_modules/css-loader/dist/runtime/api.js"),i=(r.n(l))()(a());i.push([t.id,`/* Everything of ours is named tritonlab-*, and coloured as the theme says. */

.tritonlab-mark {
  position: absolute;
  top: 24px;
  left: 0;
  width: calc(var(--jp-cell-prompt-width) - 8px);
  padding: 1px 0;
  border: 0;
  background: none;
  color: var(--jp-ui-font-color2);
  font-family: var(--jp-ui-font-family);
  font-size: 10px;
  line-height: 1.25;
  text-align: right;
  white-space: pre-line;
  cursor: pointer;
}
.jp-InputArea:has(> .tritonlab-mark) {
  position: relative;
  min-height: 66px;
}
.tritonlab-mark-export {
  position: absolute;
  top: 42px;
  left: calc(var(--jp-cell-prompt-width) - 24px);
  padding: 1px;
  border: 0;
  background: none;
  line-height: 0;
  cursor: pointer;
  opacity: 0.65;
}
.tritonlab-mark[data-mark="failed"] + .tritonlab-mark-export {
  top: 54px;
}
.tritonlab-mark-export:hover,
.tritonlab-mark-export:focus-visible {
  opacity: 1;
}
.tritonlab-mark-export:focus-visible {
  outline: 1px solid var(--jp-brand-color1);
}
.tritonlab-mark::before {
  content: "";
  display: inline-block;
  width: 7px;
  height: 7px;
  margin-right: 3px;
  border-radius: 50%;
  background: var(--jp-layout-color4);
}
.tritonlab-mark:focus-visible {
  outline: 1px solid var(--jp-brand-color1);
}
.tritonlab-mark[data-mark="ready"]::before {
  background: var(--jp-success-color1);
}
.tritonlab-mark[data-mark="failed"] {
  color: var(--jp-error-color1);
}
.tritonlab-mark[data-mark="failed"]::before {
  background: var(--jp-error-color1);
}
.tritonlab-mark[data-mark="stale"]::before {
  background: none;
  outline: 1.5px solid var(--jp-warn-color1);
  outline-offset: -1.5px;
}
.tritonlab-mark[data-mark="loading"]::before {
  background: var(--jp-warn-color1);
  animation: tritonlab-pulse 1s ease-in-out infinite;
}
@keyframes tritonlab-pulse {
  50% {
    opacity: 0.25;
  }
}
@media (prefers-reduced-motion: reduce) {
  .tritonlab-mark::before {
    animation: none !important;
  }
}

.tritonlab-export .jp-Dialog-content {
  width: min(780px, 92vw);
  max-width: none;
  max-height: 86vh;
}
.tritonlab-form {
  display: flex;
  flex-direction: column;
  gap: 12px;
  overflow: auto;
  color: var(--jp-ui-font-color1);
  font-size: var(--jp-ui-font-size1);
}
.tritonlab-form p,
.tritonlab-form h3,
.tritonlab-form ul,
.tritonlab-form pre {
  margin: 0;
}
.tritonlab-form h3 {
  font-size: var(--jp-ui-font-size1);
  font-weight: 600;
}
.tritonlab-form h3 span {
  font-weight: 400;
}
.tritonlab-form ul {
  padding: 4px 0 0 12px;
  list-style: none;
  font-family: var(--jp-code-font-family);
  font-size: var(--jp-code-font-size);
}
.tritonlab-field {
  display: flex;
  flex-direction: column;
  gap: 4px;
}
.tritonlab-field progress {
  width: 100%;
}
.tritonlab-choice {
  display: flex;
  flex-wrap: wrap;
  gap: 4px 16px;
  margin: 0;
  padding: 4px 12px 8px;
  border: 1px solid var(--jp-border-color2);
}
.tritonlab-fields {
  display: flex;
  flex-direction: column;
  gap: 10px;
}
.tritonlab-field > label {
  display: flex;
  flex-direction: column;
  gap: 4px;
}
.tritonlab-option {
  display: grid;
  grid-template-columns: 96px minmax(0, 1fr);
  gap: 2px 12px;
  align-items: baseline;
  padding-top: 10px;
  border-top: 1px solid var(--jp-border-color2);
}
.tritonlab-option > div {
  display: flex;
  flex-wrap: wrap;
  gap: 4px 16px;
  align-items: baseline;
}
.tritonlab-option > .tritonlab-note {
  grid-column: 2;
  flex-direction: column;
  align-items: stretch;
}
.tritonlab-option > .tritonlab-note:empty {
  display: none;
}
.tritonlab-option select,
.tritonlab-option input[type="text"],
.tritonlab-option textarea {
  box-sizing: border-box;
  max-width: 100%;
  border: 1px solid var(--jp-border-color1);
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
  font-family: inherit;
  font-size: var(--jp-ui-font-size1);
}
.tritonlab-option select {
  appearance: auto;
  width: 320px;
  height: 30px;
}
.tritonlab-option input[type="text"] {
  width: 240px;
  height: 30px;
  padding: 0 8px;
}
.tritonlab-option details,
.tritonlab-option textarea {
  width: 100%;
}
.tritonlab-option textarea,
.tritonlab-option .tritonlab-code {
  margin-top: 4px;
  padding: 4px 8px;
  font-family: var(--jp-code-font-family);
  resize: vertical;
}
.tritonlab-option :is(select, input, textarea, summary):focus-visible,
.tritonlab-form :is(pre, summary):focus-visible {
  outline: 1px solid var(--jp-brand-color1);
}
.tritonlab-form summary {
  width: max-content;
  max-width: 100%;
  color: var(--jp-ui-font-color2);
  cursor: pointer;
}
.tritonlab-check {
  display: inline-flex;
  gap: 4px;
  align-items: baseline;
}
.tritonlab-form ul.tritonlab-findings {
  padding: 0;
  font-family: inherit;
  font-size: inherit;
}
.tritonlab-findings li {
  padding: 3px 8px;
  border-left: 3px solid var(--jp-border-color1);
  overflow-wrap: anywhere;
}
.tritonlab-findings li[data-stops="true"] {
  border-color: var(--jp-warn-color1);
}
.tritonlab-findings li + li {
  margin-top: 4px;
}
.tritonlab-plans {
  display: flex;
  flex-direction: column;
  gap: 10px;
  padding-top: 10px;
  border-top: 1px solid var(--jp-border-color2);
}
.tritonlab-plans[aria-busy="true"] {
  opacity: 0.6;
}
.tritonlab-form .tritonlab-command {
  white-space: pre-wrap;
  overflow-wrap: anywhere;
}
.tritonlab-form .tritonlab-steps {
  max-height: 40vh;
  overflow: auto;
}
.tritonlab-verdict {
  padding: 4px 8px;
  border-left: 3px solid var(--jp-warn-color1);
}
.tritonlab-verdict[data-passed="true"] {
  border-color: var(--jp-success-color1);
}
.tritonlab-form .tritonlab-verdict ul {
  font-family: inherit;
  font-size: inherit;
}
.tritonlab-dim {
  color: var(--jp-ui-font-color2);
}
.tritonlab-verb {
  display: inline-block;
  width: 7ch;
  color: var(--jp-ui-font-color2);
}
li[data-kind="changed"] .tritonlab-verb,
li[data-kind="removed"] .tritonlab-verb {
  color: var(--jp-error-color1);
}
.tritonlab-error,
.tritonlab-warning {
  padding: 4px 8px;
  border-left: 3px solid var(--jp-warn-color1);
  white-space: pre-wrap;
}
.tritonlab-error {
  border-color: var(--jp-error-color1);
}
.tritonlab-tree,
.tritonlab-command {
  padding: 8px;
  overflow-x: auto;
  background: var(--jp-layout-color2);
  font-family: var(--jp-code-font-family);
  font-size: var(--jp-code-font-size);
  user-select: text;
}
.tritonlab-link {
  padding: 0;
  border: 0;
  background: none;
  color: var(--jp-content-link-color);
  font: inherit;
  cursor: pointer;
}
.tritonlab-link:hover {
  text-decoration: underline;
}
[data-jp-item-name^="tritonlab-"] .jp-ToolbarButtonComponent-label {
  margin-left: 4px;
}

.tritonlab-panel {
  min-width: 260px;
  padding: 8px 12px;
  overflow: auto;
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
  font-size: var(--jp-ui-font-size1);
}
.tritonlab-panel h2 {
  margin: 16px 0 4px;
  font-size: var(--jp-ui-font-size0);
  font-weight: 600;
  letter-spacing: 0.05em;
  text-transform: uppercase;
}
.tritonlab-panel h2:first-child {
  margin-top: 4px;
}
.tritonlab-panel h3,
.tritonlab-panel p,
.tritonlab-panel ul {
  margin: 0;
  padding: 0;
  list-style: none;
}
.tritonlab-panel h3 {
  font-size: var(--jp-ui-font-size1);
  font-weight: 600;
}
.tritonlab-panel h3,
.tritonlab-long {
  flex: 0 1 auto;
  min-width: 6ch;
  overflow: hidden;
  text-overflow: ellipsis;
  white-space: nowrap;
}
.tritonlab-panel li,
.tritonlab-panel .tritonlab-small {
  overflow-wrap: anywhere;
}
.tritonlab-hint {
  display: flex;
  flex-direction: column;
  align-items: flex-start;
  gap: 12px;
  padding: 12px 0;
  color: var(--jp-ui-font-color2);
}
.tritonlab-button {
  padding: 6px 12px;
  border: 1px solid var(--jp-border-color1);
  border-radius: var(--jp-border-radius);
  background: var(--jp-layout-color2);
  color: var(--jp-ui-font-color1);
  font-family: var(--jp-code-font-family);
  cursor: pointer;
}
.tritonlab-model {
  padding: 6px 0 6px 8px;
  border-left: 3px solid var(--jp-layout-color4);
}
.tritonlab-model + .tritonlab-model {
  margin-top: 6px;
}
.tritonlab-model[data-state="READY"] {
  border-color: var(--jp-success-color1);
}
.tritonlab-model[data-state="LOADING"],
.tritonlab-model[data-state="UNLOADING"],
.tritonlab-model[data-state="NOT READY"] {
  border-color: var(--jp-warn-color1);
}
.tritonlab-model[data-state="FAILED"] {
  border-color: var(--jp-error-color1);
}
.tritonlab-model summary {
  width: max-content;
  color: var(--jp-ui-font-color2);
  cursor: pointer;
}
.tritonlab-model details ul {
  padding-left: 14px;
}
.tritonlab-reason {
  overflow-wrap: anywhere;
}
.tritonlab-row {
  display: flex;
  align-items: center;
  gap: 6px;
}
.tritonlab-panel p:is(.tritonlab-warning, .tritonlab-error) {
  padding: 4px 8px;
}
/* A long name has a line of its own; the state and the buttons stay together. */
.tritonlab-model > .tritonlab-row,
.tritonlab-row:has(> .tritonlab-warning) {
  flex-wrap: wrap;
}
.tritonlab-model > .tritonlab-row > * {
  max-width: 100%;
}
.tritonlab-row > .tritonlab-row {
  flex: 1 0 auto;
}
.tritonlab-row > .tritonlab-warning {
  flex: 1 1 100%;
}
.tritonlab-warning > .tritonlab-button {
  display: block;
  margin-top: 6px;
  white-space: normal;
}
.tritonlab-state {
  flex: 1 0 auto;
  max-width: 60%;
  color: var(--jp-ui-font-color2);
  font-size: var(--jp-ui-font-size0);
}
.tritonlab-icon {
  padding: 4px;
  border: 0;
  border-radius: var(--jp-border-radius);
  background: none;
  line-height: 0;
  cursor: pointer;
}
.tritonlab-icon:hover {
  background: var(--jp-layout-color2);
}
.tritonlab-icon:focus-visible,
.tritonlab-button:focus-visible,
.tritonlab-panel :is(summary, select, input, [role="log"]):focus-visible {
  outline: 1px solid var(--jp-brand-color1);
}
.tritonlab-small {
  color: var(--jp-ui-font-color2);
  font-size: var(--jp-ui-font-size0);
  line-height: 1.4;
}
.tritonlab-filter {
  flex-wrap: wrap;
  margin-bottom: 4px;
}
.tritonlab-filter select,
.tritonlab-filter input {
  box-sizing: border-box;
  min-width: 90px;
  flex: 1 1 90px;
  padding: 3px 4px;
  border: 1px solid var(--jp-border-color1);
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
}
.tritonlab-filter input {
  flex-basis: 100%;
}
/* Reversed, a box begins at its end, and stays there unless somebody scrolls: the last lines are those one wants. */
.tritonlab-log {
  display: flex;
  flex-direction: column-reverse;
  max-height: 240px;
  min-height: 40px;
  padding: 4px 6px;
  overflow: auto;
  border: 1px solid var(--jp-border-color2);
  font-family: var(--jp-code-font-family);
  font-size: 11px;
  white-space: pre-wrap;
  overflow-wrap: anywhere;
}
.tritonlab-log [data-level="ERROR"] {
  color: color-mix(in srgb, var(--jp-error-color1) 70%, var(--jp-ui-font-color1));
}
.tritonlab-log [data-level="WARNING"] {
  color: color-mix(in srgb, var(--jp-warn-color1) 60%, var(--jp-ui-font-color1));
}

/* The parser takes the line for Python; its colours there mean nothing. Not the colour of \`meta\`: it is too dark on
   dark. */
.tritonlab-line,
.tritonlab-line span {
  color: var(--jp-mirror-editor-variable-color) !important;
  font-weight: normal !important;
}
.tritonlab-line .tritonlab-word-magic,
.tritonlab-line .tritonlab-word-magic span {
  color: var(--jp-mirror-editor-keyword-color) !important;
  font-weight: bold !important;
}
.tritonlab-line .tritonlab-word-name,
.tritonlab-line .tritonlab-word-name span {
  color: var(--jp-mirror-editor-def-color) !important;
  font-weight: bold !important;
}
.tritonlab-line .tritonlab-word-option,
.tritonlab-line .tritonlab-word-option span {
  color: var(--jp-mirror-editor-property-color) !important;
}

.tritonlab-help {
  max-width: 46ch;
  padding: 6px 10px;
  color: var(--jp-ui-font-color1);
  font-family: var(--jp-ui-font-family);
  font-size: var(--jp-ui-font-size1);
  line-height: 1.4;
}
.tritonlab-help p {
  margin: 2px 0 0;
}
.tritonlab-help code {
  font-family: var(--jp-code-font-family);
  font-weight: 600;
}
.cm-tooltip:has(.tritonlab-help) {
  border: 1px solid var(--jp-border-color1);
  background: var(--jp-layout-color1);
  box-shadow: var(--jp-elevation-z4);
}

/* Tables of results (\`dataTables.ts\`): the animation is only there to be noticed. */
@keyframes tritonlab-table {
  from {
    outline-color: transparent;
  }
  to {
    outline-color: transparent;
  }
}
table.tl-data {
  animation: tritonlab-table 1ms;
}
.tl-data[data-tools] thead th {
  cursor: pointer;
}
.tl-data th[aria-sort]::after {
  content: " ↑";
}
.tl-data th[aria-sort="descending"]::after {
  content: " ↓";
}
.tritonlab-table-tools {
  display: flex;
  gap: 6px;
  margin-top: 6px;
  font-family: var(--jp-ui-font-family);
  font-size: var(--jp-ui-font-size0);
}
.tritonlab-table-tools input,
.tritonlab-table-tools button {
  padding: 1px 6px;
  border: 1px solid var(--jp-border-color1);
  border-radius: var(--jp-border-radius);
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
  font: inherit;
}
`,""]),r.d(o,{},{A:i})},"./node_modules/css-loader/dist/cjs.js!../tritonlab/notebook/static/theme.css"(t,o,r){var e=r("./node_modules/css-loader/dist/runtime/noSourceMaps.js"),a=r.n(e),l=r("./node_modules/css-loader/dist/runtime/api.js"),i=(r.n(l))()(a());i.push([t.id,`.tl-card, .tl-panel, .tl-live, .tl-form {
  --tl-text: var(--jp-content-font-color1, var(--vscode-foreground, #212121));
  --tl-dim: var(--jp-content-font-color2, var(--vscode-descriptionForeground, #616161));
  --tl-line: var(--jp-border-color2, var(--vscode-panel-border, #c8c8c8));
  --tl-soft: color-mix(in srgb, var(--jp-layout-color2, var(--vscode-editorWidget-background, rgba(128,128,128,.1))) 55%,
    var(--jp-layout-color1, var(--vscode-editor-background, #fff0)));
  --tl-mono: var(--jp-code-font-family, var(--vscode-editor-font-family, monospace));
  /* with enough of the text's colour to be read on soft, light and dark: a contrast of 4.5 (tests/browser) */
  --tl-good: color-mix(in srgb, #22a35a 70%, var(--tl-text));
  --tl-warn: color-mix(in srgb, #d98000 66%, var(--tl-text));
  --tl-bad: color-mix(in srgb, #f04a42 66%, var(--tl-text));
  --tl-accent: var(--jp-brand-color1, var(--vscode-button-background, #1976d2));
}
.tl-card, .tl-panel, .tl-live {
  color: var(--tl-text); font-family: var(--jp-ui-font-family, system-ui, sans-serif); font-size: 13px; line-height:
  1.45;
}
.tl-card { display: inline-block; min-width: min(380px, 100%); max-width: 100%; box-sizing: border-box; margin: 4px 0 2px;
  padding: 8px 14px 9px; border: 1px solid var(--tl-line); border-radius: 6px; }
.tl-head { display: flex; align-items: baseline; flex-wrap: wrap; gap: 3px 8px; }
.tl-dot { width: 9px; height: 9px; border-radius: 50%; align-self: center; background: currentColor; }
.tl-name { font-weight: 600; font-size: 14px; overflow-wrap: anywhere; }
.tl-state { font-weight: 600; font-size: 11px; letter-spacing: .04em; }
.tl-dim { color: var(--tl-dim); }
.tl-good { color: var(--tl-good); } .tl-warn { color: var(--tl-warn); } .tl-bad { color: var(--tl-bad); }
.tl-off { color: var(--tl-dim); }
.jp-RenderedHTMLCommon table.tl-tensors, .tl-panel table.tl-tensors, table.tl-tensors {
  margin: 7px 0 1px; border-collapse: collapse; font-size: 13px; color: var(--tl-text); table-layout: auto; }
.jp-RenderedHTMLCommon .tl-tensors tr, .tl-tensors tr { background: none !important; }
.jp-RenderedHTMLCommon .tl-tensors td, .jp-RenderedHTMLCommon .tl-tensors th, .tl-tensors td, .tl-tensors th {
  text-align: left; padding: 1px 18px 1px 0; border: 0; vertical-align: baseline; white-space: nowrap; font-weight:
  normal; max-width: none; }
.jp-RenderedHTMLCommon .tl-tensors th, .tl-tensors th { color: var(--tl-dim); font-size: 12px; }
.jp-RenderedHTMLCommon .tl-tensors thead th, .tl-tensors thead th { border-bottom: 1px solid var(--tl-line);
padding-bottom: 2px; } .jp-RenderedHTMLCommon .tl-tensors tr.tl-first ~ tr.tl-first td, .tl-tensors tr.tl-first ~
tr.tl-first td, .jp-RenderedHTMLCommon .tl-tensors tr.tl-first ~ tr.tl-first th, .tl-tensors tr.tl-first ~ tr.tl-first
th { padding-top: 4px; } .tl-tensor { font-weight: 600; }
.tl-type, .tl-shape, .tl-value, .tl-lines, .tl-tensor { font-family: var(--tl-mono); font-size: 12px; }
.tl-note { margin-top: 6px; padding: 3px 8px; border-left: 3px solid currentColor; background: var(--tl-soft); }
.tl-warn-note { border-left-color: var(--tl-warn); } .tl-bad-note { border-left-color: var(--tl-bad); }
.tl-good-note { border-left-color: var(--tl-good); }
.tl-log { margin-top: 6px; } .tl-log summary { cursor: pointer; color: var(--tl-dim); }
/* twice, so that it counts for more than what pages say of <pre>, which keeps indentation where styles are dropped */
.tl-lines.tl-lines { max-height: 220px; overflow: auto; padding: 4px 8px; margin: 3px 0 0; background: var(--tl-soft);
  font-family: var(--tl-mono); font-size: 12px; line-height: inherit; white-space: pre-wrap; overflow-wrap: anywhere; }
.tl-stderr, .tl-warning { color: var(--tl-warn); } .tl-error { color: var(--tl-bad); }
.tl-panel { padding: 2px 0; } .tl-text { white-space: pre-wrap; }
.tl-value { white-space: pre-wrap; overflow-wrap: anywhere; max-height: 260px; overflow: auto; margin: 2px 0 6px;
padding: 4px 8px;
  background: var(--tl-soft); }
.tl-bar { display: flex; height: 10px; max-width: 480px; border-radius: 5px; overflow: hidden; margin: 5px 0 3px; }
.tl-bar > span { min-width: 1px; }
.tl-key { display: inline-block; width: 9px; height: 9px; border-radius: 2px; margin-right: 4px; }
.tl-histogram { display: flex; align-items: flex-end; gap: 1px; height: 64px; max-width: 480px; margin-top: 6px;
  border-bottom: 1px solid var(--tl-line); }
.tl-histogram > span { flex: 1 1 0; background: #3f8fd6; }
.tl-axis { display: flex; justify-content: space-between; max-width: 480px; color: var(--tl-dim); font-size: 11px; }
.tl-picture { max-width: 256px; max-height: 256px; margin: 2px 6px 4px 0; border: 1px solid var(--tl-line);
  vertical-align: top; }
/* a stored picture is an image with white paper (figures/stored_picture.py): dark on a dark page, with the same hues */
[data-jp-theme-light="false"] .tl-stored, .vscode-dark .tl-stored { filter: invert(.93) hue-rotate(180deg); }
.tl-form .tl-quiet > label { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.tl-form .widget-inline-hbox > input[type=number] { flex: 0 0 72px; width: 72px; }
.tl-form .widget-inline-hbox > input[type=text] { flex: 0 0 190px; width: 190px; }
.tl-form .tl-quiet.widget-textarea > textarea { height: auto; min-height: 28px; }
.tl-form .widget-button, .tl-form .widget-accordion, .tl-form .widget-html, .tl-form .widget-dropdown,
.tl-form .widget-textarea { margin-left: 0; }
.tl-form .jupyter-widget-Collapse-header, .tl-form .lm-Collapse-header { color: var(--tl-text); background: none;
  font-weight: normal; border-color: var(--tl-line); }
.tl-panel table.tl-tensors.tl-compare { display: block; overflow-x: auto; max-width: 100%; }
.tl-panel .tl-tensors td.tl-type { white-space: pre; }
.tl-panel table.tl-tensors.tl-status td.tl-tensor { white-space: normal; overflow-wrap: anywhere; min-width: 100px; }
.tl-panel table.tl-tensors.tl-compare td { white-space: pre-wrap; overflow-wrap: break-word; min-width: 84px; max-width:
  340px; }
.tl-form .widget-hbox { gap: 2px 6px; }
.tl-form .widget-hbox > .widget-button, .tl-form .widget-inline-hbox > .widget-label { flex-shrink: 0; }
.tl-form .widget-inline-hbox { max-width: 100%; }
.tl-form .widget-inline-hbox > input[type=text] { flex-shrink: 1; min-width: 60px; }
.tl-form .tl-snippet.widget-textarea { box-sizing: border-box; margin-left: 0; }
.tl-panel .tl-file { text-decoration: underline; }
.tl-form .tl-input.tl-drop { outline: 2px dashed var(--jp-brand-color1, #1976d2); outline-offset: -1px; }
.tl-panel .tl-sound { display: block; width: min(420px, 100%); height: 36px; margin: 2px 0; }
.tl-panel .tl-curve { display: block; width: min(480px, 100%); height: auto; margin: 4px 0 0; border-bottom: 1px solid
  var(--tl-line); }
.tl-form > .tl-keys-widget { display: none; }
.tl-keys > span { margin-right: 14px; white-space: nowrap; }

.tl-buttons { display: flex; flex-wrap: wrap; gap: 6px; margin-top: 8px; }
.tl-button { font: inherit; color: var(--tl-text); background: var(--tl-soft); border: 1px solid var(--tl-line);
  border-radius: 4px; padding: 3px 12px; cursor: pointer; }
.tl-button:hover:enabled { border-color: var(--tl-text); }
.tl-button:focus-visible { outline: 2px solid var(--tl-accent); outline-offset: 1px; }
.tl-button:disabled { color: var(--tl-dim); cursor: default; }
.tl-button[aria-expanded=true] { border-color: var(--tl-accent); box-shadow: inset 0 -2px var(--tl-accent); }
.tl-note[hidden] { display: none; }
.tl-clock { font-variant-numeric: tabular-nums; }

/* One left edge for what ipywidgets draws below a card; arrows of selects in the colour of the text (ipywidgets' are
   black, also on black). */
.tl-whole, .tl-whole .widget-box, .tl-whole .jp-OutputArea-output { margin-left: 0; padding-left: 0; }
.tl-whole .widget-button, .tl-whole .widget-text, .tl-whole .widget-dropdown { margin-left: 0; }
.tl-whole .widget-hbox { gap: 2px 6px; }
.tl-whole .widget-dropdown > select, .tl-form .widget-dropdown > select {
  background-image: linear-gradient(45deg, transparent 50%, currentColor 50%),
    linear-gradient(135deg, currentColor 50%, transparent 50%);
  background-position: right 12px center, right 7px center; background-size: 5px 5px; background-repeat: no-repeat; }
.tl-card .tl-tensors { display: block; overflow-x: auto; max-width: 100%; }
/* JupyterLab without our extension colours every cell as Python; a config is none. */
.jp-Cell:has(.tl-of-config):not(:has(.tritonlab-line)) .jp-InputArea-editor .cm-line span {
  color: inherit !important; font-weight: inherit !important; font-style: inherit !important; }

/* The output after a static form is its live one. Where that is dead ("Error displaying widget: model not found", or a
   view whose kernel was restarted) it is hidden: \`views/widget.py\`. */
.jp-OutputArea-child:has(.tl-static)
  + .jp-OutputArea-child:has(> .lm-Panel.jp-OutputArea-output):not(:has(> .lm-Panel > *)),
.jp-OutputArea-child:has(.tl-dead), .tl-dead { display: none; }

/* views of what was recorded */
.tl-view { margin: 4px 0 2px; padding: 8px 10px; border: 1px solid var(--tl-line); border-radius: 6px; }
.tl-bar2 { display: flex; align-items: center; flex-wrap: wrap; gap: 4px 8px; margin-bottom: 4px; }
.tl-grow { flex: 1; }
.tl-bar2 .tl-summary { flex: 1 1 0; min-width: 0; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.tl-bar2 .tl-summary + .tl-grow { flex: 0; }
.tl-view .tl-follow { min-width: 62px; }
.tl-view button { font: inherit; font-size: 12px; min-width: 26px; padding: 1px 8px; color: var(--tl-text); cursor: pointer;
  background: var(--tl-soft); border: 1px solid var(--tl-line); border-radius: 4px; }
.tl-view button:hover, .tl-view button[aria-pressed=true] { border-color: var(--tl-accent); }
.tl-view button:focus-visible, .tl-canvas:focus-visible { outline: 2px solid var(--tl-accent); outline-offset: 1px; }
.tl-view [hidden] { display: none !important; }
.tl-canvas { display: block; width: 100%; touch-action: pan-y; cursor: crosshair; }
.tl-facts { display: flex; flex-wrap: wrap; gap: 6px 28px; margin: 6px 8px 2px; font-size: 12px; }
.tl-chart { min-width: 170px; flex: 1 1 170px; max-width: 320px; overflow-wrap: anywhere; }
.tl-chart:has(.tl-key) > div { position: relative; padding-left: 13px; }
.tl-chart .tl-key { position: absolute; left: 0; top: 4px; }
.tl-line { display: flex; align-items: center; gap: 6px; }
.tl-key2 { min-width: 42px; white-space: nowrap; text-align: right; }
.tl-words .tl-key2 { min-width: 92px; text-align: left; }
.tl-room { flex: 1; height: 9px; background: var(--tl-soft); border-radius: 2px; }
.tl-fill { display: block; height: 100%; border-radius: 2px; } .tl-fill-accent { background: var(--tl-accent); }
.tl-fill-warn { background: var(--tl-warn); }
.tl-count { min-width: 34px; text-align: right; font-variant-numeric: tabular-nums; }
.tl-view .tl-tensors .tl-right { text-align: right; font-variant-numeric: tabular-nums; }
/* What changes while a view is watched has room from the beginning: nothing below it moves. */
.tl-timeline .tl-chart { min-height: 140px; }
.tl-timeline .tl-detail, .tl-streams .tl-detail { height: 88px; overflow: auto; }
.tl-view .tl-twin[open] .tl-scroll { height: 220px; }
.tl-metrics .tl-facts { display: none; }
.tl-timeline .tl-chart table.tl-tensors { margin: 0; font-size: 12px; }
.tl-timeline .tl-chart .tl-tensors td, .tl-timeline .tl-chart .tl-tensors th { padding-right: 12px; }
/* the texts of streams, by the gap before each piece */
.tl-texts { margin: 6px 8px 2px; font-size: 12px; }
.tl-gaps > span, .tl-pane-text > span { border-radius: 2px; }
.tl-gaps > span { padding: 0 5px; color: var(--tl-text); }
.tl-gap-1 { background: color-mix(in srgb, var(--tl-accent) 20%, transparent); }
.tl-gap-2 { background: color-mix(in srgb, var(--tl-accent) 42%, transparent); }
.tl-gap-3 { background: color-mix(in srgb, #d98000 34%, transparent); }
.tl-gap-4 { background: color-mix(in srgb, #f04a42 38%, transparent); }
.tl-panes { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(340px, 100%), 1fr)); gap: 6px; margin: 4px 0; }
.tl-pane { min-width: 0; padding: 4px 8px 6px; border: 1px solid var(--tl-line); border-radius: 4px; font-size: 12px;
  overflow-wrap: anywhere; }
.tl-pane[data-open=true] { border-color: var(--tl-warn); }
.tl-pane.tl-chosen-pane { border-color: var(--tl-accent); box-shadow: inset 0 0 0 1px var(--tl-accent); }
.tl-pane-text { white-space: pre-wrap; font-size: 13px; color: var(--tl-text); }
.tl-live .tl-pane-text { height: 96px; overflow: auto; }
.tl-detail { margin: 4px 8px 0; font-size: 12px; } .tl-why { font-weight: 600; color: var(--tl-text); }
.tl-twin { margin: 4px 8px 0; font-size: 12px; } .tl-twin summary { cursor: pointer; color: var(--tl-dim); }
.tl-scroll { max-height: 220px; overflow: auto; }
.tl-graph { overflow-x: auto; padding: 2px 8px; cursor: default; }
.tl-graph svg { display: block; margin: 4px 0 8px; font-family: var(--jp-ui-font-family, system-ui, sans-serif) !important; }
.tl-graph:focus-visible { outline: 2px solid var(--tl-accent); outline-offset: 1px; }
.tl-graph [data-box] { cursor: pointer; }
.tl-graph .tl-chosen > rect:first-of-type { stroke: var(--tl-accent); stroke-width: 2; stroke-opacity: 1; }
.tl-graph + .tl-detail { white-space: pre-wrap; }

/* what would have happened */
.tl-whatif { margin: 6px 8px 2px; font-size: 12px; }
.tl-sliders { display: flex; flex-wrap: wrap; gap: 4px 24px; }
.tl-sliders label { display: grid; grid-template-columns: auto auto; gap: 0 10px; flex: 1 1 150px; max-width: 260px; }
.tl-sliders input { grid-column: 1 / 3; grid-row: 2; width: 100%; margin: 2px 0; accent-color: var(--tl-warn); }
.tl-sliders .tl-count { text-align: right; }
.tl-ifs { font-variant-numeric: tabular-nums; margin-top: 4px; }
.tl-whatif .tl-buttons { margin: 4px 0; } .tl-whatif .tl-twin { margin: 4px 0 0; }
.tl-view button:disabled { color: var(--tl-dim); border-color: var(--tl-line); cursor: default; }
/* what is kept of a failure */
.tl-failure { display: block; max-width: 960px; border-left: 3px solid var(--tl-bad); }
.tl-failure .tl-lines { margin: 3px 0; line-height: 1.4; white-space: pre; overflow: auto; font-size: 12px; }
.tl-failure .tl-frame > summary { font-family: var(--tl-mono); font-size: 12px; color: var(--tl-text); }
.tl-failure td.tl-value-cell { white-space: normal !important; overflow-wrap: anywhere; min-width: 200px; }
.tl-failure .tl-variables tr > td:first-child { width: 1%; }
.tl-program:not(:empty) { margin-top: 8px; }
.tl-program .tl-file { color: var(--tl-text); text-decoration: underline; margin-left: 12px; }
/* load tests */
.tl-fields { display: flex; flex-wrap: wrap; align-items: center; gap: 6px 14px; margin-bottom: 8px; }
.tl-fields label { display: inline-flex; align-items: center; gap: 5px; color: var(--tl-dim); font-size: 12px; }
.tl-fields input, .tl-fields select { font: inherit; color: var(--tl-text); background: var(--jp-layout-color1, transparent);
  border: 1px solid var(--tl-line); border-radius: 4px; padding: 2px 6px; box-sizing: border-box; }
.tl-fields input:focus-visible, .tl-fields select:focus-visible { outline: 2px solid var(--tl-accent); outline-offset: 1px; }
.tl-fields input::placeholder { color: var(--tl-dim); opacity: 1; }
.tl-progress { flex: 0 1 200px; height: 10px; accent-color: var(--tl-accent); }
.tl-figures { display: flex; flex-wrap: wrap; gap: 4px 26px; margin: 8px 2px 2px; font-size: 12px; }
.tl-figure { font-size: 17px; font-variant-numeric: tabular-nums; min-width: 62px; }
`,""]),r.d(o,{},{A:i})},"./node_modules/css-loader/dist/runtime/api.js"(t){t.exports=function(t){var o=[];return o.toString=function(){return this.map(function(o){var r="",e=void 0!==o[5];return o[4]&&(r+="@supports (".concat(o[4],") {")),o[2]&&(r+="@media ".concat(o[2]," {")),e&&(r+="@layer".concat(o[5].length>0?" ".concat(o[5]):""," {")),r+=t(o),e&&(r+="}"),o[2]&&(r+="}"),o[4]&&(r+="}"),r}).join("")},o.i=function(t,r,e,a,l){"string"==typeof t&&(t=[[null,t,void 0]]);var i={};if(e)for(var n=0;n<this.length;n++){var p=this[n][0];null!=p&&(i[p]=!0)}for(var s=0;s<t.length;s++){var d=[].concat(t[s]);e&&i[d[0]]||(void 0!==l&&(void 0===d[5]||(d[1]="@layer".concat(d[5].length>0?" ".concat(d[5]):""," {").concat(d[1],"}")),d[5]=l),r&&(d[2]&&(d[1]="@media ".concat(d[2]," {").concat(d[1],"}")),d[2]=r),a&&(d[4]?(d[1]="@supports (".concat(d[4],") {").concat(d[1],"}"),d[4]=a):d[4]="".concat(a)),o.push(d))}},o}},"./node_modules/css-loader/dist/runtime/noSourceMaps.js"(t){t.exports=function(t){return t[1]}},"./node_modules/style-loader/dist/runtime/injectStylesIntoStyleTag.js"(t){var o=[];function r(t){for(var r=-1,e=0;e<o.length;e++)if(o[e].identifier===t){r=e;break}return r}function e(t,e){for(var a={},l=[],i=0;i<t.length;i++){var n=t[i],p=e.base?n[0]+e.base:n[0],s=a[p]||0,d="".concat(p," ").concat(s);a[p]=s+1;var c=r(d),x={css:n[1],media:n[2],sourceMap:n[3],supports:n[4],layer:n[5]};if(-1!==c)o[c].references++,o[c].updater(x);else{var f=function(t,o){var r=o.domAPI(o);return r.update(t),function(o){o?(o.css!==t.css||o.media!==t.media||o.sourceMap!==t.sourceMap||o.supports!==t.supports||o.layer!==t.layer)&&r.update(t=o):r.remove()}}(x,e);e.byIndex=i,o.splice(i,0,{identifier:d,updater:f,references:1})}l.push(d)}return l}t.exports=function(t,a){var l=e(t=t||[],a=a||{});return function(t){t=t||[];for(var i=0;i<l.length;i++){var n=r(l[i]);o[n].references--}for(var p=e(t,a),s=0;s<l.length;s++){var d=r(l[s]);0===o[d].references&&(o[d].updater(),o.splice(d,1))}l=p}}},"./node_modules/style-loader/dist/runtime/insertBySelector.js"(t){var o={};t.exports=function(t,r){var e=function(t){if(void 0===o[t]){var r=document.querySelector(t);if(window.HTMLIFrameElement&&r instanceof window.HTMLIFrameElement)try{r=r.contentDocument.head}catch(t){r=null}o[t]=r}return o[t]}(t);if(!e)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");e.appendChild(r)}},"./node_modules/style-loader/dist/runtime/insertStyleElement.js"(t){t.exports=function(t){var o=document.createElement("style");return t.setAttributes(o,t.attributes),t.insert(o,t.options),o}},"./node_modules/style-loader/dist/runtime/setAttributesWithoutAttributes.js"(t,o,r){t.exports=function(t){var o=r.nc;o&&t.setAttribute("nonce",o)}},"./node_modules/style-loader/dist/runtime/styleDomAPI.js"(t){t.exports=function(t){if("u"<typeof document)return{update:function(){},remove:function(){}};var o=t.insertStyleElement(t);return{update:function(r){var e,a,l;e="",r.supports&&(e+="@supports (".concat(r.supports,") {")),r.media&&(e+="@media ".concat(r.media," {")),(a=void 0!==r.layer)&&(e+="@layer".concat(r.layer.length>0?" ".concat(r.layer):""," {")),e+=r.css,a&&(e+="}"),r.media&&(e+="}"),r.supports&&(e+="}"),(l=r.sourceMap)&&"u">typeof btoa&&(e+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(l))))," */")),t.styleTagTransform(e,o,t.options)},remove:function(){var t;null===(t=o).parentNode||t.parentNode.removeChild(t)}}}},"./node_modules/style-loader/dist/runtime/styleTagTransform.js"(t){t.exports=function(t,o){if(o.styleSheet)o.styleSheet.cssText=t;else{for(;o.firstChild;)o.removeChild(o.firstChild);o.appendChild(document.createTextNode(t))}}},"./style/index.js"(t,o,r){var e=r("./node_modules/style-loader/dist/runtime/injectStylesIntoStyleTag.js"),a=r.n(e),l=r("./node_modules/style-loader/dist/runtime/styleDomAPI.js"),i=r.n(l),n=r("./node_modules/style-loader/dist/runtime/insertBySelector.js"),p=r.n(n),s=r("./node_modules/style-loader/dist/runtime/setAttributesWithoutAttributes.js"),d=r.n(s),c=r("./node_modules/style-loader/dist/runtime/insertStyleElement.js"),x=r.n(c),f=r("./node_modules/style-loader/dist/runtime/styleTagTransform.js"),m=r.n(f),b=r("./node_modules/css-loader/dist/cjs.js!./style/base.css"),u={};u.styleTagTransform=m(),u.setAttributes=d(),u.insert=p().bind(null,"head"),u.domAPI=i(),u.insertStyleElement=x(),a()(b.A,u),b.A&&b.A.locals&&b.A.locals;var h=r("./node_modules/css-loader/dist/cjs.js!../tritonlab/notebook/static/theme.css"),g={};g.styleTagTransform=m(),g.setAttributes=d(),g.insert=p().bind(null,"head"),g.domAPI=i(),g.insertStyleElement=x(),a()(h.A,g),h.A&&h.A.locals&&h.A.locals}}]);