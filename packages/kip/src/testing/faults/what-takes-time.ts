import { mock } from "node:test";
import { CertificateAuthority } from "@kip/pki";
import { LogArchive } from "../../logs/log-archive.ts";

/** Keys and files are made outside of the event loop: how long that takes must not decide what happens first. */
export function mockWhatTakesTime(): void {
  const pair = { certificate: "a certificate", key: "a key" };
  const authority = { pair, certificate: pair.certificate, issue: async () => pair };
  mock.method(CertificateAuthority, "create", async () => authority);
  mock.method(CertificateAuthority, "load", async () => authority);
  mock.method(LogArchive.prototype, "save", async () => {});
  mock.method(LogArchive.prototype, "remove", async () => {});
  mock.method(LogArchive.prototype, "pods", async () => []);
}
