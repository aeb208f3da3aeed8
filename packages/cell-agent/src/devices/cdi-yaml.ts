/**
 * Parses the subset of YAML in which programs write device files: mappings and sequences by indentation, one-line scalars, and
 * brackets if they are JSON. An agent has no library for all of YAML. Anything else is refused.
 *
 * @throws {SyntaxError} with the line number
 */
export function parseCdiYaml(text: string): unknown {
  const lines = text.split("\n").flatMap((line, index) => readLine(line, index + 1));
  const reader = new Reader(lines);
  const value = reader.node(0);
  reader.end();
  return value;
}

interface Line {
  readonly number: number;
  readonly indent: number;
  readonly text: string;
}

function readLine(line: string, number: number): readonly Line[] {
  const text = line.trim();
  if (text === "" || text.startsWith("#") || text === "---") return [];
  const indent = line.search(/\S/);
  if (line.slice(0, indent).includes("\t")) throw wrong(number, "a tab in the indentation");
  return [{ number, indent, text }];
}

class Reader {
  #lines: readonly Line[];
  #next = 0;

  constructor(lines: readonly Line[]) {
    this.#lines = lines;
  }

  /** The mapping, sequence or scalar that begins on the next line, if that is indented at least this far. */
  node(indent: number): unknown {
    const line = this.#peek();
    if (!line || line.indent < indent) return null;
    if (isItem(line.text)) return this.#sequence(line.indent);
    if (keyOf(line.text) !== undefined) return this.#mapping(line.indent);
    this.#next++;
    return scalar(line.text, line.number);
  }

  end(): void {
    const line = this.#peek();
    if (line) throw wrong(line.number, "an indentation that does not fit");
  }

  #peek(): Line | undefined {
    return this.#lines[this.#next];
  }

  #sequence(indent: number): unknown[] {
    const items: unknown[] = [];
    for (let line = this.#peek(); line?.indent === indent && isItem(line.text);) {
      const text = line.text.slice(1).trimStart();
      const inner = indent + line.text.length - text.length;
      if (text === "") {
        this.#next++;
        items.push(this.node(indent + 1));
      } else {
        // The text after the dash is the first line of the item.
        this.#lines = this.#lines.with(this.#next, { ...line, indent: inner, text });
        items.push(this.node(inner));
      }
      line = this.#peek();
    }
    return items;
  }

  #mapping(indent: number): Record<string, unknown> {
    const entries = new Map<string, unknown>();
    for (let line = this.#peek(); line?.indent === indent; line = this.#peek()) {
      const found = keyOf(line.text);
      if (found === undefined) throw wrong(line.number, "no key");
      if (entries.has(found.key)) throw wrong(line.number, `"${found.key}" a second time`);
      this.#next++;
      entries.set(found.key, this.#value(found.rest, { ...line, indent }));
    }
    return Object.fromEntries(entries);
  }

  #value(rest: string, { indent, number }: Line): unknown {
    if (rest !== "") return scalar(rest, number);
    const next = this.#peek();
    // A sequence may follow its key without further indentation.
    const isSequence = next?.indent === indent && isItem(next.text);
    return isSequence ? this.#sequence(indent) : this.node(indent + 1);
  }
}

function isItem(text: string): boolean {
  return text === "-" || text.startsWith("- ");
}

function keyOf(text: string): { readonly key: string; readonly rest: string } | undefined {
  const match = /^(?:"([^"\\]*)"|'([^']*)'|([^\s"'[\]{}#&*!|>%@`-][^:#]*?)):(?:\s+(.*))?$/.exec(
    text,
  );
  if (!match) return undefined;
  const rest = match[4] ?? "";
  return { key: match[1] ?? match[2] ?? match[3] ?? "", rest: rest.startsWith("#") ? "" : rest };
}

function scalar(text: string, line: number): unknown {
  const quoted = /^('(?:[^']|'')*'|"(?:[^"\\]|\\.)*")\s*(?:#.*)?$/.exec(text)?.[1];
  if (quoted?.startsWith("'") === true) return quoted.slice(1, -1).replaceAll("''", "'");
  if (quoted !== undefined || /^[[{]/.test(text)) return json(quoted ?? text, line);
  if (/^["'&*!|>%@`]/.test(text)) throw wrong(line, "a value of a kind that is not read");
  const plain = text.replace(/\s+#.*$/, "");
  if (/^[-+]?\d+$/.test(plain)) {
    // Programs write file modes like this: 0600 is octal.
    return /^0\d+$/.test(plain) ? Number.parseInt(plain, 8) : Number(plain);
  }
  if (plain === "true" || plain === "false") return plain === "true";
  return plain === "null" || plain === "~" ? null : plain;
}

function json(text: string, line: number): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw wrong(line, "a value of a kind that is not read");
  }
}

function wrong(line: number, what: string): SyntaxError {
  return new SyntaxError(`Cannot read YAML: line ${line} has ${what}`);
}
