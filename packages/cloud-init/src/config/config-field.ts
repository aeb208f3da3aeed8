type Path = readonly (string | number)[];

/** A problem in a cloud-config, or something that is skipped. */
export interface ConfigNote {
  /** As in `write_files`, 0, `path`. Empty for the whole document. */
  readonly path: Path;
  /** Begins with the path in quotes. */
  readonly message: string;
}

/** Maximum number of problems and of warnings that are kept, and maximum number of characters of a key that are quoted. */
const maxNotes = 20;
const maxKeyLength = 100;

/** The first problems and warnings. User data may have very many mistakes. */
export class ConfigNotes {
  readonly problems: ConfigNote[] = [];
  readonly warnings: ConfigNote[] = [];

  problem(path: Path, reason: string): void {
    add(this.problems, path, `"${pathText(path)}" ${reason}`);
  }

  warn(path: Path, message: string): void {
    add(this.warnings, path, message);
  }
}

function add(notes: ConfigNote[], path: Path, message: string): void {
  if (notes.length < maxNotes) notes.push({ path, message });
  else if (notes.length === maxNotes) notes.push({ path: [], message: "and more" });
}

function pathText(path: Path): string {
  let text = "";
  for (const part of path)
    if (typeof part === "number") text += `[${part}]`;
    else text += (text === "" ? "" : ".") + part.slice(0, maxKeyLength);
  return text;
}

/**
 * A value of a cloud-config. Its methods return undefined for a value that is missing, null or invalid. An invalid one is also
 * noted as a problem.
 */
export class ConfigField {
  readonly value: unknown;
  readonly path: Path;
  readonly notes: ConfigNotes;

  constructor(value: unknown, path: Path, notes: ConfigNotes) {
    this.value = value;
    this.path = path;
    this.notes = notes;
  }

  get isAbsent(): boolean {
    return this.value === undefined || this.value === null;
  }

  /** Numbers and Booleans are returned as the text that was written. */
  text(): string | undefined {
    const { value } = this;
    if (typeof value === "string") return value;
    if (typeof value === "number" || typeof value === "boolean") return String(value);
    return this.isAbsent ? undefined : this.problem("is not a text");
  }

  /** A text without line breaks and NUL characters. */
  line(): string | undefined {
    const text = this.text();
    return text !== undefined && /[\n\r\0]/.test(text)
      ? this.problem("has more than one line")
      : text;
  }

  /** Also accepts the words of YAML 1.1, like Canonical's cloud-init. */
  boolean(): boolean | undefined {
    if (this.isAbsent) return undefined;
    const word = typeof this.value === "string" ? this.value.toLowerCase() : this.value;
    if (word === true || word === "true" || word === "yes" || word === "on") return true;
    if (word === false || word === "false" || word === "no" || word === "off") return false;
    return this.problem("is neither true nor false");
  }

  /** Empty for a missing or invalid value. */
  items(): readonly ConfigField[] {
    if (this.isAbsent) return [];
    if (!Array.isArray(this.value)) {
      this.problem("is not a list");
      return [];
    }
    return (this.value as readonly unknown[]).map(
      (item, index) => new ConfigField(item, [...this.path, index], this.notes),
    );
  }

  /** Fields by name, where dashes are replaced by underscores. Undefined if this is not a map. */
  entries(): ReadonlyMap<string, ConfigField> | undefined {
    const { value } = this;
    if (typeof value !== "object" || value === null || Array.isArray(value))
      return this.problem("is not a map");
    const fields = new Map<string, ConfigField>();
    for (const [key, item] of Object.entries(value)) {
      const field = new ConfigField(item, [...this.path, key], this.notes);
      const name = key.replaceAll("-", "_");
      if (fields.has(name)) field.problem("is there twice, with a dash and with an underscore");
      fields.set(name, field);
    }
    return fields;
  }

  problem(reason: string): undefined {
    this.notes.problem(this.path, reason);
    return undefined;
  }
}

/** The field with this name. If there is none, a field without a value. */
export function fieldOf(
  parent: ConfigField,
  fields: ReadonlyMap<string, ConfigField>,
  name: string,
): ConfigField {
  return fields.get(name) ?? new ConfigField(undefined, [...parent.path, name], parent.notes);
}
