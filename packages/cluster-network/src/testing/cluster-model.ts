import type { Attempt } from "../explain/matching-rule.ts";

/** What a selector asks of the one label that things of the model have. */
export type Shape = { readonly is: "any" } | { readonly is: "one" | "not"; readonly value: string };

/** Pods: of one namespace, or of those whose label is right. */
export interface PodShape {
  readonly namespace?: string | undefined;
  readonly namespaces?: Shape | undefined;
  readonly pods: Shape;
}

/** A peer of a rule. */
export type PeerShape = PodShape | { readonly blockOf: string; readonly except: readonly string[] };

/** A port of a rule: a number, the name that pods have for a port, or all of a protocol. */
export type PortShape =
  { readonly number: number } | { readonly isNamed: true } | { readonly protocol: "TCP" | "UDP" };

/** A rule of a NetworkPolicy. */
export interface RuleShape {
  readonly peers: readonly PeerShape[];
  readonly ports: readonly PortShape[];
}

type Direction = "ingress" | "egress";

export interface ModelPod {
  readonly namespace: string;
  readonly label: string;
  /** None once it has ended. */
  readonly addresses: readonly string[];
  /** Of its named port. */
  readonly port: number | undefined;
}

export interface ModelPolicy {
  readonly namespace: string;
  readonly created: string;
  readonly subject: Shape;
  /** Absent directions are not restricted. */
  readonly ingress?: readonly RuleShape[] | undefined;
  readonly egress?: readonly RuleShape[] | undefined;
}

export interface ModelTier {
  readonly tier: "admin" | "baseline";
  readonly priority: number;
  readonly subject: PodShape;
  readonly action: "allow" | "deny" | "pass";
  readonly direction: Direction;
  readonly peers: PodShape;
  readonly port: number | undefined;
}

export interface ModelService {
  readonly created: string;
  readonly clusterIps: readonly string[];
  readonly externalIps: readonly string[];
  readonly ports: readonly number[];
  /** Addresses of those that are ready. */
  readonly endpoints: readonly string[];
}

/** What a namespace may take. */
export interface ModelLimit {
  readonly elements: number;
  readonly bytes: number;
}

/** Objects of a cluster, and what they mean: the slow way, from the objects alone, each time for everything. */
export class ClusterModel {
  /** Labels of namespaces. */
  readonly namespaces = new Map<string, string>();
  readonly pods = new Map<string, ModelPod>();
  /** By namespace and name. */
  readonly policies = new Map<string, ModelPolicy>();
  /** By title. */
  readonly tiers = new Map<string, ModelTier>();
  /** By namespace and name. */
  readonly services = new Map<string, ModelService>();
  /** UIDs of pods that are on cells. */
  readonly onCells = new Set<string>();
  readonly #most: { readonly services: ModelLimit; readonly policies: ModelLimit };

  constructor(most: { readonly services: ModelLimit; readonly policies: ModelLimit }) {
    this.#most = most;
  }

