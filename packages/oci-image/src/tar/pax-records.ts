import { invalidImage } from "../errors.ts";

/**
 * Parses the records of a PAX extended header: `<length> <key>=<value>\n`, with decimal lengths, and with keys and values as
 * byte strings (POSIX.1-2001 pax). @throws `IMAGE_INVALID`
 */
export function parsePaxRecords(body: Buffer): ReadonlyMap<string, string> {
  const records = new Map<string, string>();
  let at = 0;
  while (at < body.length) {
    const space = body.indexOf(0x20, at);
    const digits = space === -1 || space - at > 9 ? "" : body.toString("latin1", at, space);
    const length = /^[1-9]\d*$/.test(digits) ? Number(digits) : 0;
    const end = at + length;
    const equals = body.indexOf(0x3d, space);
    if (length === 0 || end > body.length || body[end - 1] !== 0x0a) throw broken();
    if (equals <= space + 1 || equals >= end) throw broken();
    const key = body.toString("latin1", space + 1, equals);
    const value = body.toString("latin1", equals + 1, end - 1);
    // A zero byte ends a name for the kernel but not here, so the name would be ambiguous.
    if (value.includes("\0") && !key.includes("xattr")) throw broken();
    // An empty value cancels an earlier one, so the plain header counts (POSIX). An attribute may be empty.
    if (value === "" && plainKeys.has(key)) records.delete(key);
    else records.set(key, listOf(key, value, records));
    at = end;
  }
  return records;
}

/** Keys that are also in the plain header. */
const plainKeys = new Set(["path", "linkpath", "size", "uid", "gid", "mtime"]);

/**
 * For sparse files, PAX 0.0 repeats two keys, once per segment. They are joined into one list, as in PAX 0.1. For any other
 * key, the last value counts.
 */
function listOf(key: string, value: string, records: Map<string, string>): string {
  if (key === "GNU.sparse.numbytes" || key === "GNU.sparse.offset") {
    const list = records.get("GNU.sparse.map");
    records.set("GNU.sparse.map", list === undefined ? value : `${list},${value}`);
  }
  return value;
}

/** Parses a decimal number of a record. Times may have a fraction. @throws `IMAGE_INVALID` */
export function paxNumber(key: string, value: string): number {
  const isTime = key === "mtime";
  const number = (isTime ? /^-?\d{1,12}(\.\d+)?$/ : /^\d{1,16}$/).test(value) ? Number(value) : NaN;
  if (Number.isNaN(number) || (!isTime && !Number.isSafeInteger(number))) {
    throw invalidImage(`an entry of a layer has a broken ${key}`);
  }
  return number;
}

function broken(): Error {
  return invalidImage("a layer has a broken PAX header");
}
