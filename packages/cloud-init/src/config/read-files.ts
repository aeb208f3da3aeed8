import { maxContentBytes, maxUserDataBytes, type WriteFile } from "./cloud-config.ts";
import { fieldOf, type ConfigField } from "./config-field.ts";
import { isGzip, unpackGzip } from "./gzip.ts";

/** Encodings by name. If both are set, base64 is the outer one. */
const encodings: Readonly<Record<string, { readonly base64: boolean; readonly gzip: boolean }>> = {
  "": { base64: false, gzip: false },
  "text/plain": { base64: false, gzip: false },
  b64: { base64: true, gzip: false },
  base64: { base64: true, gzip: false },
  // YAML can only contain compressed bytes as !!binary, or as base64 without another mark.
  gz: { base64: false, gzip: true },
  gzip: { base64: false, gzip: true },
  "gz+b64": { base64: true, gzip: true },
  "gz+base64": { base64: true, gzip: true },
  "gzip+b64": { base64: true, gzip: true },
  "gzip+base64": { base64: true, gzip: true },
};

/** Counts the total size of the files of one user data. */
export interface ContentBudget {
  /** Remaining bytes. */
  left: number;
}

/** A budget for the files of one user data. */
export function contentBudget(): ContentBudget {
  return { left: maxContentBytes };
}

/** Reads `write_files` and its old name `milpa_files`. @param substitute applied to content without an encoding */
export function readFiles(
  field: ConfigField,
  budget: ContentBudget,
  substitute: (text: string) => string,
): readonly WriteFile[] {
  const files: WriteFile[] = [];
  for (const item of field.items()) {
    const file = readFile(item, budget, substitute);
    if (file) files.push(file);
    // Stop at once, because the next files could be as large.
    if (budget.left < 0) {
      field.problem(`has more than ${maxContentBytes} bytes of files together`);
      break;
    }
  }
  return files;
}

function readFile(
  item: ConfigField,
  budget: ContentBudget,
  substitute: (text: string) => string,
): WriteFile | undefined {
  const fields = item.entries();
  if (!fields) return undefined;
  const field = (name: string): ConfigField => fieldOf(item, fields, name);
  const path = field("path").text();
  if (path === undefined || !/^\/[^\0]*[^/\0]$/.test(path) || path.split("/").includes(".."))
    field("path").problem('is not an absolute path of a file without ".."');
  // Without these settings, the file's content would not be the intended one.
  for (const name of ["append", "source", "defer"])
    if (fields.has(name) && field(name).value !== false && !field(name).isAbsent)
      field(name).problem("is not supported");
  const content = readContent(field("content"), field("encoding"), substitute);
  budget.left -= content?.length ?? 0;
  const mode = readMode(field("permissions"));
  const owner = readOwner(field("owner"));
  if (path === undefined || content === undefined || mode === undefined) return undefined;
  return { path, content, mode, ...(owner === undefined ? {} : { owner }) };
}

function readMode(field: ConfigField): number | undefined {
  const permissions = field.text() ?? "0644";
  return /^(0o?)?[0-7]{3,4}$/.test(permissions)
    ? Number.parseInt(permissions.replace("o", ""), 8)
    : field.problem('is not an octal number such as "0644"');
}

function readOwner(field: ConfigField): string | undefined {
  const owner = field.text();
  if (owner === undefined || /^[^:\s]+(:[^:\s]*)?$/.test(owner)) return owner;
  return field.problem('is not "user" or "user:group"');
}

function readContent(
  content: ConfigField,
  encodingField: ConfigField,
  substitute: (text: string) => string,
): Uint8Array | undefined {
  const name = encodingField.text()?.trim().toLowerCase() ?? "";
  const encoding = Object.hasOwn(encodings, name) ? encodings[name] : undefined;
  if (!encoding)
    return encodingField.problem(`is "${name.slice(0, 100)}"; known are b64, gz and gz+b64`);
  const isBinary = content.value instanceof Uint8Array;
  const bytes = isBinary ? content.value : readText(content, encoding.base64);
  if (bytes === undefined || !encoding.gzip) {
    if (bytes === undefined || isBinary || encoding.base64) return bytes;
    return Buffer.from(substitute(Buffer.from(bytes).toString()));
  }
  if (!isGzip(bytes)) return content.problem("is not compressed by gzip");
  return unpackGzip(bytes, maxUserDataBytes) ?? content.problem(gzipProblem);
}

const gzipProblem = `cannot be unpacked (damaged, or above ${maxUserDataBytes} bytes)`;

function readText(content: ConfigField, isBase64: boolean): Uint8Array | undefined {
  const text = content.isAbsent ? "" : content.text();
  if (text === undefined || !isBase64) return text === undefined ? undefined : Buffer.from(text);
  const plain = text.replaceAll(/\s/g, "");
  return /^[A-Za-z0-9+/]*={0,2}$/.test(plain)
    ? Buffer.from(plain, "base64")
    : content.problem("is not base64");
}
