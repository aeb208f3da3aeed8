// Where the tests and kip's roles may differ, each with its reason.
import { rightText, type Right } from "./compare-rights.ts";
import type { Use } from "./read-audit-log.ts";

const installTest = "packages/kip/test/install.int.test.ts";

/** Requests that are refused, by {@link rightText}. */
const refused: Readonly<Record<string, string>> = {
  "get secrets in elsewhere": `${installTest}: kip says what to apply where it may not keep its authority`,
  "create secrets in elsewhere": `${installTest}: as above`,
  "create namespaces":
    "packages/virtual-kubelet/test/node.int.test.ts: sees how the client reports a refusal",
  "list secrets": `${installTest}: sees that the account is refused`,
  "get secrets in default": `${installTest}: as above`,
  "create serviceaccounts/token in kube-system": `${installTest}: as above`,
};

/** Rights that no test needs, by {@link rightText}. */
const unused: Readonly<Record<string, string>> = {};

/** What kip reads with its own rights where it does not act as its node: in tests of packages, whose roles allow it. */
const referred: ReadonlySet<string> = new Set(["configmaps", "secrets", "serviceaccounts/token"]);

/** Why a request is right that the roles do not allow; undefined if it is not. */
export function whyMissing(use: Use): string | undefined {
  if (!use.isAllowed) return refused[rightText(use)];
  return referred.has(use.resource) ? "made without --act-as-node" : undefined;
}

/** Why a right is needed that no test has used; undefined if it is not. */
export function whyUnused(right: Right): string | undefined {
  return unused[rightText(right)];
}
