import { decode, defined, errorText, type Decoder } from "@kip/base";
import type { EventReference } from "@kip/k8s-client";
import type { LabelSelector, LabelSelectorRequirement } from "@kip/k8s-types/network";
import { parseCidr, type PolicyPort, type Protocol, type RuleAction } from "@kip/network-view";

/** An administrator's policy, in a common form for all kinds of such objects. */
export interface TierPolicy {
  /** Kind and name, for messages. */
  readonly title: string;
  readonly name: string;
  /** The object, for its events. */
  readonly about: EventReference;
  readonly tier: "admin" | "baseline";
  /** Policies with lower values are evaluated first. */
  readonly priority: number;
  readonly subject: PodChoice;
  readonly ingress: readonly TierPolicyRule[];
  readonly egress: readonly TierPolicyRule[];
}

/** Pods of namespaces. */
export interface PodChoice {
  readonly namespaceSelector: LabelSelector;
  readonly podSelector: LabelSelector;
}

/** A rule of a {@link TierPolicy}. */
export interface TierPolicyRule {
  readonly action: RuleAction;
  /** Absent if it could not be read. Then the rule denies all peers and ports. */
  readonly match?: RuleMatch | undefined;
}

/** The traffic that a rule matches. */
export interface RuleMatch {
  readonly pods: readonly PodChoice[];
  readonly nodes: readonly LabelSelector[];
  /** CIDRs. */
  readonly networks: readonly string[];
  /** Empty means all. Named ports refer to ports of pods. */
  readonly ports: readonly TierPort[];
}

/** A port by number or range, or by a name that pods give it. */
export type TierPort = PolicyPort | { readonly name: string };

/** The kinds of objects that are read. */
export type TierKind = "AdminNetworkPolicy" | "BaselineAdminNetworkPolicy" | "ClusterNetworkPolicy";

const { integer, list, map, object, oneOf, optional, string, unknownValue } = decode;

/** Rejects unknown fields, because such a field may restrict what the others select. Earlier versions of the API have such fields. */
const strict = { unknownKeys: "reject" } as const;

const readSelector = object(
  { matchLabels: optional(map(string)), matchExpressions: optional(list(expression)) },
  strict,
);
const selector: Decoder<LabelSelector> = (value, path) => {
  const { matchLabels = {}, matchExpressions = [] } = readSelector(value, path);
  return { matchLabels, matchExpressions };
};

function expression(value: unknown, path: string): LabelSelectorRequirement {
  const {
    key,
    operator,
    values = [],
  } = object(
    {
      key: string,
      operator: oneOf("In", "NotIn", "Exists", "DoesNotExist"),
      values: optional(list(string)),
    },
    strict,
  )(value, path);
  const needsValues = operator === "In" || operator === "NotIn";
  if (needsValues === values.length > 0) return { key, operator, values };
  const expected = needsValues ? "a list that is not empty" : "nothing";
  throw decode.failure(`${path}.values`, expected, values);
}

const podChoice: Decoder<PodChoice> = object(
  { namespaceSelector: selector, podSelector: selector },
  strict,
);
const readClusterPodChoice = object(
  { namespaceSelector: optional(selector), podSelector: selector },
  strict,
);
/** From v1alpha2 on, a pod selector without a namespace selector is for all namespaces. */
const clusterPodChoice: Decoder<PodChoice> = (value, path) => {
  const { namespaceSelector = {}, podSelector } = readClusterPodChoice(value, path);
  return { namespaceSelector, podSelector };
};

/** Reads objects with exactly one field, which must be one of `readers`. Another field may belong to a newer version of the API. */
function oneField<T>(readers: Readonly<Record<string, Decoder<T>>>): Decoder<T> {
  return (value, path) => {
    const fields = Object.entries(map(unknownValue)(value, path));
    const [name, inner] = fields[0] ?? ["", undefined];
    const reader = Object.hasOwn(readers, name) ? readers[name] : undefined;
    if (fields.length !== 1 || !reader)
      throw decode.failure(path, `one of ${Object.keys(readers).join(", ")}`, value);
    return reader(inner, `${path}.${name}`);
  };
}

type Peer = Partial<Pick<RuleMatch, "pods" | "nodes" | "networks">>;

/** Decoders for subjects and peers in one generation of the API. */
interface Peers {
  readonly subject: Decoder<PodChoice>;
  readonly ingress: Decoder<Peer>;
  readonly egress: Decoder<Peer>;
}

