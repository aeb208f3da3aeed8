import { decode, type Decoder } from "@kip/base";
import { address, name } from "./decoders.ts";
import { limits } from "./limits.ts";
import { decodePlainPolicy, decodeTieredPolicy, hasTiers, type PolicyView } from "./policy-view.ts";
import { decodeServiceView, type ServiceView } from "./service-view.ts";
import { bucketCount } from "./table-digest.ts";

/**
 * One line of what kip sends to a cell, a JSON list each. Lines up to an `end` are one change: they are put in force
 * together, and then confirmed.
 *
 * | line | meaning |
 * | --- | --- |
 * | `["service", "namespace/name", view]` | the Service is like this now |
 * | `["service", "namespace/name"]` | the Service is gone |
 * | `["bucket", n]` | Services of bucket n that this change does not name are gone |
 * | `["kept", "namespace/name"]` | the Service is as an earlier change of this connection said: its bucket is too large for one change |
 * | `["group", name, "reset", add]` | the group has these addresses and no others |
 * | `["group", name, "change", add, remove]` | the group has got and lost these addresses |
 * | `["group", name, "gone"]` | no rule names the group |
 * | `["policy", view]` | what may reach the pod and be reached from it |
 * | `["tiers", view]` | the same with rules of tiers: an agent that does not know their actions refuses the line |
 * | `["end", n]` | the change is complete; n rises with each |
 */
export type ViewLine =
  | { readonly kind: "service"; readonly key: string; readonly view: ServiceView | undefined }
  | { readonly kind: "bucket"; readonly bucket: number }
  | { readonly kind: "kept"; readonly key: string }
  | GroupLine
  | { readonly kind: "policy"; readonly policy: PolicyView }
  | { readonly kind: "end"; readonly number: number };

/** A change of an address group. */
export type GroupLine =
  | { readonly kind: "group"; readonly name: string; readonly change: "gone" }
  | {
      readonly kind: "group";
      readonly name: string;
      /** reset: the group had been unknown, or is to be forgotten first. */
      readonly change: "reset" | "change";
      readonly add: readonly string[];
      readonly remove: readonly string[];
    };

/** Writes a line, with its line end. */
export function encodeLine(line: ViewLine): string {
  return `${JSON.stringify(fields(line))}\n`;
}

function fields(line: ViewLine): readonly unknown[] {
  switch (line.kind) {
    case "service":
      return line.view === undefined
        ? [line.kind, line.key]
        : [line.kind, line.key, ordered(line.view)];
    case "bucket":
      return [line.kind, line.bucket];
    case "kept":
      return [line.kind, line.key];
    case "group":
      if (line.change === "gone") return [line.kind, line.name, line.change];
      if (line.change === "reset") return [line.kind, line.name, line.change, line.add];
      return [line.kind, line.name, line.change, line.add, line.remove];
    case "policy":
      return [hasTiers(line.policy) ? "tiers" : line.kind, line.policy];
    case "end":
      break;
  }
  return [line.kind, line.number];
}

/** The same Service always gives the same text, as digests need it. */
function ordered(view: ServiceView): ServiceView {
  return {
    clusterIps: view.clusterIps,
    externalIps: view.externalIps,
    loadBalancerIps: view.loadBalancerIps,
    sourceRanges: view.sourceRanges,
    affinitySeconds: view.affinitySeconds,
    isInternalLocal: view.isInternalLocal,
    isExternalLocal: view.isExternalLocal,
    healthCheck: view.healthCheck && {
      port: view.healthCheck.port,
      localReady: view.healthCheck.localReady,
    },
    ports: view.ports.map((port) => ({
      name: port.name,
      protocol: port.protocol,
      port: port.port,
      nodePort: port.nodePort,
      endpoints: port.endpoints,
      localEndpoints: port.localEndpoints,
      servingEndpoints: port.servingEndpoints,
    })),
  };
}

const addresses = decode.list(address, { max: limits.groupAddresses });

const readers: Readonly<
  Record<ViewLine["kind"] | "tiers", (values: readonly unknown[]) => ViewLine>
> = {
  service: ([key, view]) => ({
    kind: "service",
    key: name(key, "key"),
    view: decode.optional(decodeServiceView)(view, "view"),
  }),
  bucket: ([bucket]) => ({
    kind: "bucket",
    bucket: decode.between(decode.integer, 0, bucketCount - 1)(bucket, "bucket"),
  }),
  kept: ([key]) => ({ kind: "kept", key: name(key, "key") }),
  group: ([group, change, add, remove]) => {
    const kind = decode.oneOf("reset", "change", "gone")(change, "change");
    const common = { kind: "group", name: name(group, "group") } as const;
    if (kind === "gone") return { ...common, change: kind };
    return {
      ...common,
      change: kind,
      add: addresses(add, "add"),
      remove: kind === "reset" ? [] : addresses(remove, "remove"),
    };
  },
  policy: ([policy]) => ({ kind: "policy", policy: decodePlainPolicy(policy, "policy") }),
  tiers: ([policy]) => ({ kind: "policy", policy: decodeTieredPolicy(policy, "policy") }),
  end: ([number]) => ({ kind: "end", number: decode.integer(number, "number") }),
};

const anyList: Decoder<readonly unknown[]> = decode.list(decode.unknownValue, { max: 8 });

/**
 * Reads one line, without its line end.
 *
 * @throws {CodedError} `DECODE_FAILED`
 */
export function decodeLine(text: string): ViewLine {
  if (Buffer.byteLength(text) > limits.lineBytes)
    throw decode.failure("line", `at most ${limits.lineBytes} bytes`, text);
  const [kind, ...values] = anyList(parsed(text), "line");
  const known = decode.oneOf(
    "service",
    "bucket",
    "kept",
    "group",
    "policy",
    "tiers",
    "end",
  )(kind, "line[0]");
  return readers[known](values);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw decode.failure("line", "JSON", text);
  }
}
