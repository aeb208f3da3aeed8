import { backoffDelay, defined, isRetryable, type Clock, type Logger } from "@kip/base";
import type { Event } from "@kip/k8s-types";
import { isNotFound, K8sError } from "../errors.ts";
import type { ApiClient, KubeObject } from "../client/api-client.ts";
import { EventSpamFilter } from "./event-spam-filter.ts";
import { paths } from "../client/paths.ts";
import { wireTime } from "../client/wire-time.ts";

/** The object that an event is about. */
export interface EventReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid?: string;
  /** Absent for cluster-wide objects. Their events are in "default". */
  readonly namespace?: string;
  readonly fieldPath?: string;
  readonly resourceVersion?: string;
}

/** An event to record. */
export interface RecordedEvent {
  readonly type: "Normal" | "Warning";
  /** UpperCamelCase, short. */
  readonly reason: string;
  /** One sentence, truncated to 1,024 characters. */
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

/** Writes core/v1 Events in the background. Equal events are merged into one with a count, as in the kubelet. */
export interface EventRecorder {
  /** Never blocks and never throws. */
  record(about: EventReference, event: RecordedEvent): void;
  /** Resolves once everything recorded so far was written or dropped. */
  flush(): Promise<void>;
}

/** The reference of an object, with `fieldPath` for a part of it (`spec.containers{web}`). */
export function referenceTo(
  object: KubeObject,
  defaults: { readonly apiVersion: string; readonly kind: string; readonly fieldPath?: string },
): EventReference {
  const { name, namespace, uid, resourceVersion } = object.metadata;
  return defined({
    apiVersion: object.apiVersion ?? defaults.apiVersion,
    kind: object.kind ?? defaults.kind,
    name,
    namespace,
    uid,
    resourceVersion,
    fieldPath: defaults.fieldPath,
  });
}

/** Makes a recorder. */
export function createEventRecorder(options: EventRecorderOptions): EventRecorder {
  return new BackgroundRecorder(options);
}

/** Equal events, which share one Event object. */
interface Series {
  readonly key: string;
  readonly namespace: string;
  readonly about: EventReference;
  readonly event: RecordedEvent;
  readonly firstAt: number;
  lastAt: number;
  count: number;
  /** Name of the Event object once it exists. */
  written: string | undefined;
  queued: boolean;
}

/** Most series to remember. The oldest is forgotten first. client-go uses the same figure. */
const maxSeries = 4096;
/** Most events that wait for the API server. Further events are dropped. */
const maxQueued = 10_000;
const maxAttempts = 6;
const backoff = { initialMs: 200, maxMs: 10_000 };
const maxMessageLength = 1024;

class BackgroundRecorder implements EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #series = new Map<string, Series>();
  readonly #spam: EventSpamFilter;
  readonly #queue: Series[] = [];
  /** Whether events are being dropped. This has then been logged. */
  #isFull = false;
  #writer: Promise<void> | undefined;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
    this.#spam = new EventSpamFilter(options.clock);
  }

  record(about: EventReference, event: RecordedEvent): void {
    if (!this.#spam.allow(`${about.kind}/${about.uid ?? about.name}`)) return;
    const series = this.#count(about, { ...event, message: shorten(event.message) });
    if (series.queued) return;
    if (this.#queue.length >= maxQueued) {
      if (!this.#isFull)
        this.#options.logger.warn("Dropped events: too many are waiting", { limit: maxQueued });
      this.#isFull = true;
      return;
    }
    series.queued = true;
    this.#queue.push(series);
    this.#writer ??= this.#drain().finally(() => {
      this.#writer = undefined;
      this.#isFull = false;
    });
  }

  async flush(): Promise<void> {
    while (this.#writer) await this.#writer;
  }

  #count(about: EventReference, event: RecordedEvent): Series {
    const now = this.#options.clock.now();
    const identity = [about.kind, about.uid ?? about.name, about.fieldPath ?? ""];
    const key = [...identity, event.type, event.reason, event.message].join("\n");
    const known = this.#series.get(key);
    this.#series.delete(key); // set again below: a Map keeps insertion order, so the oldest is first
    const series: Series = known ?? {
      key,
      namespace: about.namespace ?? "default",
      about,
      event,
      firstAt: now,
      lastAt: now,
      count: 0,
      written: undefined,
      queued: false,
    };
    series.lastAt = now;
    series.count++;
    this.#series.set(key, series);
    if (this.#series.size > maxSeries) {
      const [oldest] = this.#series.keys();
      if (oldest !== undefined) this.#series.delete(oldest);
    }
    return series;
  }

  async #drain(): Promise<void> {
    await Promise.resolve(); // events recorded in the same turn are written as one
    for (let series = this.#queue.shift(); series; series = this.#queue.shift()) {
      try {
        // Only now: events recorded while this one waited are in the count. Events recorded during the write are queued again,
        // behind it.
        series.queued = false;
        await this.#write(series);
      } catch (error) {
        const { logger } = this.#options;
        // Events of a namespace that is being deleted are not needed.
        const level = isNamespaceGone(error) ? "debug" : "warn";
        logger[level]("Could not write an event", {
          reason: series.event.reason,
          object: `${series.namespace}/${series.about.name}`,
          err: error,
        });
      }
    }
  }

  async #write(series: Series): Promise<void> {
    for (let attempt = 0; ; attempt++) {
      try {
        await this.#writeOnce(series);
        return;
      } catch (error) {
        if (!isRetryable(error) || attempt === maxAttempts - 1) throw error;
        await this.#options.clock.sleep(backoffDelay(attempt, backoff, error));
      }
    }
  }

  async #writeOnce(series: Series): Promise<void> {
    const { client } = this.#options;
    if (series.written !== undefined) {
      const change = { count: series.count, lastTimestamp: wireTime(series.lastAt) };
      try {
        await client.patch(paths.events(series.namespace, series.written), change, "merge");
        return;
      } catch (error) {
        if (!isNotFound(error)) throw error; // if it expired, write a new one
      }
    }
    const name = `${series.about.name.slice(0, 200)}.${uniqueSuffix(this.#options.clock.now())}`;
    await client.create(paths.events(series.namespace), this.#document(series, name));
    series.written = name;
  }

  #document(series: Series, name: string): Event {
    const { component, host } = this.#options;
    return {
      apiVersion: "v1",
      kind: "Event",
      metadata: { name, namespace: series.namespace },
      involvedObject: { ...series.about },
      type: series.event.type,
      reason: series.event.reason,
      message: series.event.message,
      source: { component, host },
      reportingComponent: component,
      reportingInstance: host,
      firstTimestamp: wireTime(series.firstAt),
      lastTimestamp: wireTime(series.lastAt),
      count: series.count,
    };
  }
}

/** Whether an event was refused because its namespace is being deleted (403) or is gone (404). */
function isNamespaceGone(error: unknown): boolean {
  if (isNotFound(error)) return true;
  if (!K8sError.is(error, "K8S_FORBIDDEN")) return false;
  return (
    error.status?.details?.causes?.some(({ reason }) => reason === "NamespaceTerminating") === true
  );
}

let sequence = 0;

/** Unique in this process. It contains the time, so a clash with another process is unlikely. */
function uniqueSuffix(now: number): string {
  sequence = (sequence + 1) % 0x10000;
  return `${now.toString(16)}${sequence.toString(16).padStart(4, "0")}`;
}

function shorten(message: string): string {
  return message.length <= maxMessageLength
    ? message
    : `${message.slice(0, maxMessageLength - 1)}…`;
}
