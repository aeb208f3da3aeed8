import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { isSystemError } from "@kip/base";

/** A package source, in the fields of sources.list(5). */
interface AptSource {
  readonly types: readonly string[];
  readonly uris: readonly string[];
  readonly suites: readonly string[];
  readonly components: readonly string[];
  readonly signedBy: string;
}

/**
 * The lines for mmdebstrap, taken from this host's sources of the suite, so that a mirror configured here is used.
 *
 * Only Debian's own archive is used, not third-party sources, which are signed with other keys.
 *
 * @param directory the host's `/etc/apt`
 * @param suite for example `bookworm`
 * @returns one-line entries. Empty if this host has no source for the suite
 * @see sources.list(5)
 */
export async function hostAptSources(directory: string, suite: string): Promise<readonly string[]> {
  const wanted = [suite, `${suite}-updates`, `${suite}-security`];
  const lines: string[] = [];
  for (const source of await readSources(directory)) {
    if (!source.types.includes("deb") || !source.components.includes("main")) continue;
    if (source.signedBy !== "" && !source.signedBy.includes("debian-archive")) continue;
    for (const uri of source.uris.filter((text) => /\/debian(-security)?\/?$/.test(text))) {
      for (const name of source.suites.filter((text) => wanted.includes(text)))
        lines.push(`deb ${uri} ${name} main`);
    }
  }
  // Updates and security alone are not enough for a system.
  return lines.some((line) => line.includes(` ${suite} `)) ? [...new Set(lines)] : [];
}

async function readSources(directory: string): Promise<readonly AptSource[]> {
  const folder = path.join(directory, "sources.list.d");
  const names = (await orEmpty(readdir(folder), [])).sort();
  const sources = parseOneLine(
    await orEmpty(readFile(path.join(directory, "sources.list"), "utf8"), ""),
  );
  for (const name of names) {
    if (!name.endsWith(".list") && !name.endsWith(".sources")) continue;
    const text = await readFile(path.join(folder, name), "utf8");
    sources.push(...(name.endsWith(".list") ? parseOneLine(text) : parseDeb822(text)));
  }
  return sources;
}

async function orEmpty<T>(reading: Promise<T>, empty: T): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return empty;
    throw error;
  }
}

function parseOneLine(text: string): AptSource[] {
  const sources: AptSource[] = [];
  for (const line of text.split("\n")) {
    const match = /^\s*(deb|deb-src)\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s*([^#]*)/.exec(line);
    if (!match) continue;
    const [, type = "", options = "", uri = "", suite = "", components = ""] = match;
    const signedBy = /signed-by=(\S+)/.exec(options)?.[1] ?? "";
    sources.push({
      types: [type],
      uris: [uri],
      suites: [suite],
      components: words(components),
      signedBy,
    });
  }
  return sources;
}

function parseDeb822(text: string): readonly AptSource[] {
  return text
    .split(/\n\s*\n/)
    .map(fieldsOf)
    .filter((fields) => fields.get("enabled") !== "no")
    .map((fields) => ({
      types: words(fields.get("types")),
      uris: words(fields.get("uris")),
      suites: words(fields.get("suites")),
      components: words(fields.get("components")),
      signedBy: fields.get("signed-by") ?? "",
    }));
}

function fieldsOf(stanza: string): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  let last = "";
  for (const line of stanza.split("\n")) {
    if (line.startsWith("#")) continue;
    const match = /^([A-Za-z-]+):\s*(.*)$/.exec(line);
    if (match) {
      last = (match[1] ?? "").toLowerCase();
      fields.set(last, match[2] ?? "");
    } else if (/^\s/.test(line)) {
      fields.set(last, `${fields.get(last) ?? ""} ${line.trim()}`);
    }
  }
  return fields;
}

function words(text = ""): readonly string[] {
  return text.split(/\s+/).filter((word) => word !== "");
}