  /** Whether policies let a connection of a pod pass, in one direction. @param knowsTiers whether its agent does */
  passes(
    uid: string,
    { direction, attempt }: { readonly direction: Direction; readonly attempt: Attempt },
    {
      knowsTiers,
      refused,
    }: { readonly knowsTiers: boolean; readonly refused: ReadonlySet<string> },
  ): boolean {
    const pod = this.pods.get(uid);
    if (!pod) throw new Error(`There is no pod ${uid}`);
    const tiers = [...this.tiers]
      .filter(([, tier]) => tier.direction === direction && this.#isChosen(tier.subject, pod))
      .sort(([x, a], [y, b]) => a.priority - b.priority || (x < y ? -1 : 1))
      .map(([, tier]) => tier);
    if (tiers.length > 0 && !knowsTiers) return false;
    const decide = (name: "admin" | "baseline"): "allow" | "deny" | "pass" =>
      tiers.find(
        ({ tier, peers, port }) =>
          tier === name &&
          this.#isAt(peers, attempt.address) &&
          (port === undefined || (port === attempt.port && attempt.protocol === "TCP")),
      )?.action ?? "pass";
    const first = decide("admin");
    if (first !== "pass") return first === "allow";
    const own = this.#policiesOf(pod).filter(([, policy]) => policy[direction]);
    if (own.length === 0) return decide("baseline") !== "deny";
    return own.some(
      ([key, policy]) =>
        !refused.has(key) &&
        policy[direction]?.some((rule) => this.#allows(rule, pod, direction, attempt)),
    );
  }

  /** NetworkPolicies that have no room. */
  refusedPolicies(): ReadonlySet<string> {
    const used = new Map(
      [...this.onCells].flatMap((uid) => {
        const pod = this.pods.get(uid);
        return pod ? this.#policiesOf(pod) : [];
      }),
    );
    const most = this.#most.policies;
    const early = withoutRoom(used, most, (policy) => ({
      elements: 50 * selectorsOf(policy).length,
      bytes: 0,
    }));
    const counted = new Map([...used].filter(([key]) => !early.has(key)));
    const late = withoutRoom(counted, most, (policy) => this.#costOf(policy));
    return new Set([...early, ...late]);
  }

  /** Services with room, each with the external addresses that no other one has. */
  table(): ReadonlyMap<string, ModelService> {
    const refused = withoutRoom(this.services, this.#most.services, serviceCost);
    const known = [...this.services].filter(([key]) => !refused.has(key));
    const isFirst = (key: string, address: string, port: number): boolean => {
      const rivals = known.filter(([, { ports }]) => ports.includes(port));
      if (rivals.some(([other, { clusterIps }]) => other !== key && clusterIps.includes(address)))
        return false;
      const [first] = rivals
        .filter(([, { externalIps }]) => externalIps.includes(address))
        .sort(byAge);
      return first?.[0] === key;
    };
    return new Map(
      known.map(([key, service]) => {
        const externalIps = service.externalIps.filter((address) =>
          service.ports.every((port) => isFirst(key, address, port)),
        );
        return [key, { ...service, externalIps }];
      }),
    );
  }

  #policiesOf(pod: ModelPod): readonly (readonly [string, ModelPolicy])[] {
    return [...this.policies].filter(
      ([, { namespace, subject }]) => namespace === pod.namespace && fits(subject, pod.label),
    );
  }

  #allows(
    { peers, ports }: RuleShape,
    own: ModelPod,
    direction: Direction,
    { address, port, protocol }: Attempt,
  ): boolean {
    const isPeer = (peer: PeerShape): boolean =>
      "blockOf" in peer
        ? peer.blockOf === familyAndBlock(address) && !peer.except.includes(address)
        : this.#isAt(peer, address);
    const isAllowedPort = (wanted: PortShape): boolean => {
      if ("protocol" in wanted) return wanted.protocol === protocol;
      if ("number" in wanted) return wanted.number === port && protocol === "TCP";
      return direction === "ingress" && own.port === port && protocol === "TCP";
    };
    const isPort = ports.length === 0 || ports.some(isAllowedPort);
    if ((peers.length === 0 || peers.some(isPeer)) && isPort) return true;
    // Outwards, a name is the port of the pod that is reached.
    if (direction === "ingress" || !ports.some((each) => "isNamed" in each)) return false;
    const chosen = peers.length === 0 ? [everyPod] : peers.flatMap(onlyPods);
    return (
      protocol === "TCP" &&
      [...this.pods.values()].some(
        (pod) =>
          pod.port === port &&
          pod.addresses.includes(address) &&
          chosen.some((each) => this.#isChosen(each, pod)),
      )
    );
  }

  #isAt(shape: PodShape, address: string): boolean {
    return this.#chosenBy(shape).some(({ addresses }) => addresses.includes(address));
  }

  #chosenBy(shape: PodShape): readonly ModelPod[] {
    return [...this.pods.values()].filter((pod) => this.#isChosen(shape, pod));
  }

  #isChosen({ namespace, namespaces, pods }: PodShape, pod: ModelPod): boolean {
    if (namespace !== undefined && namespace !== pod.namespace) return false;
    const label = this.namespaces.get(pod.namespace);
    if (namespaces && (label === undefined || !fits(namespaces, label))) return false;
    return fits(pods, pod.label);
  }

  #costOf(policy: ModelPolicy): ModelLimit {
    let [elements, bytes] = [0, 0];
    const groups = new Map(selectorsOf(policy).map((each) => [JSON.stringify(each), each]));
    for (const { isOfNumbers, pods } of groups.values()) {
      const chosen = this.#chosenBy(pods).filter(({ addresses }) => addresses.length > 0);
      const counted = isOfNumbers ? chosen.filter(({ port }) => port !== undefined) : chosen;
      const numbers = isOfNumbers ? new Set(counted.map(({ port }) => port)).size : 0;
      const addresses = counted.flatMap((pod) => pod.addresses);
      elements += 50 * (1 + numbers) + addresses.length;
      for (const address of addresses) bytes += address.length + 3;
    }
    return { elements, bytes };
  }
}

