"""One style sheet for everything tritonlab draws with HTML in a notebook.

Colours are JupyterLab's theme variables, then VS Code's, then plain values, so that the same HTML reads well in light
and dark themes. The tones (good, warn, bad) are mixed with the text colour, because JupyterLab's own are too light on
white.
"""

from __future__ import annotations

STYLE = """<style>
.tl-card, .tl-panel {
  --tl-text: var(--jp-content-font-color1, var(--vscode-foreground, #212121));
  --tl-dim: var(--jp-content-font-color2, var(--vscode-descriptionForeground, #616161));
  --tl-line: var(--jp-border-color2, var(--vscode-panel-border, #c8c8c8));
  --tl-soft: var(--jp-layout-color2, var(--vscode-editorWidget-background, rgba(128,128,128,.1)));
  --tl-mono: var(--jp-code-font-family, var(--vscode-editor-font-family, monospace));
  --tl-good: color-mix(in srgb, #22a35a 82%, var(--tl-text));
  --tl-warn: color-mix(in srgb, #d98000 82%, var(--tl-text));
  --tl-bad: color-mix(in srgb, #d9342b 84%, var(--tl-text));
  color: var(--tl-text); font-family: var(--jp-ui-font-family, system-ui, sans-serif); font-size: 13px; line-height:
  1.45;
}
.tl-card { display: inline-block; min-width: 380px; max-width: 100%; box-sizing: border-box; margin: 4px 0 2px;
  padding: 8px 14px 9px; border: 1px solid var(--tl-line); border-radius: 6px; }
.tl-head { display: flex; align-items: baseline; flex-wrap: wrap; gap: 3px 8px; }
.tl-dot { width: 9px; height: 9px; border-radius: 50%; align-self: center; background: currentColor; }
.tl-name { font-weight: 600; font-size: 14px; }
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
.tl-lines { max-height: 220px; overflow: auto; padding: 4px 8px; margin-top: 3px; background: var(--tl-soft);
  white-space: pre-wrap; overflow-wrap: anywhere; }
.tl-stderr, .tl-warning { color: var(--tl-warn); } .tl-error { color: var(--tl-bad); }
.tl-panel { padding: 2px 0; } .tl-text { white-space: pre-wrap; }
.tl-value { white-space: pre-wrap; overflow-wrap: anywhere; max-height: 260px; overflow: auto; margin: 2px 0 6px;
padding: 4px 8px;
  background: var(--tl-soft); }
.tl-bar { display: flex; height: 10px; max-width: 480px; border-radius: 5px; overflow: hidden; margin: 5px 0 3px; }
.tl-bar > span { min-width: 1px; }
.tl-key { display: inline-block; width: 9px; height: 9px; border-radius: 2px; margin-right: 4px; }
.tl-keys > span { margin-right: 14px; white-space: nowrap; }
</style>"""
