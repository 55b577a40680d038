"use strict";(self.rspackChunktritonlab=self.rspackChunktritonlab||[]).push([["style_index_js"],{"./node_modules/css-loader/dist/cjs.js!./style/base.css"(t,e,r){var o=r("./node_modules/css-loader/dist/runtime/noSourceMaps.js"),n=r.n(o),a=r("./node_modules/css-loader/dist/runtime/api.js"),i=(r.n(a))()(n());i.push([t.id,`/* Everything of ours is named tritonlab-*, and coloured as the theme says. */

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
[data-jp-item-name="tritonlab-export"] .jp-ToolbarButtonComponent-label {
  margin-left: 4px;
}
`,""]),r.d(e,{},{A:i})},"./node_modules/css-loader/dist/runtime/api.js"(t){t.exports=function(t){var e=[];return e.toString=function(){return this.map(function(e){var r="",o=void 0!==e[5];return e[4]&&(r+="@supports (".concat(e[4],") {")),e[2]&&(r+="@media ".concat(e[2]," {")),o&&(r+="@layer".concat(e[5].length>0?" ".concat(e[5]):""," {")),r+=t(e),o&&(r+="}"),e[2]&&(r+="}"),e[4]&&(r+="}"),r}).join("")},e.i=function(t,r,o,n,a){"string"==typeof t&&(t=[[null,t,void 0]]);var i={};if(o)for(var l=0;l<this.length;l++){var s=this[l][0];null!=s&&(i[s]=!0)}for(var d=0;d<t.length;d++){var c=[].concat(t[d]);o&&i[c[0]]||(void 0!==a&&(void 0===c[5]||(c[1]="@layer".concat(c[5].length>0?" ".concat(c[5]):""," {").concat(c[1],"}")),c[5]=a),r&&(c[2]&&(c[1]="@media ".concat(c[2]," {").concat(c[1],"}")),c[2]=r),n&&(c[4]?(c[1]="@supports (".concat(c[4],") {").concat(c[1],"}"),c[4]=n):c[4]="".concat(n)),e.push(c))}},e}},"./node_modules/css-loader/dist/runtime/noSourceMaps.js"(t){t.exports=function(t){return t[1]}},"./node_modules/style-loader/dist/runtime/injectStylesIntoStyleTag.js"(t){var e=[];function r(t){for(var r=-1,o=0;o<e.length;o++)if(e[o].identifier===t){r=o;break}return r}function o(t,o){for(var n={},a=[],i=0;i<t.length;i++){var l=t[i],s=o.base?l[0]+o.base:l[0],d=n[s]||0,c="".concat(s," ").concat(d);n[s]=d+1;var p=r(c),u={css:l[1],media:l[2],sourceMap:l[3],supports:l[4],layer:l[5]};if(-1!==p)e[p].references++,e[p].updater(u);else{var m=function(t,e){var r=e.domAPI(e);return r.update(t),function(e){e?(e.css!==t.css||e.media!==t.media||e.sourceMap!==t.sourceMap||e.supports!==t.supports||e.layer!==t.layer)&&r.update(t=e):r.remove()}}(u,o);o.byIndex=i,e.splice(i,0,{identifier:c,updater:m,references:1})}a.push(c)}return a}t.exports=function(t,n){var a=o(t=t||[],n=n||{});return function(t){t=t||[];for(var i=0;i<a.length;i++){var l=r(a[i]);e[l].references--}for(var s=o(t,n),d=0;d<a.length;d++){var c=r(a[d]);0===e[c].references&&(e[c].updater(),e.splice(c,1))}a=s}}},"./node_modules/style-loader/dist/runtime/insertBySelector.js"(t){var e={};t.exports=function(t,r){var o=function(t){if(void 0===e[t]){var r=document.querySelector(t);if(window.HTMLIFrameElement&&r instanceof window.HTMLIFrameElement)try{r=r.contentDocument.head}catch(t){r=null}e[t]=r}return e[t]}(t);if(!o)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");o.appendChild(r)}},"./node_modules/style-loader/dist/runtime/insertStyleElement.js"(t){t.exports=function(t){var e=document.createElement("style");return t.setAttributes(e,t.attributes),t.insert(e,t.options),e}},"./node_modules/style-loader/dist/runtime/setAttributesWithoutAttributes.js"(t,e,r){t.exports=function(t){var e=r.nc;e&&t.setAttribute("nonce",e)}},"./node_modules/style-loader/dist/runtime/styleDomAPI.js"(t){t.exports=function(t){if("u"<typeof document)return{update:function(){},remove:function(){}};var e=t.insertStyleElement(t);return{update:function(r){var o,n,a;o="",r.supports&&(o+="@supports (".concat(r.supports,") {")),r.media&&(o+="@media ".concat(r.media," {")),(n=void 0!==r.layer)&&(o+="@layer".concat(r.layer.length>0?" ".concat(r.layer):""," {")),o+=r.css,n&&(o+="}"),r.media&&(o+="}"),r.supports&&(o+="}"),(a=r.sourceMap)&&"u">typeof btoa&&(o+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(a))))," */")),t.styleTagTransform(o,e,t.options)},remove:function(){var t;null===(t=e).parentNode||t.parentNode.removeChild(t)}}}},"./node_modules/style-loader/dist/runtime/styleTagTransform.js"(t){t.exports=function(t,e){if(e.styleSheet)e.styleSheet.cssText=t;else{for(;e.firstChild;)e.removeChild(e.firstChild);e.appendChild(document.createTextNode(t))}}},"./style/index.js"(t,e,r){var o=r("./node_modules/style-loader/dist/runtime/injectStylesIntoStyleTag.js"),n=r.n(o),a=r("./node_modules/style-loader/dist/runtime/styleDomAPI.js"),i=r.n(a),l=r("./node_modules/style-loader/dist/runtime/insertBySelector.js"),s=r.n(l),d=r("./node_modules/style-loader/dist/runtime/setAttributesWithoutAttributes.js"),c=r.n(d),p=r("./node_modules/style-loader/dist/runtime/insertStyleElement.js"),u=r.n(p),m=r("./node_modules/style-loader/dist/runtime/styleTagTransform.js"),f=r.n(m),b=r("./node_modules/css-loader/dist/cjs.js!./style/base.css"),v={};v.styleTagTransform=f(),v.setAttributes=c(),v.insert=s().bind(null,"head"),v.domAPI=i(),v.insertStyleElement=u(),n()(b.A,v),b.A&&b.A.locals&&b.A.locals}}]);