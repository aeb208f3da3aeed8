import { Resolver } from "node:dns/promises";
import { chmod, chown, copyFile, mkdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { errorText, systemClock, withTimeout } from "@kip/base";
import type { ClusterDnsPlace, LocalCloud } from "@kip/cloud-local";
import type { ControlPlane, SupervisedProgram } from "@kip/control-plane";
import { resolvers } from "../cluster/resolvers.ts";
import { dnsService } from "../cluster/service-range.ts";
import { markerEnvironment } from "../cluster/processes.ts";
import { KipError } from "../../errors.ts";
import { withClient } from "./administrator.ts";
import type { ClusterContext } from "../cluster/cluster-context.ts";
import { corefile, corefileName, dnsKubeconfigName } from "./corefile.ts";
import { dnsObjects, dnsUser } from "./dns-objects.ts";
import { logLimitBytes, supervise } from "./supervise.ts";

/** User and group of the name server. The IDs below those of machines and of the registry. */
const systemUser = 1_879_075_581;
const programName = "coredns";

/** How long the name server may take until it answers, milliseconds, and the time between two queries. */
const readyMs = 30_000;
const retryMs = 100;

/**
 * CoreDNS tries to stay below the first limit. It cannot exceed the second one: it ends then, and is started again. It used 180
 * MB with 8,000 concurrent queries that were not answered. A control group cannot limit it, because a memory group cannot be
 * created below that of a process.
 */
const memoryAimBytes = 256 * 2 ** 20;
const dataLimitBytes = 512 * 2 ** 20;

/** The cluster's name server. */
export interface ClusterDns extends AsyncDisposable {
  /** Resolves when it answers queries for names of the cluster. */
  readonly ready: Promise<void>;
}

/**
 * Starts CoreDNS in the cells' network namespace, and creates the Service `kube-dns` for it. CoreDNS runs as a user without a
 * name, whose only capability is to listen at port 53. It ends with this process.
 *
 * @throws {KipError} `LOCAL_CLUSTER_FAILED`, by {@link ClusterDns.ready}, if it ends repeatedly or does not answer
 */
export async function startClusterDns(
  context: ClusterContext,
  cloud: LocalCloud,
  controlPlane: ControlPlane,
): Promise<ClusterDns> {
  const { options, layout, logger, signal } = context;
  const service = dnsService(options);
  const given = resolvers(options);
  const place = await cloud.clusterDns();
  await withClient(controlPlane, logger, async (client) => {
    for (const { path: object, body } of dnsObjects({ service, address: place.address }))
      await client.patch(object, body, "apply", { fieldManager: "kip", force: true });
  });
  const kubeconfig = await controlPlane.issueKubeconfig(dnsUser, cloud.hostAddress);
  await prepareFolder(context, {
    [corefileName]: corefile(given.length > 0 ? { ...place, resolvers: given } : place),
    [dnsKubeconfigName]: kubeconfig,
  });
  const logFile = path.join(layout.logDir, "coredns.log");
  const program = supervise(logger, {
    name: programName,
    file: "nsenter",
    args: [
      `--net=${place.namespaceFile}`,
      "prlimit",
      `--data=${dataLimitBytes}`,
      "--",
      ...confined(),
      `./${programName}`,
      "-conf",
      corefileName,
    ],
    env: { ...markerEnvironment(), GOMEMLIMIT: String(memoryAimBytes) },
    directory: layout.dnsDir,
    logFile,
    logLimitBytes,
  });
  const ready = untilAnswering({ program, place, logFile, signal });
  ready.catch(() => {}); // the start may fail before it is awaited
  return { ready, [Symbol.asyncDispose]: async () => await program.stop() };
}

/** Command line that gives the program its own user, and only the capability for port 53. */
function confined(): readonly string[] {
  const capability = "-all,+net_bind_service";
  const capabilities = ["inh-caps", "ambient-caps", "bounding-set"].map(
    (set) => `--${set}=${capability}`,
  );
  const ids = [`--reuid=${systemUser}`, `--regid=${systemUser}`, "--clear-groups"];
  return ["setpriv", ...ids, ...capabilities, "--no-new-privs", "--pdeathsig=KILL", "--"];
}

/**
 * Creates the program's working folder, which it cannot change. It cannot enter the folders above, so this also contains a copy
 * of the program.
 */
async function prepareFolder(
  { options, layout }: ClusterContext,
  files: Readonly<Record<string, string>>,
): Promise<void> {
  const { dnsDir } = layout;
  await rm(dnsDir, { recursive: true, force: true });
  await mkdir(dnsDir, { recursive: true });
  await chmod(dnsDir, 0o755);
  await copyFile(options.required("coredns"), path.join(dnsDir, programName));
  await chmod(path.join(dnsDir, programName), 0o755);
  for (const [name, text] of Object.entries(files)) {
    const file = path.join(dnsDir, name);
    await writeFile(file, text, { mode: 0o400 });
    await chown(file, systemUser, systemUser);
  }
}

interface Answering {
  readonly program: SupervisedProgram;
  readonly place: ClusterDnsPlace;
  readonly logFile: string;
  readonly signal: AbortSignal;
}

/**
 * Waits until the name server answers names of the cluster. It does that when it has read all objects, and has no other way to
 * report it.
 */
async function untilAnswering({ program, place, logFile, signal }: Answering): Promise<void> {
  const failed = (reason: string): KipError =>
    new KipError("LOCAL_CLUSTER_FAILED", `Cannot start the cluster's name server: ${reason}`, {
      remedy: `See ${logFile}`,
    });
  const failing = new AbortController();
  void program.failing.then(({ reason }) => failing.abort(failed(reason)));
  const resolver = new Resolver({ timeout: 1000, tries: 1 });
  resolver.setServers([place.address]);
  let problem = "";
  await withTimeout(
    async (limit) => {
      for (;;) {
        try {
          await resolver.resolve4("kubernetes.default.svc.cluster.local");
          return;
        } catch (error) {
          problem = errorText(error);
          await systemClock.sleep(retryMs, limit);
        }
      }
    },
    {
      limitMs: readyMs,
      clock: systemClock,
      signal: AbortSignal.any([signal, failing.signal]),
      error: () => failed(`it did not answer within ${readyMs / 1000} s (${problem})`),
    },
  );
}
