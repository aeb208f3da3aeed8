import { readFileSync } from "node:fs";
import { errorText, isCodedError, isSystemError } from "@kip/base";
import { parseAllDocuments } from "yaml";
import { KipError } from "../errors.ts";
import { pricedPods, type PricedPods } from "./priced-document.ts";

/** Maximum size of a manifest, bytes. */
const maxBytes = 16 * 1024 ** 2;

/**
 * Reads the pods of a manifest: YAML or JSON, with one or more documents.
 *
 * @param file `-` for standard input
 * @throws {KipError} `MANIFEST_INVALID`, with file, document, line or field, and a remedy
 */
export function readManifest(file: string): readonly PricedPods[] {
  const shown = file === "-" ? "the standard input" : file;
  const pods = documentsOf(readText(file, shown), shown).flatMap((value, index, all) => {
    if (value === null || value === undefined) return [];
    const which = all.length > 1 ? `document ${index + 1} of ${shown}` : shown;
    if (typeof value !== "object" || Array.isArray(value))
      throw new KipError("MANIFEST_INVALID", `Cannot price ${which}: it is not an object`, {
        remedy: "Give a manifest that kubectl apply takes",
      });
    try {
      return pricedPods(value);
    } catch (cause) {
      throw unreadable(which, cause);
    }
  });
  if (pods.length > 0) return pods;
  throw new KipError("MANIFEST_INVALID", `Cannot price ${shown}: nothing in it makes pods`, {
    remedy: "Give a manifest with a Pod, Deployment, StatefulSet, DaemonSet, Job or CronJob",
  });
}

function readText(file: string, shown: string): string {
  let text: string;
  try {
    text = readFileSync(file === "-" ? 0 : file, "utf8");
  } catch (cause) {
    const isAbsent = isSystemError(cause, "ENOENT");
    throw new KipError(
      "MANIFEST_INVALID",
      `Cannot read ${shown}${isAbsent ? ": there is no such file" : ""}`,
      { ...(!isAbsent && { cause }), remedy: "Give the file with -f, or - for the standard input" },
    );
  }
  if (text.length <= maxBytes) return text;
  throw new KipError("MANIFEST_INVALID", `Cannot read ${shown}: it is larger than 16 MiB`, {
    remedy: "Give a smaller part of it",
  });
}

/**
 * Parses the documents. The parser's own messages quote the text, which may contain passwords, so errors only have line and
 * column.
 */
function documentsOf(text: string, shown: string): readonly unknown[] {
  const documents = parseAllDocuments(text, { logLevel: "error" });
  if (!Array.isArray(documents)) return [];
  return documents.map((document, index) => {
    const [error] = document.errors;
    if (!error) return toValue(document, `document ${index + 1} of ${shown}`);
    const { line, col } = error.linePos?.[0] ?? { line: 1, col: 1 };
    throw new KipError(
      "MANIFEST_INVALID",
      `Cannot read ${shown}: it is not valid YAML, see line ${line}, column ${col}`,
      { remedy: "Correct the line, for example its indentation or quotes" },
    );
  });
}

function toValue(document: { toJS(): unknown }, which: string): unknown {
  try {
    return document.toJS();
  } catch (cause) {
    // An alias without an anchor, or too many aliases.
    throw unreadable(which, cause instanceof Error ? new Error(cause.name) : cause);
  }
}

function unreadable(which: string, cause: unknown): KipError {
  const remedy = (isCodedError(cause) ? cause.remedy : undefined) ?? "Correct the field";
  return new KipError("MANIFEST_INVALID", `Cannot price ${which}: ${errorText(cause)}`, { remedy });
}
