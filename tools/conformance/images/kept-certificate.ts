import { mkdir, rename, writeFile } from "node:fs/promises";
import path from "node:path";
import { decode, readJsonRecord } from "@kip/base";
import { createSelfSigned, remainingMs, type KeyPair } from "@kip/pki";

const decodePair = decode.object({ certificate: decode.string, key: decode.string });
const dayMs = 24 * 3600_000;

/**
 * The certificate of the servers in images. Clients do not check who signed it. It is cached, because another certificate would
 * change the images, and machine templates with the previous images would become useless.
 *
 * @param cacheDir kept between runs
 */
export async function keptCertificate(cacheDir: string): Promise<KeyPair> {
  const folder = path.join(cacheDir, "conformance");
  const file = path.join(folder, "localhost.json");
  const kept = await readJsonRecord(file, decodePair);
  if (kept && remainingMs(kept.certificate) > dayMs) return kept;
  const pair = await createSelfSigned({
    commonName: "localhost",
    usages: ["server"],
    ipAddresses: ["127.0.0.1", "::1"],
    validMs: 10 * 365 * dayMs,
  });
  const { certificate, key } = pair;
  await mkdir(folder, { recursive: true });
  const draft = `${file}.${process.pid}`;
  await writeFile(draft, JSON.stringify({ certificate, key }), { mode: 0o600 });
  await rename(draft, file);
  return pair;
}
