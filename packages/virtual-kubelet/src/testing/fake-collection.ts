import { PassThrough } from "node:stream";
import { K8sError, type ApiClient, type KubeObject } from "@kip/k8s-client";

/** A collection of one version of `certificates.k8s.io`, with objects that can be read by path. */
export class FakeCollection<T extends KubeObject> {
  readonly created: unknown[] = [];
  readonly queries: unknown[] = [];
  readonly objects: Record<string, object> = {};
  items: T[] = [];
  #watch: PassThrough | undefined;
  #version = 1;

  readonly #served: string | undefined;
  readonly #resource: string;

  /** @param served path of the version that has the collection. Undefined: no version has it */
  constructor(served: string | undefined, resource: string) {
    this.#served = served;
    this.#resource = resource;
  }

  readonly client = {
    get: async (path: string) => {
      if (path === this.#served) return { resources: [{ name: this.#resource }] };
      const found = this.objects[path];
      if (found) return found;
      throw new K8sError("K8S_NOT_FOUND", "no");
    },
    list: async (_path: string, { query }: { query?: unknown } = {}) => {
      this.queries.push(query);
      return { metadata: { resourceVersion: "1" }, items: this.items };
    },
    create: async (_path: string, body: unknown) => {
      this.created.push(body);
      return { metadata: { name: `req-${this.created.length}`, uid: "r", resourceVersion: "1" } };
    },
    stream: async () => (this.#watch = new PassThrough()),
  } as unknown as ApiClient; // the calls that the tested code makes

  /** Sends a change to the watch. */
  change(type: "ADDED" | "MODIFIED" | "DELETED", object: T): void {
    const resourceVersion = String(++this.#version);
    const changed = { ...object, metadata: { ...object.metadata, resourceVersion } };
    this.#watch?.write(`${JSON.stringify({ type, object: changed })}\n`);
  }
}
