import assert from "node:assert/strict";
import { it } from "node:test";
import { AddressGroups } from "../policies/address-groups.ts";
import { AffectedPods } from "./affected-pods.ts";

it("AffectedPods compares no pods with long subjects: all of the namespace count as affected", () => {
  const affected = new AffectedPods();
  const groups = new AddressGroups();
  groups.setPod("p", { namespace: "a", name: "p", labels: {}, addresses: [], ports: [] });
  const pods = [{ podUid: "p", namespace: "a" }];
  const isTaken = (...terms: readonly number[]): boolean => {
    for (const count of terms) {
      const keys = Array.from({ length: count }, (_, i) => `k${i}`);
      const matchExpressions = keys.map((key) => ({ key, operator: "Exists" as const }));
      const subjects = [{ namespace: "a", podSelector: { matchExpressions } }];
      affected.notePolicy({ subjects, isFirstOrLast: false }, "a");
    }
    return affected.take(pods, groups).length > 0;
  };
  assert.deepEqual(
    [isTaken(10), isTaken(4000), isTaken(40, 40), isTaken(10)],
    [false, true, true, false],
  );
});
