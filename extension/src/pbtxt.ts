// The protobuf text format of config.pbtxt, for CodeMirror. No JupyterLab here.
import { LanguageSupport, StreamLanguage, StreamParser } from "@codemirror/language";

export const PBTXT_MIME = "text/x-pbtxt";

/** What a token is, by what stands at the head of the rest of the line. The first that fits counts. */
const TOKENS: [RegExp, string][] = [
  [/^#.*/, "comment"],
  [/^"(?:[^"\\]|\\.)*"?/, "string"],
  [/^'(?:[^'\\]|\\.)*'?/, "string"],
  [/^-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?f?/, "number"],
  [/^(?:true|false)\b/, "bool"],
  [/^[A-Za-z_]\w*(?=\s*[:{[<])/, "propertyName"],
  [/^[A-Z][A-Z0-9_]*\b/, "atom"],
  [/^[A-Za-z_]\w*/, "variableName"],
  [/^[{}[\]<>]/, "bracket"],
];

const parser: StreamParser<unknown> = {
  name: "pbtxt",
  token(stream) {
    if (stream.eatSpace()) return null;
    // the magic that such a cell begins with
    if (stream.sol() && stream.match(/^%%\S+/)) return "keyword";
    for (const [pattern, kind] of TOKENS) if (stream.match(pattern)) return kind;
    stream.next();
    return null;
  },
  languageData: { commentTokens: { line: "#" }, closeBrackets: { brackets: ["{", "[", '"'] } },
};

export function pbtxt(): LanguageSupport {
  return new LanguageSupport(StreamLanguage.define(parser));
}
