import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { silentLogger } from "@kip/base";
import { groupsOf, type GroupLine, type PolicyView } from "@kip/network-view";
import { families, ofFamily, type Family } from "./family.ts";
import { NetworkRules } from "./network-rules.ts";
import { policyRules } from "./policy-rules.ts";
import { listed } from "./testing/listed-chains.ts";

/** Tables of policies as the kernel would have them, by family and name. Fails where nft would. */
class Kernel {
  readonly tables = new Map<string, Table>();

  apply(text: string): void {
    for (const line of text.split("\n")) {
      const words = line.trim().split(" ");
      const [verb, kind, family, name, ...rest] = words[0] === "table" ? ["new", ...words] : words;
      if (name?.startsWith("kip_policy") !== true) continue;
      if (verb === "new") this.tables.set(`${family} ${name}`, new Table());
      else if (kind !== "table")
        this.tables.get(`${family} ${name}`)?.apply(`${verb} ${kind}`, rest);
      else if (verb === "delete") this.tables.delete(`${family} ${name}`);
    }
    for (const table of this.tables.values()) table.check();
  }

  get names(): ReadonlySet<string> {
    return new Set([...this.tables.keys()].map((key) => key.split(" ")[1] ?? ""));
  }

  /** All that is in force; there is one table of each family between two changes. */
  of({ ip }: Family): Table {
    const [first, ...others] = [...this.tables].filter(([name]) => name.startsWith(`${ip} `));
    assert.ok(first && others.length === 0, [...this.tables.keys()].join());
    return first[1];
  }
}

class Table {
  readonly sets = new Map<string, Set<string>>();
  readonly chains = new Map<string, string[]>([
    ["ingress", []],
    ["egress", []],
  ]);

  apply(action: string, [name = "", ...rest]: readonly string[]): void {
    const set = this.sets.get(name);
    const chain = this.chains.get(name);
    const verb = action.split(" ")[0];
    if (action === "add set") this.sets.set(name, set ?? new Set());
    else if (action === "delete set") assert.ok(this.sets.delete(name), name);
    else if (action === "add chain") this.chains.set(name, chain ?? []);
    else if (action === "delete chain") assert.ok(this.chains.delete(name), name);
    else if (action === "flush chain") chain!.length = 0;
    else if (action === "add rule") chain!.push(rest.join(" "));
    else
      for (const address of rest.slice(1, -1).map((each) => each.replace(",", ""))) {
        assert.equal(set?.has(address), verb === "delete", `${action} ${name} ${address}`);
        if (verb === "add") set?.add(address);
        else set?.delete(address);
      }
  }

  /** Rules name only what is there. */
  check(): void {
    for (const rule of [...this.chains.values()].flat()) {
      const [, set] = /@(group\S+)/.exec(rule) ?? [];
      const [, chain] = /jump (\S+)/.exec(rule) ?? [];
      assert.ok(set === undefined || this.sets.has(set), rule);
      assert.ok(chain === undefined || this.chains.has(chain), rule);
    }
  }
}

const names = ["a", "b", "c"];
const some = fc.subarray(["10.1.0.1", "10.1.0.2", "10.1.0.3", "fd00::1", "fd00::2"]);
const line: fc.Arbitrary<GroupLine> = fc
  .tuple(
    fc.constantFrom(...names),
    fc.constantFrom("gone", "reset", "change", "change"),
    some,
    some,
  )
  .map(([name, change, add, remove]) =>
    change === "gone"
      ? { kind: "group", name, change }
      : { kind: "group", name, change, add, remove },
  );
const rules = fc.option(fc.array(fc.record({ groups: fc.subarray(names) }), { maxLength: 2 }), {
  nil: undefined,
});
const tiers = fc.option(
  fc.record({
    ingress: fc.array(
      fc.record({ action: fc.constantFrom("allow", "deny", "pass"), groups: fc.subarray(names) }),
      { maxLength: 2 },
    ),
  }),
  { nil: undefined },
);
const policy: fc.Arbitrary<PolicyView> = fc.record({ ingress: rules, egress: rules, admin: tiers });
interface Change {
  readonly groups: readonly GroupLine[];
  readonly policy: PolicyView | undefined;
  /** Which run of nft fails; 0 for none. */
  readonly failure: number;
  readonly hasEffect: boolean;
}

