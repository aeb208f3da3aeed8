import { HttpRefusal } from "./transport/answer.ts";
import type { KubeletLimits } from "./options.ts";
import type { PodPath } from "./routes.ts";

// kubectl takes a text for YAML, and shows none that is: no colon here.
const uses = "connections for exec, attach, port-forward and logs";
const remedy = "close some of them, or try again later";

/**
 * Limits the connections that the streams and logs of one pod hold, and those of all pods: all clients come by way of the
 * API server, so that who may open those of one pod would otherwise keep everybody from all pods. A kubelet has no such limits.
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
   * Counts a connection until the function it returns is called.
   *
   * @throws HttpRefusal 429 if the pod, or all together, have as many as they may
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
