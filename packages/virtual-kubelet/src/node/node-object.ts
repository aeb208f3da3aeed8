import { isDeepStrictEqual } from "node:util";
import { defined, SerialQueue, type Clock, type Logger } from "@kip/base";
import {
  K8sError,
  isAlreadyExists,
  isNotFound,
  paths,
  wireTime,
  type ApiClient,
  type KubeObject,
} from "@kip/k8s-client";
import type { Node, NodeAddress, NodeStatus } from "@kip/k8s-types";
import type { NodeFacts } from "../pod-provider.ts";
import { declarable } from "./declared-features.ts";
import type { NodeTaint } from "./node-options.ts";
import {
  firstLabels,
  hasTaints,
  nodeConditions,
  nodeLabels,
  nodeStatus,
  type NodeIdentity,
  type NotReady,
} from "./node-status.ts";

/** A Node from the API server. */
type StoredNode = Node & KubeObject;

/** Facts about a node that may change. */
export interface NodeFindings {
  readonly facts: NodeFacts;
  /** Why the provider cannot work at the moment. */
  readonly problem: NotReady | undefined;
}

/** Options of {@link NodeObject}. */
export interface NodeObjectOptions {
  readonly client: ApiClient;
  /** Creates the Node. @default `client` */
  readonly nodeClient?: ApiClient | undefined;
  readonly identity: NodeIdentity;
  readonly taints: readonly NodeTaint[];
  /** The facts to write. */
  readonly findings: () => NodeFindings;
  /** Whether the node has a Lease. Without one, the status is the heartbeat and is always written. */
  readonly hasLease: boolean;
  /** Interval for writing an unchanged status, milliseconds. */
  readonly statusMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

const fieldManager = "virtual-kubelet";

/**
 * The Node object in the API. Creates it and writes its status, one write at a time. Uses server-side apply for the status, so
 * that other clients' fields stay and fields that the provider dropped are removed.
 */
export class NodeObject {
  readonly #options: NodeObjectOptions;
  /** The object as last seen in the API. */
  #node: StoredNode | undefined;
  #written: unknown;
  #writtenAt = Number.NEGATIVE_INFINITY;
  #isRegistered = false;
  #declared: readonly string[] = [];
  readonly #writes = new SerialQueue();

  constructor(options: NodeObjectOptions) {
    this.#options = options;
  }

  get uid(): string | undefined {
    return this.#node?.metadata.uid;
  }

  /** The labels as last seen in the API. Undefined if there is no Node. */
  get labels(): Readonly<Record<string, string>> | undefined {
    return this.#node && (this.#node.metadata.labels ?? {});
  }

  /** Call this with each version of the Node from the watch. */
  seen(node: StoredNode): void {
    this.#node = node;
  }

  /**
   * Call this when the watch reports that the Node was deleted.
   *
   * @returns whether it must be registered again. Not if the present object is a different one
   */
  deleted(node: StoredNode): boolean {
    // This process may already have created a new one.
    if (this.#node && this.uid !== node.metadata.uid) return false;
    this.#node = undefined;
    this.#written = undefined;
    return this.#isRegistered;
  }

  /**
   * Creates the Node if it does not exist, and writes its taints and status.
   *
   * @throws {K8sError} if the API server refuses it or is unreachable
   */
  async register(): Promise<void> {
    await this.#writes.run(() => this.#ensure());
  }

  /**
   * Writes the status if it has changed, or if it was not written for `statusMs`. Registers a deleted Node again.
   *
   * @throws {K8sError} if the API server refuses it or is unreachable
   */
  async writeStatus(): Promise<void> {
    await this.#writes.run(() => this.#writeStatus());
  }

  /** Creates the Node if it does not exist, adds its taints, and writes its status. */
  async #ensure(): Promise<void> {
    const { client, identity, findings, logger, signal } = this.#options;
    const path = paths.nodes(identity.nodeName);
    try {
      this.#node = await client.get<StoredNode>(path, { signal });
    } catch (error) {
      if (!isNotFound(error)) throw error;
      this.#node = await this.#create();
      logger.info("Registered the node");
    }
    await this.#addTaints(this.#node);
    const { declaredFeatures = [] } = findings().facts;
    const features = [...identity.features, ...declaredFeatures].sort();
    this.#declared = await declarable(client, features, signal);
    this.#written = undefined;
    await this.#writeStatus();
    this.#isRegistered = true;
  }