function peersWith(pods: Decoder<PodChoice>): Peers {
  const namespaces: Decoder<PodChoice> = (value, path) => ({
    namespaceSelector: selector(value, path),
    podSelector: {},
  });
  const inCluster: Readonly<Record<string, Decoder<Peer>>> = {
    namespaces: (value, path) => ({ pods: [namespaces(value, path)] }),
    pods: (value, path) => ({ pods: [pods(value, path)] }),
  };
  return {
    subject: oneField<PodChoice>({ namespaces, pods }),
    ingress: oneField<Peer>(inCluster),
    egress: oneField<Peer>({
      ...inCluster,
      nodes: (value, path) => ({ nodes: [selector(value, path)] }),
      networks: (value, path) => ({ networks: nonEmpty(list(network))(value, path) }),
    }),
  };
}

const alphaPeers = peersWith(podChoice);
const clusterPeers = peersWith(clusterPodChoice);

function peersOfKind(kind: TierKind): Peers {
  return isCluster(kind) ? clusterPeers : alphaPeers;
}

function network(value: unknown, path: string): string {
  const text = string(value, path);
  const range = text.includes("/") ? parseCidr(text)?.text : undefined;
  if (range === undefined) throw decode.failure(path, "a CIDR", value);
  return range;
}

function nonEmpty<T>(inner: Decoder<readonly T[]>): Decoder<readonly T[]> {
  return (value, path) => {
    const found = inner(value, path);
    if (found.length === 0) throw decode.failure(path, "a list that is not empty", value);
    return found;
  };
}

const portNumber = decode.between(integer, 1, 65_535);
const protocol = oneOf("TCP", "UDP", "SCTP");

function range(
  { start, end }: { readonly start: number; readonly end: number },
  path: string,
  of: Protocol,
): PolicyPort {
  if (start > end) throw decode.failure(path, "a range whose end is not below its start", {});
  return { protocol: of, port: start, endPort: end };
}

const bounds = { start: portNumber, end: portNumber };
/** Ports of v1alpha1. */
const alphaPort = oneField<TierPort>({
  portNumber: object({ protocol, port: portNumber }, strict),
  portRange: (value, path) => {
    const found = object({ ...bounds, protocol: optional(protocol) }, strict)(value, path);
    return range(found, path, found.protocol ?? "TCP");
  },
  namedPort: (value, path) => ({ name: string(value, path) }),
});
/** Protocols of v1alpha2 and later. */
const protocolMatch = oneField<TierPort>({
  tcp: ofProtocol("TCP"),
  udp: ofProtocol("UDP"),
  sctp: ofProtocol("SCTP"),
  destinationNamedPort: (value, path) => ({ name: string(value, path) }),
});

function ofProtocol(name: Protocol): Decoder<TierPort> {
  const destination = oneField<TierPort>({
    number: (value, path) => ({ protocol: name, port: portNumber(value, path) }),
    range: (value, path) => range(object(bounds, strict)(value, path), path, name),
  });
  return (value, path) => {
    const { destinationPort, ...others } = map(unknownValue)(value, path);
    const [other] = Object.keys(others);
    if (other !== undefined) throw decode.failure(`${path}.${other}`, "nothing", others[other]);
    if (destinationPort === undefined) return { protocol: name };
    return destination(destinationPort, `${path}.destinationPort`);
  };
}

/** A policy as returned by the API server. It has any shape that its CRD permits. */
export interface TierObject {
  readonly apiVersion?: string;
  readonly metadata: { readonly name: string; readonly uid?: string };
  readonly spec?: unknown;
}

/** What is wrong with a policy, for the log. */
export interface TierProblem {
  readonly policy: string;
  readonly problem: string;
}

/**
 * Reads an administrator's policy. A rule that cannot be read fails closed, as the API requires: an allow rule matches nothing, and other
 * rules deny everything. If the subject, priority or tier of a policy cannot be read, its allow rules match nothing, and its other rules deny
 * what they match. Such a policy then applies to every pod (no subject), comes first (no priority), or is in tier `Admin` (no tier).
 *
 * @param onProblem called for each part that cannot be read
 * @returns undefined for a baseline policy that is not named `default`. The API permits only that name
 */