const change: fc.Arbitrary<Change> = fc.record({
  groups: fc.array(line, { maxLength: 4 }),
  policy: fc.option(policy, { nil: undefined }),
  failure: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 3 })),
  hasEffect: fc.boolean(),
});

/** What an agent knows of groups after a change. */
function noted(
  known: Map<string, ReadonlySet<string>>,
  lines: readonly GroupLine[],
  policyOfChange: PolicyView | undefined,
): void {
  for (const each of lines) {
    known.delete(each.change === "change" ? "" : each.name);
    if (each.change === "gone") continue;
    const all = new Set([...(known.get(each.name) ?? []), ...each.add]);
    for (const address of each.remove) all.delete(address);
    known.set(each.name, all);
  }
  if (!policyOfChange) return;
  const named = groupsOf(policyOfChange);
  for (const name of known.keys()) if (!named.has(name)) known.delete(name);
}

/** Rules that put their tables in force in a model of the kernel. */
class Agent {
  readonly #kernel = new Kernel();
  readonly #groups = new Map<string, ReadonlySet<string>>();
  #policy: PolicyView = {};
  #failure: Pick<Change, "failure" | "hasEffect"> = { failure: 0, hasEffect: false };
  readonly #rules = new NetworkRules({
    place: {
      podAddresses: ["10.1.0.9", "fd00::9"],
      nodeAddresses: [],
      serviceRanges: [],
      cable: "cable",
    },
    forget: async () => {},
    logger: silentLogger,
    runNft: async (text) => this.#run(text),
  });

  /** Applies a change, and one without content after a failure. */
  async take({ groups, policy: view, ...failure }: Change): Promise<void> {
    this.#policy = view ?? this.#policy;
    noted(this.#groups, groups, view);
    this.#failure = failure;
    const none = { number: 1, services: new Map(), buckets: [], groups: [] };
    await this.#rules.apply({ ...none, groups, policy: view }).catch((error: unknown) => {
      assert.match(String(error), /nft failed/);
    });
    this.#failure = { ...failure, failure: 0 };
    if (failure.failure > 0) await this.#rules.apply(none);
  }

  check(): void {
    for (const family of families) {
      const { sets, chains } = this.#kernel.of(family);
      const wanted = policyRules(this.#policy, new Set(this.#groups.keys()), family);
      const addresses = [...this.#groups].flatMap(([name, list]) =>
        ofFamily([...list], family).map((address) => `group/${name} ${address}`),
      );
      const elements = [...sets].flatMap(([name, set]) => [...set].map((one) => `${name} ${one}`));
      assert.deepEqual(new Set(sets.keys()), new Set(wanted.sets.keys()));
      assert.deepEqual(new Set(elements), new Set(addresses));
      assert.deepEqual(Object.fromEntries(chains), Object.fromEntries(wanted.chains));
    }
  }

  #run(text: string): string {
    if (text.startsWith("list")) return listed([...this.#kernel.names]);
    const { failure, hasEffect } = this.#failure;
    this.#failure = { hasEffect, failure: failure - 1 };
    if (failure !== 1 || hasEffect) this.#kernel.apply(text);
    if (failure === 1) throw new Error("nft failed");
    return "";
  }
}

describe("NetworkRules, by a model of the kernel's tables of policies", () => {
  it("has after any changes of groups and policies what new tables have, also after failures", async () => {
    const first = policy.map((view): Change => ({
      groups: [],
      policy: view,
      failure: 0,
      hasEffect: false,
    }));
    const run = async (begin: Change, changes: readonly Change[]): Promise<void> => {
      const agent = new Agent();
      for (const each of [begin, ...changes]) {
        await agent.take(each);
        agent.check();
      }
    };
    const changes = fc.array(change, { maxLength: 10 });
    await fc.assert(fc.asyncProperty(first, changes, run), { numRuns: 200 });
  });
});
