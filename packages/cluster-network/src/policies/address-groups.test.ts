import assert from "node:assert/strict";
import { describe, it, mock } from "node:test";
import * as fc from "fast-check";
import type { LabelSelector } from "@kip/k8s-types/network";
import { AddressGroups } from "./address-groups.ts";
import type { GroupSelector } from "./group-selector.ts";
import type { PodFacts } from "./pod-facts.ts";

const namespaces = ["a", "b"] as const;
const labels = ["x", "y"] as const;

const is = (label: string): LabelSelector => ({ matchLabels: { app: label } });
const selectors: readonly GroupSelector[] = [
  ...namespaces.map((namespace) => ({ namespace, podSelector: {} })),
  { namespace: "a", podSelector: is("x") },
  ...labels.map((label) => ({ namespaceSelector: is(label), podSelector: {} })),
  { namespaceSelector: {}, podSelector: is("y") },
  { namespaceSelector: {}, podSelector: {} },
];

const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("pod" as const),
      name: fc.nat(5),
      label: fc.option(fc.constantFrom(...labels), { nil: undefined }),
      address: fc.nat(4),
    }),
  },
  fc.record({
    kind: fc.constant("namespace" as const),
    name: fc.constantFrom(...namespaces),
    label: fc.option(fc.constantFrom(...labels), { nil: undefined }),
    times: fc.integer({ min: 1, max: 60 }),
  }),
  fc.record({
    kind: fc.constant("group" as const),
    index: fc.nat(selectors.length - 1),
    isUsed: fc.boolean(),
  }),
  fc.record({ kind: fc.constant("fill" as const), steps: fc.nat(4) }),
);

/** Groups, and what they should have. */
class World {
  readonly groups = new AddressGroups();
  readonly #pods = new Map<string, PodFacts>();
  readonly #namespaces = new Map<string, string>();
  /** What groups have by their changes so far, by name. */
  readonly #told = new Map<string, Set<string>>();

  do(next: typeof step extends fc.Arbitrary<infer T> ? T : never): void {
    if (next.kind === "pod") this.#setPod(next.name, next.label, next.address);
    else if (next.kind === "namespace")
      for (let i = 0; i < next.times; i++) this.#setNamespace(next.name, next.label);
    else if (next.kind === "fill") this.#fill(next.steps);
    else this.#use(selectors[next.index] ?? assert.fail(), next.isUsed);
  }

  compare(): void {
    this.groups.settle();
    this.#take();
    for (const selector of selectors) {
      const told = this.#told.get(this.groups.name(selector));
      if (told) assert.deepEqual([...told].sort(), this.#expected(selector));
    }
    this.groups.settle();
    for (const selector of selectors) {
      const name = this.groups.name(selector);
      assert.deepEqual([...this.groups.addresses(name)].sort(), this.#expected(selector));
      assert.equal(this.groups.sizeOf(name).addresses, this.#addresses(selector).length);
    }
    this.groups.prune();
  }

  #setPod(number: number, label: string | undefined, address: number): void {
    const name = `p${number}`;
    const addresses = address > 0 ? [`10.0.0.${address}`] : [];
    const namespace = namespaces[number % 2] ?? assert.fail();
    const pod = { namespace, name, labels: { app: label ?? "" }, addresses, ports: [] };
    if (label === undefined) this.#pods.delete(name);
    else this.#pods.set(name, pod);
    this.groups.setPod(name, label === undefined ? undefined : pod);
  }

  #setNamespace(name: string, label: string | undefined): void {
    if (label === undefined) this.#namespaces.delete(name);
    else this.#namespaces.set(name, label);
    this.groups.setNamespace(name, label === undefined ? undefined : { app: label });
  }

  #fill(steps: number): void {
    let left = steps;
    for (const _ of this.groups.fill()) if (--left < 0) break;
    this.#take();
  }

