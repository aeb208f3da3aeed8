import { readFileSync } from "node:fs";
import { cellServerName, type CellIdentity } from "@kip/agent-api";
import { runCommand } from "@kip/base";

const cellName = "rehearsal";

/**
 * A certificate that is its own authority, and both the cell's and kip's, because it only has to work for the rehearsal. It is
 * created by the OpenSSL program, which every cell has, because the agent itself never creates certificates.
 *
 * @param directory folder for its files, which the caller removes
 */
export async function throwAwayIdentity(directory: string): Promise<CellIdentity> {
  const key = `${directory}/key.pem`;
  const certificate = `${directory}/certificate.pem`;
  const kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"];
  const name = ["-subj", "/CN=kip", "-addext", `subjectAltName=DNS:${cellServerName(cellName)}`];
  await runCommand("openssl", [
    "req",
    "-x509",
    ...kind,
    ...name,
    "-keyout",
    key,
    "-out",
    certificate,
  ]);
  const pem = readFileSync(certificate, "utf8");
  return { cellName, ca: pem, certificate: pem, key: readFileSync(key, "utf8") };
}
