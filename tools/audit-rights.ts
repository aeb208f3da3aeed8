// Compares what kip asked of the API server with the roles in deploy/.
//   node tools/audit-rights.ts FOLDER             of a whole run of the tests: fails for rights that were not used, too
//   node tools/audit-rights.ts FOLDER --partial   of a part of them: lists those
// FOLDER has the audit logs of a run of tests with KIP_AUDIT_LOG=FOLDER.
import { globSync, readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import type { PolicyRule } from "@kip/control-plane";
import { parseAllDocuments } from "yaml";
import { compareRights, rightText, type RoleRules } from "./rights/compare-rights.ts";
import { whyMissing, whyUnused } from "./rights/exceptions.ts";
import { readAuditLog } from "./rights/read-audit-log.ts";

const { values, positionals } = parseArgs({
  options: { partial: { type: "boolean", default: false } },
  allowPositionals: true,
});
const [folder = ""] = positionals;
const files = globSync(`${folder}/*.log`);
if (folder === "" || files.length === 0)
  throw new RangeError(
    "Give a folder of audit logs: KIP_AUDIT_LOG=FOLDER before a command that runs tests makes them",
  );

const { used, unused, redundant, missing, wide } = compareRights(
  manifestRoles(),
  files.flatMap((file) => readAuditLog(readFileSync(file, "utf8"))),
);
const wrong = missing.filter((use) => whyMissing(use) === undefined);
const needless = unused.filter((right) => whyUnused(right) === undefined);
const reasoned = unused.filter((right) => whyUnused(right) !== undefined);
print("used", used.map(rightText));
print("not used", needless.map(rightText));
print(
  "used by what no test does",
  reasoned.map((right) => `${rightText(right)}: ${whyUnused(right)}`),
);
print("also given by the cluster role", redundant.map(rightText));
print("used under one name, or in one namespace, alone", wide);
print("asked for without a right", wrong.map(rightText));
const isLeast = values.partial || needless.length === 0;
if (wrong.length > 0 || redundant.length > 0 || !isLeast) {
  console.error("The rules in packages/control-plane/src/start/rbac.ts are not what kip uses");
  process.exitCode = 1;
}

/** The roles in the manifests, which contain the API's objects. */
function manifestRoles(): readonly RoleRules[] {
  const text = readFileSync("deploy/kustomize/base/roles.yaml", "utf8");
  return parseAllDocuments(text).map((document) => {
    const { metadata, rules } = document.toJS() as {
      readonly metadata: { readonly namespace?: string };
      readonly rules: readonly PolicyRule[];
    }; // written by tools/generate-manifests.ts
    return { namespace: metadata.namespace, rules };
  });
}

function print(title: string, lines: readonly string[]): void {
  console.log(`${title}: ${lines.length}`);
  for (const line of new Set(lines)) console.log(`  ${line}`);
}
