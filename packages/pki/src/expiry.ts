import { X509Certificate } from "node:crypto";
import { systemClock, type Clock } from "@kip/base";

/** Remaining validity of a certificate (PEM), milliseconds. Negative once it has expired. */
export function remainingMs(certificate: string, clock: Clock = systemClock): number {
  return new X509Certificate(certificate).validToDate.getTime() - clock.now();
}
