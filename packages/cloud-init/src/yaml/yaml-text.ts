/** A mistake in a YAML document. */
export class YamlError extends SyntaxError {
  override readonly name = "YamlError";
  /** From 1. */
  readonly line: number;
  /** From 1, in UTF-16 units. */
  readonly column: number;
  /** The message without its position. */
  readonly reason: string;

  constructor(
    message: string,
    { line, column }: { readonly line: number; readonly column: number },
  ) {
    super(`line ${line}, column ${column}: ${message}`);
    this.reason = message;
    this.line = line;
    this.column = column;
  }
}

/** The text of a document with the current position. Lines end with "\n" alone. */
export class YamlText {
  readonly text: string;
  /** Offset of the next character. */
  pos = 0;

  /** @throws {YamlError} for a control character, which YAML only allows as an escape */
  constructor(source: string) {
    // Normalize line breaks. U+FEFF is only a byte order mark at the start.
    this.text = source.replace(/^\uFEFF/, "").replaceAll(/\r\n?/g, "\n");
    // eslint-disable-next-line no-control-regex -- it looks for control characters
    const at = this.text.search(/[\0-\u0008\u000B\u000C\u000E-\u001F\u007F]/);
    if (at >= 0) throw this.error("a control character must be escaped in double quotes", at);
  }

  /** The next character, or the one at this distance. Empty at the end. */
  char(ahead = 0): string {
    return this.text.charAt(this.pos + ahead);
  }

  get isEnd(): boolean {
    return this.pos >= this.text.length;
  }

  /** Whether the next character, or the one at this distance, is a space, a tab, a line break or the end. */
  isBlank(ahead = 0): boolean {
    const char = this.char(ahead);
    return char === "" || char === " " || char === "\t" || char === "\n";
  }

  /** Skips spaces and tabs. */
  skipSpace(): void {
    while (this.char() === " " || this.char() === "\t") this.pos++;
  }

  /** Whether only spaces and a comment are left on this line. If so, moves to the line's end. */
  skipRestOfLine(): boolean {
    const start = this.pos;
    this.skipSpace();
    if (this.char() === "#" && (this.pos > start || this.column() === 0)) this.pos = this.lineEnd();
    if (this.isEnd || this.char() === "\n") return true;
    this.pos = start;
    return false;
  }

  /** Offset of this line's "\n", or of the text's end. */
  lineEnd(): number {
    const end = this.text.indexOf("\n", this.pos);
    return end < 0 ? this.text.length : end;
  }

  /** Number of characters before an offset on its line. */
  column(at: number = this.pos): number {
    return at === 0 ? 0 : at - this.text.lastIndexOf("\n", at - 1) - 1;
  }

  /**
   * Moves from a line's end to the next character that is not a space or in a comment.
   *
   * @returns its column; -1 at the text's end, or at a document marker
   * @throws {YamlError} for a line that is indented by a tab
   */
  skipToContent(): number {
    for (;;) {
      if (!this.skipRestOfLine()) break;
      if (this.isEnd) return -1;
      this.pos++;
    }
    const start = this.pos;
    while (this.char() === " ") this.pos++;
    if (this.char() === "\t" && this.column(start) === 0)
      throw this.error("a tab cannot indent a line; use spaces");
    this.skipSpace();
    return this.isMarker() ? -1 : this.column();
  }

  /** Whether "---" or "..." begins here, at the start of a line. */
  isMarker(): boolean {
    const here = this.text.slice(this.pos, this.pos + 3);
    return (here === "---" || here === "...") && this.column() === 0 && this.isBlank(3);
  }

  /** @param at offset of the mistake @default the current position */
  error(message: string, at: number = this.pos): YamlError {
    return new YamlError(message, this.placeOf(at));
  }

  /** Line and column of an offset, both from 1. */
  placeOf(at: number): { readonly line: number; readonly column: number } {
    let line = 1;
    for (let end = this.text.indexOf("\n"); end >= 0 && end < at; line++)
      end = this.text.indexOf("\n", end + 1);
    return { line, column: this.column(at) + 1 };
  }
}
