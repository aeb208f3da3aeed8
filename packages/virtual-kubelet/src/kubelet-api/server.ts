import type { KubeletApiOptions, RunningKubeletApi } from "./options.ts";

/**
 * Serves the kubelet's HTTPS API.
 * @throws VK_LISTEN_FAILED if the port cannot be had; VK_TLS_INVALID if a PEM text is none
 */
export async function startKubeletApi(options: KubeletApiOptions): Promise<RunningKubeletApi> {
  throw new Error(`not yet: ${options.port}`);
}