export function readTierPolicy(
  kind: TierKind,
  value: TierObject,
  onProblem: (problem: TierProblem) => void,
): TierPolicy | undefined {
  const { name, uid } = value.metadata;
  const { apiVersion = "policy.networking.k8s.io/v1alpha1" } = value;
  const title = `${kind} ${name}`;
  const report = (error: unknown): void => onProblem({ policy: title, problem: errorText(error) });
  const attempt = <T>(read: () => T): T | undefined => {
    try {
      return read();
    } catch (error) {
      report(error);
      return undefined;
    }
  };
  const isBaseline = kind === "BaselineAdminNetworkPolicy";
  if (isBaseline && name !== "default") {
    report(new Error("only the one with the name default has an effect"));
    return undefined;
  }
  const spec = attempt(() => map(unknownValue)(value.spec, "spec")) ?? {};
  const tier = isCluster(kind)
    ? attempt(() => oneOf("Admin", "Baseline")(spec["tier"], "spec.tier"))
    : isBaseline
      ? "Baseline"
      : "Admin";
  const priority = isBaseline
    ? 0
    : attempt(() => decode.between(integer, 0, 1000)(spec["priority"], "spec.priority"));
  const subject = attempt(() => peersOfKind(kind).subject(spec["subject"], "spec.subject"));
  const isWhole = tier !== undefined && priority !== undefined && subject !== undefined;
  const rules = (direction: "ingress" | "egress"): readonly TierPolicyRule[] => {
    const list = readRules(kind, { spec, direction, isBaseline: tier === "Baseline" }, report);
    return isWhole ? list : list.flatMap(closedRule);
  };
  return {
    title,
    name,
    about: defined({ apiVersion, kind, name, uid }),
    tier: tier === "Baseline" ? "baseline" : "admin",
    priority: priority ?? 0,
    subject: subject ?? { namespaceSelector: {}, podSelector: {} },
    ingress: rules("ingress"),
    egress: rules("egress"),
  };
}

function isCluster(kind: TierKind): boolean {
  return kind === "ClusterNetworkPolicy";
}

/** A rule of a policy whose subject, priority or tier cannot be read. */
function closedRule({ action, match }: TierPolicyRule): readonly TierPolicyRule[] {
  return action === "allow" ? [] : [{ action: "deny", match }];
}

function readRules(
  kind: TierKind,
  options: {
    readonly spec: Readonly<Record<string, unknown>>;
    readonly direction: "ingress" | "egress";
    readonly isBaseline: boolean;
  },
  report: (error: unknown) => void,
): readonly TierPolicyRule[] {
  const { spec, direction, isBaseline } = options;
  const path = `spec.${direction}`;
  try {
    const found = optional(list(map(unknownValue)))(spec[direction], path) ?? [];
    return found.flatMap((rule, index): readonly TierPolicyRule[] => {
      const at = `${path}[${index}]`;
      const action = actionOf(kind, rule["action"], isBaseline);
      try {
        if (action === undefined) throw decode.failure(`${at}.action`, "a known action", rule);
        return [{ action, match: readMatch(kind, rule, { at, direction }) }];
      } catch (error) {
        report(error);
        return action === "allow" ? [] : [{ action: "deny" }];
      }
    });
  } catch (error) {
    report(error);
    return [{ action: "deny" }];
  }
}

function actionOf(kind: TierKind, value: unknown, isBaseline: boolean): RuleAction | undefined {
  if (value === (isCluster(kind) ? "Accept" : "Allow")) return "allow";
  if (value === "Deny") return "deny";
  // Nothing is evaluated after a BaselineAdminNetworkPolicy, so it has no "Pass".
  return value === "Pass" && (isCluster(kind) || !isBaseline) ? "pass" : undefined;
}

function readMatch(
  kind: TierKind,
  rule: Readonly<Record<string, unknown>>,
  { at, direction }: { readonly at: string; readonly direction: "ingress" | "egress" },
): RuleMatch {
  const isIngress = direction === "ingress";
  const peersField = isIngress ? "from" : "to";
  const peers = nonEmpty(list(peersOfKind(kind)[direction]))(
    rule[peersField],
    `${at}.${peersField}`,
  );
  const portsField = isCluster(kind) ? "protocols" : "ports";
  const known = ["name", "action", peersField, portsField];
  const other = Object.keys(rule).find((field) => !known.includes(field));
  if (other !== undefined) throw decode.failure(`${at}.${other}`, "nothing", rule[other]);
  const port = isCluster(kind) ? protocolMatch : alphaPort;
  const ports = optional(list(port))(rule[portsField], `${at}.${portsField}`) ?? [];
  const nodes = peers.flatMap((each) => each.nodes ?? []);
  const networks = peers.flatMap((each) => each.networks ?? []);
  if (nodes.length + networks.length > 0 && ports.some((each) => "name" in each))
    throw decode.failure(
      `${at}.${portsField}`,
      "no named port, as nodes and networks have none",
      {},
    );
  return { pods: peers.flatMap((each) => each.pods ?? []), nodes, networks, ports };
}
