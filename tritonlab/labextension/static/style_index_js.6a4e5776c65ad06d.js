"use strict";(self.rspackChunktritonlab=self.rspackChunktritonlab||[]).push([["style_index_js"],{"./node_modules/css-loader/dist/cjs.js!./style/base.css"(o,t,r){var e=r("./node_modules/css-loader/dist/runtime/noSourceMaps.js"),a=r.n(e),n=r("./node_modules/css-loader/dist/runtime/api.js"),i=(r.n(n))()(a());i.push([o.id,`/* Everything of ours is named tritonlab-*, and coloured as the theme says. */

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
  width: min(720px, 92vw);
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
/* A long name has a line of its own. */
.tritonlab-model > .tritonlab-row,
.tritonlab-row:has(> .tritonlab-warning) {
  flex-wrap: wrap;
}
.tritonlab-model > .tritonlab-row > h3 {
  max-width: 100%;
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
`,""]),r.d(t,{},{A:i})},"./node_modules/css-loader/dist/runtime/api.js"(o){o.exports=function(o){var t=[];return t.toString=function(){return this.map(function(t){var r="",e=void 0!==t[5];return t[4]&&(r+="@supports (".concat(t[4],") {")),t[2]&&(r+="@media ".concat(t[2]," {")),e&&(r+="@layer".concat(t[5].length>0?" ".concat(t[5]):""," {")),r+=o(t),e&&(r+="}"),t[2]&&(r+="}"),t[4]&&(r+="}"),r}).join("")},t.i=function(o,r,e,a,n){"string"==typeof o&&(o=[[null,o,void 0]]);var i={};if(e)for(var l=0;l<this.length;l++){var s=this[l][0];null!=s&&(i[s]=!0)}for(var p=0;p<o.length;p++){var d=[].concat(o[p]);e&&i[d[0]]||(void 0!==n&&(void 0===d[5]||(d[1]="@layer".concat(d[5].length>0?" ".concat(d[5]):""," {").concat(d[1],"}")),d[5]=n),r&&(d[2]&&(d[1]="@media ".concat(d[2]," {").concat(d[1],"}")),d[2]=r),a&&(d[4]?(d[1]="@supports (".concat(d[4],") {").concat(d[1],"}"),d[4]=a):d[4]="".concat(a)),t.push(d))}},t}},"./node_modules/css-loader/dist/runtime/noSourceMaps.js"(o){o.exports=function(o){return o[1]}},"./node_modules/style-loader/dist/runtime/injectStylesIntoStyleTag.js"(o){var t=[];function r(o){for(var r=-1,e=0;e<t.length;e++)if(t[e].identifier===o){r=e;break}return r}function e(o,e){for(var a={},n=[],i=0;i<o.length;i++){var l=o[i],s=e.base?l[0]+e.base:l[0],p=a[s]||0,d="".concat(s," ").concat(p);a[s]=p+1;var c=r(d),u={css:l[1],media:l[2],sourceMap:l[3],supports:l[4],layer:l[5]};if(-1!==c)t[c].references++,t[c].updater(u);else{var b=function(o,t){var r=t.domAPI(t);return r.update(o),function(t){t?(t.css!==o.css||t.media!==o.media||t.sourceMap!==o.sourceMap||t.supports!==o.supports||t.layer!==o.layer)&&r.update(o=t):r.remove()}}(u,e);e.byIndex=i,t.splice(i,0,{identifier:d,updater:b,references:1})}n.push(d)}return n}o.exports=function(o,a){var n=e(o=o||[],a=a||{});return function(o){o=o||[];for(var i=0;i<n.length;i++){var l=r(n[i]);t[l].references--}for(var s=e(o,a),p=0;p<n.length;p++){var d=r(n[p]);0===t[d].references&&(t[d].updater(),t.splice(d,1))}n=s}}},"./node_modules/style-loader/dist/runtime/insertBySelector.js"(o){var t={};o.exports=function(o,r){var e=function(o){if(void 0===t[o]){var r=document.querySelector(o);if(window.HTMLIFrameElement&&r instanceof window.HTMLIFrameElement)try{r=r.contentDocument.head}catch(o){r=null}t[o]=r}return t[o]}(o);if(!e)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");e.appendChild(r)}},"./node_modules/style-loader/dist/runtime/insertStyleElement.js"(o){o.exports=function(o){var t=document.createElement("style");return o.setAttributes(t,o.attributes),o.insert(t,o.options),t}},"./node_modules/style-loader/dist/runtime/setAttributesWithoutAttributes.js"(o,t,r){o.exports=function(o){var t=r.nc;t&&o.setAttribute("nonce",t)}},"./node_modules/style-loader/dist/runtime/styleDomAPI.js"(o){o.exports=function(o){if("u"<typeof document)return{update:function(){},remove:function(){}};var t=o.insertStyleElement(o);return{update:function(r){var e,a,n;e="",r.supports&&(e+="@supports (".concat(r.supports,") {")),r.media&&(e+="@media ".concat(r.media," {")),(a=void 0!==r.layer)&&(e+="@layer".concat(r.layer.length>0?" ".concat(r.layer):""," {")),e+=r.css,a&&(e+="}"),r.media&&(e+="}"),r.supports&&(e+="}"),(n=r.sourceMap)&&"u">typeof btoa&&(e+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(n))))," */")),o.styleTagTransform(e,t,o.options)},remove:function(){var o;null===(o=t).parentNode||o.parentNode.removeChild(o)}}}},"./node_modules/style-loader/dist/runtime/styleTagTransform.js"(o){o.exports=function(o,t){if(t.styleSheet)t.styleSheet.cssText=o;else{for(;t.firstChild;)t.removeChild(t.firstChild);t.appendChild(document.createTextNode(o))}}},"./style/index.js"(o,t,r){var e=r("./node_modules/style-loader/dist/runtime/injectStylesIntoStyleTag.js"),a=r.n(e),n=r("./node_modules/style-loader/dist/runtime/styleDomAPI.js"),i=r.n(n),l=r("./node_modules/style-loader/dist/runtime/insertBySelector.js"),s=r.n(l),p=r("./node_modules/style-loader/dist/runtime/setAttributesWithoutAttributes.js"),d=r.n(p),c=r("./node_modules/style-loader/dist/runtime/insertStyleElement.js"),u=r.n(c),b=r("./node_modules/style-loader/dist/runtime/styleTagTransform.js"),m=r.n(b),f=r("./node_modules/css-loader/dist/cjs.js!./style/base.css"),v={};v.styleTagTransform=m(),v.setAttributes=d(),v.insert=s().bind(null,"head"),v.domAPI=i(),v.insertStyleElement=u(),a()(f.A,v),f.A&&f.A.locals&&f.A.locals}}]);