import { bytes, errorText } from "@kip/base";
import { AgentError } from "./errors.ts";

/** Limits of a pod's traffic, bits per second. @default none */
export interface Bandwidth {
  /** Traffic to the pod. */
  readonly ingressBits?: number | undefined;
  /** Traffic from the pod. */
  readonly egressBits?: number | undefined;
}

const least = 1e3;
const most = 1e15;

/**
 * Parses the annotations `kubernetes.io/ingress-bandwidth` and `kubernetes.io/egress-bandwidth`: quantities from 1k to 1P.
 *
 * @throws {AgentError} `AGENT_BANDWIDTH_INVALID`
 * @see https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/network-plugins/#support-traffic-shaping
 */
export function bandwidthOf(annotations: Readonly<Record<string, string>>): Bandwidth {
  return {
    ingressBits: read(annotations, "kubernetes.io/ingress-bandwidth"),
    egressBits: read(annotations, "kubernetes.io/egress-bandwidth"),
  };
}

function read(annotations: Readonly<Record<string, string>>, name: string): number | undefined {
  const text = annotations[name];
  if (text === undefined) return undefined;
  const bits = quantity(name, text);
  if (bits < least) throw invalid(name, text, "resource is unreasonably small (< 1kbit)");
  if (bits > most) throw invalid(name, text, "resource is unreasonably large (> 1Pbit)");
  return bits;
}

function quantity(name: string, text: string): number {
  try {
    return bytes(text);
  } catch (error) {
    throw invalid(name, text, errorText(error));
  }
}

function invalid(name: string, text: string, reason: string): AgentError {
  const shown = text.slice(0, 64);
  return new AgentError(
    "AGENT_BANDWIDTH_INVALID",
    `Cannot limit the pod's bandwidth by annotation ${name}="${shown}": ${reason}`,
    { remedy: "Write bits per second, from 1k to 1P, for example 10M" },
  );
}