const everyPod: PodShape = { namespaces: { is: "any" }, pods: { is: "any" } };

/** Groups that rules of a policy are made of. */
function selectorsOf({
  ingress = [],
  egress = [],
}: ModelPolicy): readonly { readonly isOfNumbers: boolean; readonly pods: PodShape }[] {
  const plain = (pods: PodShape) => ({ isOfNumbers: false, pods });
  return [
    ...ingress.flatMap(({ peers }) => peers.flatMap(onlyPods).map(plain)),
    ...egress.flatMap(({ peers, ports }) => {
      const chosen = peers.flatMap(onlyPods);
      const named = ports.filter((port) => "isNamed" in port);
      const isPlain = ports.length === 0 || named.length < ports.length;
      const ofNames = peers.length === 0 ? [everyPod] : chosen;
      return [
        ...(isPlain ? chosen.map(plain) : []),
        ...named.flatMap(() => ofNames.map((pods) => ({ isOfNumbers: true, pods }))),
      ];
    }),
  ];
}

function onlyPods(peer: PeerShape): readonly PodShape[] {
  return "blockOf" in peer ? [] : [peer];
}

function fits(shape: Shape, label: string): boolean {
  if (shape.is === "any") return true;
  return (shape.value === label) === (shape.is === "one");
}

/** The block of addresses that one is in: the model's blocks are those of all pods, of each family. */
function familyAndBlock(address: string): string | undefined {
  if (address.startsWith("10.1.0.")) return "10.1.0.0/24";
  return address.startsWith("fd00::1:") ? "fd00::1:0/112" : undefined;
}

/** For each port and address, of each family, one element, and one for each endpoint; the model has too few for a chain. */
function serviceCost({ clusterIps, externalIps, ports, endpoints }: ModelService): ModelLimit {
  let elements = 0;
  for (const isV6 of [false, true]) {
    const count = (list: readonly string[]): number =>
      list.filter((address) => address.includes(":") === isV6).length;
    const [external, behind] = [count(externalIps), count(endpoints)];
    elements += ports.length * (count(clusterIps) + external) * (1 + behind);
  }
  return { elements, bytes: 0 };
}

type Aged = readonly [key: string, object: { readonly created: string }];

function byAge([x, a]: Aged, [y, b]: Aged): number {
  return a.created === b.created ? (x < y ? -1 : 1) : a.created < b.created ? -1 : 1;
}

/** Of each namespace, from the oldest to the youngest: those that do not fit beside the older ones. */
function withoutRoom<T extends { readonly created: string }>(
  objects: ReadonlyMap<string, T>,
  most: ModelLimit,
  costOf: (object: T) => ModelLimit,
): ReadonlySet<string> {
  const sums = new Map<string, ModelLimit>();
  const refused = new Set<string>();
  for (const [key, object] of [...objects].sort(byAge)) {
    const namespace = key.split("/")[0] ?? "";
    const { elements, bytes } = sums.get(namespace) ?? { elements: 0, bytes: 0 };
    const cost = costOf(object);
    const sum = { elements: elements + cost.elements, bytes: bytes + cost.bytes };
    if (sum.elements > most.elements || sum.bytes > most.bytes) refused.add(key);
    else sums.set(namespace, sum);
  }
  return refused;
}
