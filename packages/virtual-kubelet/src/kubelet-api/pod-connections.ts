import { HttpRefusal } from "./transport/answer.ts";
import type { KubeletLimits } from "./options.ts";
import type { PodPath } from "./routes.ts";

// kubectl parses the text as YAML and hides it if that fails, so it must not contain a colon.
const uses = "connections for exec, attach, port-forward and logs";
const remedy = "close some of them, or try again later";

/**
 * Limits the connections for the streams and logs of one pod, and of all pods together. All clients come through the API
 * server. Without these limits, a user with access to one pod could block access to all pods. A kubelet has no such limits.
 */
export class PodConnections {
  readonly #limits: Pick<KubeletLimits, "podConnections" | "allPodConnections">;
  /** By namespace and name. */
  readonly #open = new Map<string, number>();
  #all = 0;

  constructor(limits: Pick<KubeletLimits, "podConnections" | "allPodConnections">) {
    this.#limits = limits;
  }

  /**
   * Counts a connection until the returned function is called.
   *
   * @throws HttpRefusal 429 if the pod, or all pods together, have reached the limit
   */
  hold({ namespace, pod }: PodPath): () => void {
    const key = `${namespace}/${pod}`;
    const open = this.#open.get(key) ?? 0;
    if (open >= this.#limits.podConnections)
      throw refusal(`pod "${pod}" has ${open} ${uses} already; ${remedy}`);
    if (this.#all >= this.#limits.allPodConnections)
      throw refusal(`the pods of this node have ${this.#all} ${uses} already; ${remedy}`);
    this.#add(key, 1);
    return () => this.#add(key, -1);
  }

  #add(key: string, change: number): void {
    const open = (this.#open.get(key) ?? 0) + change;
    if (open > 0) this.#open.set(key, open);
    else this.#open.delete(key);
    this.#all += change;
  }
}

function refusal(text: string): HttpRefusal {
  return new HttpRefusal(429, text, { "Retry-After": "1" });
}
