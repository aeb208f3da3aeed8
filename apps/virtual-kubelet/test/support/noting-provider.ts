// A provider whose backend is a folder. The folder outlives the provider, and several processes may share it. It has a file for
// each pod, and a note of each call with the process that made it. The folder's path is the provider's configuration.
import { appendFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import {
  podStatus,
  type Pod,
  type PodProvider,
  type ProviderCallbacks,
  type ProviderSetup,
} from "@kip/virtual-kubelet";

export function createProvider({ configPath: folder = "", clock }: ProviderSetup): PodProvider {
  const file = (uid: string): string => path.join(folder, `${uid}.pod`);
  const uids = (): readonly string[] =>
    readdirSync(folder).flatMap((name) => (name.endsWith(".pod") ? [name.slice(0, -4)] : []));
  const note = (call: string, uid: string): void =>
    appendFileSync(path.join(folder, "calls"), `${process.pid} ${call} ${uid}\n`);
  let callbacks: ProviderCallbacks | undefined;
  const remove = (uid: string): void => {
    note("remove", uid);
    rmSync(file(uid), { force: true });
  };
  return {
    async start(given) {
      callbacks = given;
    },
    async apply({ pod }) {
      const uid = pod.metadata.uid;
      if (!uids().includes(uid)) {
        note("start", uid);
        writeFileSync(file(uid), JSON.stringify(pod), { flag: "wx" }); // fails if the file exists
      }
      const nowMs = clock.now();
      const containers = pod.spec.containers ?? [];
      const runs = new Map(containers.map(({ name }) => [name, { startedAtMs: nowMs }]));
      callbacks?.podStatus({ uid, status: podStatus(pod, { runs, nowMs }) });
    },
    remove: async (pod) => remove(pod.metadata.uid),
    removeUnknown: async (uid) => remove(uid),
    presence: async (uid) => (uids().includes(uid) ? "present" : "absent"),
    list: async () =>
      uids().map((uid) => {
        const { metadata } = JSON.parse(readFileSync(file(uid), "utf8")) as Pod; // we wrote it
        return { uid, namespace: metadata?.namespace ?? "", name: metadata?.name ?? "" };
      }),
    nodeFacts: async () => ({
      capacity: { cpu: "8", memory: "8Gi", pods: "50" },
      internalIp: "192.0.2.1",
    }),
    async ping() {},
  };
}
