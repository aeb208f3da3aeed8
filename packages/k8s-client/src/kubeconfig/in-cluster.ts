import { constants } from "node:fs";
import { access, readFile } from "node:fs/promises";
import path from "node:path";
import type { Clock } from "@kip/base";
import type { Credentials, KubeConfig } from "./kubeconfig.ts";
import { TokenFile } from "./token-file.ts";

const serviceAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount";

/** Options of {@link inClusterConfig}. */
export interface InClusterOptions {
  readonly clock: Clock;
  /** Where the service account volume is mounted. @default "/var/run/secrets/kubernetes.io/serviceaccount" */
  readonly folder?: string | undefined;
}

/**
 * The configuration inside a pod: service account token, CA and the API server's service address. Undefined outside a pod.
 *
 * @see https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
 */
export async function inClusterConfig(
  env: Readonly<Record<string, string | undefined>>,
  { clock, folder = serviceAccountFolder }: InClusterOptions,
): Promise<KubeConfig | undefined> {
  const host = env["KUBERNETES_SERVICE_HOST"];
  const port = env["KUBERNETES_SERVICE_PORT"];
  const tokenPath = path.join(folder, "token");
  if (host === undefined || port === undefined || !(await readableFile(tokenPath)))
    return undefined;
  const token = new TokenFile(tokenPath, clock);
  let ca = await readFile(path.join(folder, "ca.crt"));
  const namespace = await readFile(path.join(folder, "namespace"), "utf8").catch(() => "default");
  let current: Credentials | undefined;
  let isRefused = false;
  return {
    server: `https://${host.includes(":") ? `[${host}]` : host}:${port}`,
    namespace: namespace.trim(),
    source: "in-cluster",
    credentials: async () => {
      const Authorization = `Bearer ${await token.read()}`;
      if (isRefused) {
        isRefused = false;
        const next = await readFile(path.join(folder, "ca.crt")).catch(() => ca); // the file is being replaced
        if (!next.equals(ca)) current = undefined;
        ca = next;
      }
      if (current?.headers["Authorization"] !== Authorization)
        current = { ca, verifyServer: true, headers: { Authorization } };
      return current;
    },
    forget: (refused) => {
      if (refused !== current) return; // the credentials were already replaced
      isRefused = true;
      token.forget();
    },
  };
}

/** Whether a file exists and this process may read it. */
async function readableFile(file: string): Promise<boolean> {
  return access(file, constants.R_OK).then(
    () => true,
    () => false,
  );
}
