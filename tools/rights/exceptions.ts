// Requests of the tests that kip's roles do not allow, each with its reason.
import { rightText } from "./compare-rights.ts";
import type { Use } from "./read-audit-log.ts";

/** By {@link rightText} without the namespace. */
const reasons: Readonly<Record<string, string>> = {
  "create namespaces":
    "kip makes its namespace where it may, and says what to apply where it may not",
};

/** Why a request may be refused; undefined if it may not. */
export function whyRefused(use: Use): string | undefined {
  return reasons[rightText({ ...use, namespace: undefined })];
}