  #take(): void {
    for (const [name, { add, remove }] of this.groups.takeChanges()) {
      for (const address of add) this.#told.get(name)?.add(address);
      for (const address of remove) this.#told.get(name)?.delete(address);
    }
  }

  #use(selector: GroupSelector, isUsed: boolean): void {
    const name = this.groups.name(selector);
    if (this.#told.has(name) === isUsed) return;
    if (isUsed) {
      this.groups.settle();
      this.#take();
      this.groups.use(name, 1, "a");
      this.#told.set(name, new Set(this.groups.addresses(name)));
    } else {
      this.groups.use(name, -1, "a");
      this.#told.delete(name);
    }
  }

  /** Once for each pod. */
  #addresses(selector: GroupSelector): readonly string[] {
    const matches = (wanted: LabelSelector | undefined, label: string | undefined): boolean =>
      label !== undefined && (wanted?.matchLabels?.["app"] ?? label) === label;
    const members = [...this.#pods.values()].filter(
      (pod) =>
        (selector.namespace ?? pod.namespace) === pod.namespace &&
        (!selector.namespaceSelector ||
          matches(selector.namespaceSelector, this.#namespaces.get(pod.namespace))) &&
        matches(selector.podSelector, pod.labels["app"]),
    );
    return members.flatMap(({ addresses }) => addresses);
  }

  #expected(selector: GroupSelector): readonly string[] {
    return [...new Set(this.#addresses(selector))].sort();
  }
}

describe("AddressGroups", () => {
  it("contain the matching pods, whatever pods and namespaces change between the steps that fill them", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const world = new World();
        for (const next of steps) world.do(next);
        world.compare();
        for (const next of steps) world.do(next);
        world.compare();
      }),
      { numRuns: Number(process.env["KIP_MODEL_RUNS"] ?? 100) },
    );
  });

  it("do not compare a pod when it changes, and never compare pods of other namespaces", () => {
    const groups = new AddressGroups();
    let looks = 0;
    const pod = (namespace: string): PodFacts => ({
      namespace,
      name: "p",
      labels: {
        get app() {
          looks++;
          return "x";
        },
      },
      addresses: ["10.0.0.1"],
      ports: [],
    });
    for (const podSelector of [is("x"), is("y")])
      groups.use(groups.name({ namespace: "a", podSelector }), 1, "a");
    groups.settle();
    groups.setPod("p", pod("a"));
    assert.equal(looks, 0);
    groups.settle();
    assert.ok(looks > 0);
    looks = 0;
    groups.setPod("q", pod("b"));
    groups.settle();
    assert.equal(looks, 0);
  });

  it("compare fewer pods in a step if these have thousands of labels, or a selector has thousands of terms for namespaces", () => {
    const stepsWith = (labelCount: number, terms: number): number => {
      const groups = new AddressGroups();
      groups.setNamespace("a", {});
      const keys = (count: number) => Array.from({ length: count }, (_, i) => `k${i}`);
      const matchExpressions = keys(terms).map((key) => ({ key, operator: "DoesNotExist" }));
      const own = Object.fromEntries(keys(labelCount).map((key) => [`l${key}`, ""]));
      const setPods = (address: string): void => {
        const pod = { namespace: "a", name: "p", labels: own, addresses: [address], ports: [] };
        for (let i = 0; i < 128; i++) groups.setPod(`p${i}`, { ...pod });
      };
      setPods("10.0.0.1");
      groups.use(groups.name({ namespaceSelector: { matchExpressions }, podSelector: {} }), 1, "a");
      const isNew = [...groups.fill()].length;
      setPods("10.0.0.2");
      const isLate = [...groups.fill()].length;
      assert.ok(isLate >= isNew - 1, `${isLate} steps`);
      return isNew;
    };
    assert.ok(stepsWith(10, 10) < 6);
    assert.ok(stepsWith(4096, 10) >= 128);
    assert.ok(stepsWith(10, 4096) >= 128);
  });

  it("compare fewer pods in a step if these have thousands of ports, and rank numbers in steps", () => {
    const stepsWith = (name: (i: number) => string): number => {
      const groups = new AddressGroups();
      groups.setNamespace("a", {});
      const port = (i: number) => ({ name: name(i), protocol: "TCP" as const, port: i + 1 });
      const pod = (i: number) => ({
        namespace: "a",
        name: `p${i}`,
        labels: {},
        addresses: [`10.0.0.${i}`],
        ports: Array.from({ length: 512 }, (_, j) => port(512 * i + j)),
      });
      for (let i = 0; i < 64; i++) groups.setPod(`p${i}`, pod(i));
      const web = { name: "web", protocol: "TCP" } as const;
      groups.hold(groups.numbersName({ namespace: "a", podSelector: {} }, web), 1, "a");
      return [...groups.fill()].length;
    };
    const others = stepsWith((i) => `p${i}`);
    assert.ok(others >= 8, `${others} steps`);
    const ranked = stepsWith(() => "web");
    assert.ok(ranked >= others + 7, `${ranked} steps`);
  });

  it("are up to date for one namespace after few steps, while groups of others have very many pods to process", () => {
    const groups = new AddressGroups();
    const setPods = (count: number, app: string): void => {
      for (let i = 0; i < count; i++) {
        const pod = { namespace: "a", name: "p", labels: { app }, addresses: ["10.0.0.1"] };
        groups.setPod(`p${i}`, { ...pod, ports: [] });
      }
    };
    const fillFor = (owner: string): number => {
      let steps = 0;
      for (const _ of groups.fill()) if (++steps > 0 && !groups.hasOutdatedGroup(owner)) break;
      return steps;
    };
    for (const [owner, count] of [
      ["web", 90],
      ["large", 200],
      ["larger", 200],
    ] as const)
      for (let i = 0; i < count; i++)
        groups.use(
          groups.name({ namespaceSelector: {}, podSelector: is(`${owner}${i}`) }),
          1,
          owner,
        );
    setPods(200, "x");
    groups.settle();
    setPods(200, "y");
    fillFor("web");
    setPods(1, "z");
    const steps = fillFor("web");
    assert.ok(groups.hasOutdatedGroup("large") && groups.hasOutdatedGroup("larger"));
    assert.ok(steps < 40, `${steps} steps`);
  });

  it("compare each pod a few times, however often pods changed before", () => {
    const stepsAfter = (changes: number): number => {
      const groups = new AddressGroups();
      for (let i = 0; i < 200; i++) {
        const name = groups.name({ namespaceSelector: {}, podSelector: is(`app-${i}`) });
        groups.use(name, 1, "large");
      }
      groups.setNamespace("a", {});
      const change = (i: number): void => {
        const address = `10.${i >> 8}.${i & 255}.1`;
        const pod = { namespace: "a", labels: { app: "app-7" }, addresses: [address], ports: [] };
        groups.setPod(`p${i % 40}`, { ...pod, name: `p${i % 40}` });
      };
      for (let i = 0; i < changes; i++) {
        change(i);
        let steps = 0;
        for (const _ of groups.fill()) if (++steps === 3) break;
      }
      const left = [...groups.fill()].length;
      const name = groups.name({ namespaceSelector: {}, podSelector: is("app-7") });
      assert.equal(groups.addresses(name).length, 40);
      return left;
    };
    const [few, many] = [stepsAfter(300), stepsAfter(3000)];
    assert.ok(many < 2 * few, `${many} steps, and ${few} after a tenth of the changes`);
  });

  it("report the removal of their last pod, however often others have changed", () => {
    const groups = new AddressGroups();
    const pod = { namespace: "a", ports: [], name: "p" };
    const one = { ...pod, labels: { app: "one" }, addresses: ["10.0.0.1"] };
    groups.setNamespace("a", {});
    groups.setPod("p", one);
    const name = groups.name({ namespace: "a", podSelector: is("one") });
    groups.settle();
    groups.use(name, 1, "a");
    groups.takeChanges();
    groups.setPod("p", { ...one, labels: {} });
    for (let i = 0; i < 200; i++)
      groups.setPod("other", { ...pod, labels: { i: `${i}` }, addresses: ["10.0.0.2"] });
    groups.settle();
    assert.deepEqual(groups.takeChanges().get(name)?.remove, ["10.0.0.1"]);
  });

  it("no longer contain an address that was added and removed while they were being filled", () => {
    const groups = new AddressGroups();
    const setPod = (i: number, app: string): void => {
      const pod = { namespace: "a", name: `p${i}`, ports: [], addresses: [`10.0.0.${i}`] };
      groups.setPod(`p${i}`, { ...pod, labels: { app } });
    };
    groups.setNamespace("a", {});
    for (let i = 0; i < 200; i++) setPod(i, "other");
    const name = groups.name({ namespace: "a", podSelector: is("one") });
    groups.settle();
    groups.use(name, 1, "a");
    groups.takeChanges();
    for (let i = 0; i < 200; i++) setPod(i, i === 0 ? "one" : "two");
    for (const _ of groups.fill()) break;
    assert.deepEqual(groups.takeAddresses(name), ["10.0.0.0"]);
    setPod(0, "other");
    groups.settle();
    assert.deepEqual(groups.takeChanges().get(name)?.remove, ["10.0.0.0"]);
  });

  it("report changed port numbers even if these changed back, because rules may have been made in between", () => {
    const groups = new AddressGroups();
    const web = { name: "web", protocol: "TCP" } as const;
    const setPod = (name: string, numbers: readonly number[]): void => {
      const ports = numbers.map((port) => ({ ...web, port }));
      groups.setPod(name, { namespace: "a", name, labels: {}, addresses: ["10.0.0.1"], ports });
    };
    groups.setNamespace("a", {});
    // To rank so many takes several steps.
    const many = Array.from({ length: 250 }, (_, i) => i + 1);
    for (const i of many.slice(0, 32))
      setPod(
        `p${i}`,
        many.filter((each) => each !== i),
      );
    setPod("one", [9090]);
    const selector = { namespace: "a", podSelector: {} };
    const name = groups.numbersName(selector, web);
    groups.hold(name, 1, "a");
    groups.settle();
    groups.takeChanges();
    const { fills } = groups;
    setPod("one", []);
    for (const _ of groups.fill()) break;
    setPod("one", [9090]);
    const has9090 = (): boolean => groups.portNumbers(selector, web).numbers.includes(9090);
    for (let step = 0; step < 20 && has9090(); step++) for (const _ of groups.fill()) break;
    assert.ok(!has9090() && !groups.isFilled(name) && groups.isFilled(name, fills - 1));
    groups.settle();
    assert.ok(has9090());
    assert.equal(groups.takeChanges().get(name)?.isChanged, true);
    assert.deepEqual([...groups.takeChanges().keys()], []);
  });

  it("record a changed pod once for all owners of its groups, and not once for each owner", () => {
    const groups = new AddressGroups();
    const owners = Array.from({ length: 40 }, (_, i) => `n${i}`);
    const names = Array.from({ length: 40 }, (_, i) =>
      groups.name({ namespaceSelector: {}, podSelector: is(`x${i}`) }),
    );
    for (const owner of owners) for (const name of names) groups.use(name, 1, owner);
    groups.settle();
    const noted = mock.method(Set.prototype, "add");
    groups.setPod("p", {
      namespace: "a",
      name: "p",
      labels: {},
      addresses: ["10.0.0.1"],
      ports: [],
    });
    for (const _ of groups.fill()) break;
    const count = noted.mock.callCount();
    noted.mock.restore();
    assert.ok(owners.every((owner) => groups.hasOutdatedGroup(owner)));
    assert.ok(count < 3 * (owners.length + names.length), `${count} were noted`);
    groups.settle();
    assert.ok(!owners.some((owner) => groups.hasOutdatedGroup(owner)));
  });
});
