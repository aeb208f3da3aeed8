import {
  cellServerName,
  type AgentClient,
  type CellIdentity,
  type PodReport,
} from "@kip/agent-api";
import { CertificateAuthority, type KeyPair } from "@kip/pki";

export const cellName = "cell-1";
const hour = 3_600_000;

/** The certificates of a test: an authority, kip's client certificate and the cell's identity. */
export interface Credentials {
  readonly authority: CertificateAuthority;
  readonly kip: KeyPair;
  readonly identity: CellIdentity;
}

export async function makeCredentials(): Promise<Credentials> {
  const authority = await CertificateAuthority.create({ commonName: "kip", validMs: hour });
  const kip = await authority.issue({ commonName: "kip", usages: ["client"], validMs: hour });
  return { authority, kip, identity: await issueIdentity(authority) };
}

export async function issueIdentity(authority: CertificateAuthority): Promise<CellIdentity> {
  const server = await authority.issue({
    commonName: cellName,
    dnsNames: [cellServerName(cellName)],
    usages: ["server"],
    validMs: hour,
  });
  return { cellName, ca: authority.certificate, ...server };
}

/** Certificates of another authority, for clients that must be refused. */
export async function strangerCertificate(): Promise<KeyPair> {
  const other = await CertificateAuthority.create({ commonName: "other", validMs: hour });
  return await other.issue({ commonName: "kip", usages: ["client"], validMs: hour });
}

/** The first report that the test is waiting for. */
export async function report(
  client: AgentClient,
  isWanted: (report: PodReport) => boolean,
  options: { readonly timeoutMs: number } = { timeoutMs: 20_000 },
): Promise<PodReport> {
  const stop = new AbortController();
  let last: PodReport | undefined;
  const giveUp = setTimeout(() => stop.abort(), options.timeoutMs);
  try {
    for await (const one of client.status(stop.signal)) {
      last = one;
      if (isWanted(one)) return one;
    }
    throw new Error(`Not seen; the last report was ${JSON.stringify(last)}`);
  } finally {
    clearTimeout(giveUp);
    stop.abort();
  }
}