  async #create(): Promise<StoredNode> {
    const { client, nodeClient = client, identity, taints, findings, signal } = this.#options;
    const node: Node = {
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: identity.nodeName, labels: { ...firstLabels(identity) } },
      spec: defined({
        taints: taints.map((taint) => ({ ...taint })),
        providerID: findings().facts.providerId,
      }),
    };
    try {
      return await nodeClient.create<StoredNode>(paths.nodes(), node, { signal });
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      return client.get<StoredNode>(paths.nodes(identity.nodeName), { signal });
    }
  }

  /** The whole list of taints has a single field owner, so the taints are added to the existing ones. */
  async #addTaints(node: StoredNode): Promise<void> {
    const { client, identity, taints, findings, logger, signal } = this.#options;
    const providerID = findings().facts.providerId;
    const needsId = providerID !== undefined && (node.spec?.providerID ?? "") === "";
    if (hasTaints(node, taints) && !needsId) return;
    const own = new Set(taints.map(({ key, effect }) => `${key} ${effect}`));
    const others = (node.spec?.taints ?? []).filter(
      ({ key, effect }) => !own.has(`${key} ${effect}`),
    );
    const { resourceVersion } = node.metadata;
    const patch = {
      metadata: { resourceVersion },
      spec: { taints: [...others, ...taints], providerID: needsId ? providerID : undefined },
    };
    try {
      await client.patch(paths.nodes(identity.nodeName), patch, "merge", { signal, fieldManager });
    } catch (error) {
      // The original virtual-kubelet's roles only allow creating nodes and writing their status.
      if (!K8sError.is(error, "K8S_FORBIDDEN", "K8S_INVALID")) throw error;
      logger.warn("Could not set the node's taints", { err: error });
    }
  }

  async #writeStatus(): Promise<void> {
    const { client, clock, findings, hasLease, identity, statusMs, signal } = this.#options;
    const { facts, problem } = findings();
    const now = clock.now();
    const notReady = facts.notReady ?? problem;
    const known = this.#node?.status?.conditions ?? [];
    const conditions = nodeConditions(known, notReady, wireTime(now));
    const metadata = {
      name: identity.nodeName,
      labels: { ...nodeLabels(identity), ...facts.labels },
      annotations: { ...facts.annotations },
    };
    const content = {
      metadata,
      status: nodeStatus(identity, facts, conditions, this.#declared),
    };
    const substance = { ...content, status: { ...content.status, conditions: notReady ?? true } };
    const ready = known.find(({ type }) => type === "Ready")?.status;
    const isCurrent =
      isDeepStrictEqual(this.#written, substance) &&
      ready === (notReady ? "False" : "True") &&
      hasLease &&
      clock.monotonic() - this.#writtenAt < statusMs;
    if (isCurrent) return;
    const body = { apiVersion: "v1", kind: "Node", ...applied(content, facts) };
    try {
      this.#node = await client.patch<StoredNode>(
        paths.nodes(identity.nodeName, "status"),
        body,
        "apply",
        { force: true, fieldManager, signal, isUrgent: true },
      );
    } catch (error) {
      if (!isNotFound(error) || !this.#isRegistered) throw error;
      this.#isRegistered = false; // no second attempt from this call
      try {
        await this.#ensure();
      } finally {
        this.#isRegistered = true; // it was registered before, so the next write tries again
      }
      return;
    }
    if (hasBothFamilies(facts)) await this.#writeAddresses(content.status.addresses ?? []);
    this.#written = substance;
    this.#writtenAt = clock.monotonic();
  }

  /** Writes addresses that {@link applied} left out, if they are missing. */
  async #writeAddresses(addresses: readonly NodeAddress[]): Promise<void> {
    const { client, identity, signal } = this.#options;
    if (isDeepStrictEqual(this.#node?.status?.addresses, addresses)) return;
    const path = paths.nodes(identity.nodeName, "status");
    const patch = { status: { addresses } };
    this.#node = await client.patch<StoredNode>(path, patch, "merge", { fieldManager, signal });
  }
}

/** Labels of a Node, read from the API. Undefined if it does not exist. @throws {K8sError} if the API server is unreachable */
export async function readNodeLabels(
  client: Pick<ApiClient, "get">,
  nodeName: string,
  signal: AbortSignal,
): Promise<Readonly<Record<string, string>> | undefined> {
  try {
    const { metadata } = await client.get<StoredNode>(paths.nodes(nodeName), { signal });
    return metadata.labels ?? {};
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

function hasBothFamilies({ otherInternalIps = [] }: NodeFacts): boolean {
  return otherInternalIps.length > 0;
}

/**
 * The part of the content for server-side apply. It accepts one address of each type, so the addresses are left out if there
 * are two families.
 */
function applied(content: { readonly status: NodeStatus }, facts: NodeFacts): object {
  if (!hasBothFamilies(facts)) return content;
  const { addresses: _others, ...status } = content.status;
  return { ...content, status };
}
