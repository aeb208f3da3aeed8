import type { Clock, Logger } from "@kip/base";
import type { ApiClient, KubeObject } from "./api-client.ts";

/** What an event is about. */
export interface EventReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid?: string;
  /** Absent for cluster-wide objects, whose events are in "default". */
  readonly namespace?: string;
  readonly fieldPath?: string;
  readonly resourceVersion?: string;
}

/** What is to be recorded. */
export interface RecordedEvent {
  readonly type: "Normal" | "Warning";
  /** UpperCamelCase, short. */
  readonly reason: string;
  /** One sentence; cut at 1,024 characters. */
  readonly message: string;
}

/** Options of {@link createEventRecorder}. */
export interface EventRecorderOptions {
  readonly client: ApiClient;
  /** `source.component` and `reportingComponent`, for example `kubelet`. */
  readonly component: string;
  /** `source.host` and `reportingInstance`: the node's name. */
  readonly host: string;
  readonly logger: Logger;
  readonly clock: Clock;
}

/** Writes core/v1 Events in the background. Equal events become one with a count, as the kubelet's. */
export interface EventRecorder {
  /** Never blocks and never throws. */
  record(about: EventReference, event: RecordedEvent): void;
  /** Resolves when everything recorded so far is written or given up. */
  flush(): Promise<void>;
}

/** The reference of an object, with `fieldPath` for a part of it (`spec.containers{web}`). */
export function referenceTo(
  object: KubeObject,
  defaults: { readonly apiVersion: string; readonly kind: string; readonly fieldPath?: string },
): EventReference {
  void object;
  void defaults;
  throw new Error("Not built yet");
}

/** Makes a recorder. */
export function createEventRecorder(options: EventRecorderOptions): EventRecorder {
  void options;
  throw new Error("Not built yet");
}
