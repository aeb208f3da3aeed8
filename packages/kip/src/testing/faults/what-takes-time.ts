import { mock } from "node:test";
import { CertificateAuthority } from "@kip/pki";
import { LogArchive } from "../../logs/log-archive.ts";

/**
 * Mocks the creation of keys and files, which happens outside of the event loop. Its duration must not affect the order of
 * events.
 */
export function mockWhatTakesTime(): void {
  const pair = { certificate: "a certificate", key: "a key" };
  const authority = { pair, certificate: pair.certificate, issue: async () => pair };
  mock.method(CertificateAuthority, "create", async () => authority);
  mock.method(CertificateAuthority, "load", async () => authority);
  mock.method(LogArchive.prototype, "save", async () => {});
  mock.method(LogArchive.prototype, "remove", async () => {});
  mock.method(LogArchive.prototype, "pods", async () => []);
}
