import { cellKeys } from "./cell-keys.ts";
import { cloudKeys } from "./cloud-keys.ts";
import { imageKeys, registryKeys } from "./image-keys.ts";
import { list, map, section, value } from "./key.ts";
import {
  absolutePath,
  anything,
  integer,
  quantity,
  sizeFrom,
  sysctlPattern,
  text,
} from "./kinds.ts";

/** The section `kubelet`. */
const kubeletKeys = section(
  {
    cpu: value(quantity, {
      meaning: "CPUs of the [virtual node](#the-node)",
      fallback: "`20`",
    }),
    memory: value(quantity, { meaning: "memory of the virtual node", fallback: "`100Gi`" }),
    pods: value(quantity, { meaning: "number of pods of the virtual node", fallback: "`20`" }),
    capacity: map(value(quantity), {
      meaning: "any resource of the virtual node, for example `nvidia.com/gpu`",
    }),
    labels: map(value(text), { meaning: "further labels of the virtual node" }),
    containerLogMaxSize: value(sizeFrom(64 * 1024, "64Ki"), {
      meaning: "size at which a container's [log file](agent.md#logs) is rotated, 64Ki or more",
      fallback: "`10Mi`",
    }),
    containerLogMaxFiles: value(integer(2, 1000), {
      meaning: "number of log files kept per container, 2 to 1000",
      fallback: "`5`",
    }),
    seccompProfileRoot: value(absolutePath, {
      meaning: "folder on kip's machine with [seccomp profiles](#seccomp-profiles)",
      fallback: "`/var/lib/kubelet/seccomp`",
    }),
    allowedUnsafeSysctls: list(value(sysctlPattern), {
      meaning:
        "[unsafe sysctls](#sysctls) that pods may set, for example `kernel.msg*` or `net.core.somaxconn`",
      fallback: "none",
    }),
  },
  { reload: "live" },
);

/** Every key of `provider.yaml`. Names follow the original Kip. Additional keys are in its sections, too. */
export const providerKeys = section(
  {
    apiVersion: value(text, {
      meaning: "accepted as in the original, without effect",
      fallback: "`v1`",
    }),
    kind: value(text, {
      meaning: "accepted as in the original, without effect",
      fallback: "`serverConfig`",
    }),
    cloud: cloudKeys,
    cells: cellKeys,
    kubelet: kubeletKeys,
    registries: registryKeys,
    images: imageKeys,
    testing: section({
      controllerID: value(text, {
        meaning: "ID of the installation. All of its instances have it as a tag",
        fallback: "the UID of the namespace `kube-system`",
      }),
    }),
    etcd: section(
      {
        internal: section({ dataDir: value(text), configFile: value(text) }),
        client: section({}, { others: value(anything) }),
      },
      { replacedBy: "cells are Cell objects in the cluster's API, and there is no other store" },
    ),
  },
  { required: ["cloud"] },
);
