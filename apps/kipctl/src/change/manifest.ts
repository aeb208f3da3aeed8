import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { decode, errorText, OptionError, type OptionValues } from "@kip/base";
import { parseAllDocuments } from "yaml";
import { KipctlError } from "../errors.ts";

/** The fields of a manifest's pod that kipctl reads. */
export interface ManifestPod {
  readonly name: string;
  readonly namespace: string | undefined;
  /** The whole object, as it is sent to the API. */
  readonly object: unknown;
}

/** Maximum size of a manifest, bytes. The API server accepts 3 MiB for one object. */
const maxBytes = 16 * 2 ** 20;

const head = decode.object({
  apiVersion: decode.optional(decode.string),
  kind: decode.string,
  metadata: decode.object({ name: decode.string, namespace: decode.optional(decode.string) }),
  spec: decode.optional(
    decode.object({
      units: decode.optional(decode.unknownValue),
      containers: decode.optional(decode.unknownValue),
    }),
  ),
});

/** Reads the pods of the file that `-f` names. @throws {OptionError}; {@link KipctlError} `MANIFEST_REFUSED` */
export async function readManifest(options: OptionValues): Promise<readonly ManifestPod[]> {
  const file = options.required("filename");
  return podsOf(await readText(file), file);
}

async function readText(file: string): Promise<string> {
  try {
    return file === "-" ? await text(process.stdin) : await readFile(file, "utf8");
  } catch (cause) {
    throw new OptionError("OPTION_INVALID", `Cannot read --filename ${file}: ${errorText(cause)}`, {
      cause,
    });
  }
}

/**
 * The pods of a manifest: YAML documents or JSON, including Lists. The original's own objects also had the kind `Pod`, but
 * listed `units` instead of containers.
 *
 * @throws {KipctlError} `MANIFEST_REFUSED`, with file, document and line
 */
export function podsOf(source: string, file: string): readonly ManifestPod[] {
  if (source.length > maxBytes) throw refused(`${file} has more than ${maxBytes / 2 ** 20} MiB`);
  const pods: ManifestPod[] = [];
  for (const [at, document] of parseAllDocuments(source).entries()) {
    const where = `${file}, document ${at + 1}`;
    const [error] = document.errors;
    if (error) throw refused(`${where}: ${error.message.split("\n")[0] ?? ""}`);
    const value: unknown = document.toJS({ maxAliasCount: 100 });
    if (value !== null && value !== undefined) pods.push(...podsIn(value, where));
  }
  if (pods.length === 0) throw refused(`${file} has no object`);
  return pods;
}

function podsIn(value: unknown, where: string): readonly ManifestPod[] {
  if (isList(value))
    return value.items.flatMap((item, at) => podsIn(item, `${where}, item ${at + 1}`));
  const { kind, metadata, spec } = readHead(value, where);
  if (kind !== "Pod")
    throw refused(
      `${where} is a ${kind}`,
      "kipctl makes pods; kubectl apply -f takes objects of every kind",
    );
  if (spec?.units !== undefined)
    throw refused(
      `${where}: pod "${metadata.name}" has units`,
      "Write spec.containers in the place of spec.units, as Kubernetes has them",
    );
  return [{ name: metadata.name, namespace: metadata.namespace, object: value }];
}

function isList(value: unknown): value is { readonly items: readonly unknown[] } {
  return (
    typeof value === "object" && value !== null && "items" in value && Array.isArray(value.items)
  );
}

function readHead(value: unknown, where: string) {
  try {
    return head(value, "");
  } catch (cause) {
    throw refused(`${where}: ${errorText(cause)}`);
  }
}

function refused(why: string, remedy?: string): KipctlError {
  return new KipctlError("MANIFEST_REFUSED", `Cannot read the manifest: ${why}`, { remedy });
}
