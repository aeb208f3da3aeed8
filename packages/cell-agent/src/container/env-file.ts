/** The values in a file of `KEY=value` lines, which is parsed once for all keys. */
export class EnvFile {
  readonly #values = new Map<string, string>();
  /** Why the file cannot be parsed any further. */
  readonly #problem: Error | undefined;

  constructor(text: string) {
    this.#problem = this.#read(text);
  }

  /**
   * The first value of a key, or "" if there is none. Skips blank lines and those that begin with "#". A line that ends with a
   * backslash is joined with the next one by a space. Lines after the key are not checked.
   *
   * @throws {Error} if a line before the key is invalid, in the kubelet's words
   * @see https://kubernetes.io/docs/tasks/inject-data-application/define-environment-variable-via-file/
   */
  value(key: string): string {
    const value = this.#values.get(key);
    if (value === undefined && this.#problem) throw this.#problem;
    return value ?? "";
  }

  #read(text: string): Error | undefined {
    let begun: string[] = [];
    const lines = (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");
    for (const [index, line] of lines.entries()) {
      const own = line.trim();
      if (own === "" || own.startsWith("#")) {
        if (begun.length === 0) continue;
        return invalid(index, own === "" ? "blank line" : "comment");
      }
      if (own.endsWith("\\")) {
        begun.push(own.slice(0, -1).trimEnd());
        continue;
      }
      const entry = [...begun, own].join(" ");
      begun = [];
      const at = entry.indexOf("=");
      const name = entry.slice(0, Math.max(at, 0)).trim();
      if (name === "") return invalid(index);
      if (!this.#values.has(name)) this.#values.set(name, entry.slice(at + 1).trim());
    }
    if (begun.length === 0) return undefined;
    return new Error("unexpected end of file: unfinished line continuation");
  }
}

function invalid(index: number, inContinuation?: string): Error {
  const what = inContinuation === undefined ? "" : `: ${inContinuation} in continuation`;
  return new Error(`invalid environment variable format at line ${index + 1}${what}`);
}
