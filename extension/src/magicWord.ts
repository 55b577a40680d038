// A text as a word of a magic's line, as `magic_line` of tritonlab/core/quoting.py writes it. No JupyterLab here.

/** The word, quoted where it needs that, with no expression in it whose value IPython would put there. */
export function magicWord(text: string): string {
  const shown = text.replace(/[\p{C}\u2028\u2029]/gu, (each) => `\\u{${each.codePointAt(0)!.toString(16)}}`);
  const word = /^[^\s'"\\]+$/.test(shown) ? shown : `'${shown.replaceAll("'", `'"'"'`)}'`;
  const doubled = word.replace(/[{}]/g, (each) => each + each);
  // IPython leaves dollars within single quotes, which it finds by counting those that follow
  return doubled.replace(/\$(?=[\p{L}\p{N}_.])/gu, (each, at: number) =>
    doubled.slice(at).split("'").length % 2 ? each + each : each,
  );
}
