import { decode, DecodeError, parseQuantity } from "@kip/base";
import type { Pod } from "@kip/k8s-types";
import { podFields } from "@kip/kip/pod-fields";

const { boolean, list, map, object, optional, string, unknownValue, between, integer } = decode;

/** Pods of one kind that a manifest creates. */
export interface PricedPods {
  readonly kind: string;
  readonly name: string;
  /** As written in the manifest. */
  readonly namespace?: string | undefined;
  /** How many of them run at the same time. */
  readonly replicas: number;
  readonly pod: Pod;
}

/** A quantity, 0 or more. A number is read as text, like the API server does. */
const amount: decode.Decoder<string> = (value, path) => {
  const text = typeof value === "number" ? String(value) : string(value, path);
  let size: number;
  try {
    size = parseQuantity(text);
  } catch (cause) {
    const remedy = 'Write for example "500m", "2" or "1.5Gi"';
    throw new DecodeError("QUANTITY_INVALID", `Cannot read "${path}"`, { cause, remedy });
  }
  if (size >= 0) return text;
  throw new DecodeError("QUANTITY_INVALID", `Cannot read "${path}": "${text}" is below zero`, {
    remedy: "Write an amount of 0 or more",
  });
};

/**
 * Decodes an API object with some fields. Other fields are ignored if the table of pod fields has them, and rejected otherwise.
 */
function known<F extends Readonly<Record<string, decode.Decoder<unknown>>>>(
  type: string,
  fields: F,
): ReturnType<typeof object<F>> {
  const others = Object.keys(podFields[type] ?? {}).filter((name) => !Object.hasOwn(fields, name));
  const all = Object.fromEntries(others.map((name) => [name, optional(unknownValue)] as const));
  return object({ ...all, ...fields }, { unknownKeys: "reject" }) as unknown as ReturnType<
    typeof object<F>
  >; // the additional fields are not used
}

const resources = known("ResourceRequirements", {
  limits: optional(map(amount)),
  requests: optional(map(amount)),
});

const container = known("Container", {
  name: string,
  resources: optional(resources),
  restartPolicy: optional(string),
});

const podSpec = known("PodSpec", {
  containers: list(container),
  initContainers: optional(list(container)),
  overhead: optional(map(amount)),
  resources: optional(resources),
  nodeSelector: optional(map(string)),
});

const metadata = object({
  name: optional(string),
  generateName: optional(string),
  namespace: optional(string),
  annotations: optional(map(string)),
});

const podTemplate = object({ metadata: optional(metadata), spec: podSpec });

const count = optional(between(integer, 0, 1_000_000));
const head = object({
  kind: string,
  metadata: optional(metadata),
  items: optional(list(unknownValue)),
});
const pod = object({ spec: podSpec });
const templateOf = object({
  spec: object({
    template: podTemplate,
    replicas: count,
    parallelism: count,
    suspend: optional(boolean),
  }),
});
const cronJob = object({ spec: object({ jobTemplate: templateOf }) });
const bareTemplate = object({ template: podTemplate });

/**
 * The pods that an object of a manifest creates. Empty for kinds without pods, such as Services.
 *
 * @param value one document, or an entry of a List
 * @throws {DecodeError} `DECODE_FAILED`, `QUANTITY_INVALID`, which name the field
 */
export function pricedPods(value: unknown, path = ""): readonly PricedPods[] {
  const { kind, metadata: own = {}, items = [] } = head(value, path);
  if (kind === "List" || kind === "PodList")
    return items.flatMap((item, index) => pricedPods(item, `items[${index}]`));
  const made = madeBy(kind, value, path);
  if (!made) return [];
  const { template, replicas } = made;
  const name = own.name ?? own.generateName ?? "without a name";
  const { annotations = {} } = template.metadata ?? {};
  const spec = withDefaultRequests(template.spec as unknown as Pod["spec"]); // the fields that are used were decoded
  return [
    {
      kind,
      name,
      namespace: own.namespace,
      replicas,
      pod: { metadata: { name, annotations }, spec } as Pod,
    },
  ];
}

type Template = decode.Decoded<typeof podTemplate>;

function madeBy(
  kind: string,
  value: unknown,
  path: string,
): { readonly template: Template; readonly replicas: number } | undefined {
  switch (kind) {
    case "Pod": {
      const { metadata: own } = head(value, path);
      return { template: { ...pod(value, path), ...(own && { metadata: own }) }, replicas: 1 };
    }
    case "Deployment":
    case "ReplicaSet":
    case "ReplicationController":
    case "StatefulSet": {
      const { template, replicas = 1 } = templateOf(value, path).spec;
      return { template, replicas };
    }
    case "DaemonSet": // one for each node, and kip is one node
      return { template: templateOf(value, path).spec.template, replicas: 1 };
    case "Job": {
      const { template, parallelism = 1 } = templateOf(value, path).spec;
      return { template, replicas: parallelism };
    }
    case "CronJob": {
      const { template, parallelism = 1 } = cronJob(value, path).spec.jobTemplate.spec;
      return { template, replicas: parallelism };
    }
    case "PodTemplate":
      return { template: bareTemplate(value, path).template, replicas: 1 };
    default:
      return undefined;
  }
}

/** As in the API server's defaults, a container with a limit and without a request requests its limit. */
function withDefaultRequests(spec: Pod["spec"]): Pod["spec"] {
  type Part = { readonly resources?: Pod["spec"]["resources"] };
  const complete = <T extends Part>(part: T): T => {
    if (!part.resources?.limits) return part;
    const { limits, requests } = part.resources;
    return { ...part, resources: { ...part.resources, requests: { ...limits, ...requests } } };
  };
  return {
    ...complete(spec),
    containers: spec.containers.map(complete),
    ...(spec.initContainers && { initContainers: spec.initContainers.map(complete) }),
  };
}
