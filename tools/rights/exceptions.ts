// Requests of the tests that kip's roles do not allow, each with its reason.
import { rightText } from "./compare-rights.ts";
import type { Use } from "./read-audit-log.ts";

/** By {@link rightText}. */
const reasons: Readonly<Record<string, string>> = {
  "create secrets in elsewhere":
    "packages/kip/test/install.int.test.ts: kip says what to apply where it may not keep its authority",
};

/** Why a request may be refused; undefined if it may not. */
export function whyRefused(use: Use): string | undefined {
  return reasons[rightText(use)];
}
