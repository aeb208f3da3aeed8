import type { Option } from "@kip/base";
import { nodeOptions } from "@kip/virtual-kubelet/command";
import { klogOptions } from "./klog-flags.ts";

/** Options of virtual-kubelet: names, variables and meaning of the original, and of its early releases. */
export const commandOptions: readonly Option[] = [
  {
    flag: "os",
    type: "string",
    fallback: "linux",
    help: "operating system of the node: linux or windows",
  },
  {
    flag: "provider",
    type: "string",
    help: "name of a provider (see: virtual-kubelet providers), or of an npm package",
  },
  { flag: "provider-config", type: "string", help: "path of the provider's configuration file" },
  {
    flag: "taint",
    type: "string",
    env: "VKUBELET_TAINT_KEY",
    fallback: "virtual-kubelet.io/provider",
    help: "key of the node's taint",
  },
  {
    flag: "taint-value",
    type: "string",
    env: "VKUBELET_TAINT_VALUE",
    help: "its value; default the provider's name",
  },
  {
    flag: "taint-effect",
    type: "string",
    env: "VKUBELET_TAINT_EFFECT",
    fallback: "NoSchedule",
    help: "its effect: NoSchedule, NoExecute or PreferNoSchedule",
  },
  {
    flag: "full-resync-period",
    type: "string",
    fallback: "1m",
    help: "time between comparisons of the API's pods with the provider's",
  },
  {
    flag: "startup-timeout",
    type: "string",
    fallback: "0",
    help: "longest start of the node; 0 for no limit",
  },
  {
    flag: "stream-idle-timeout",
    type: "string",
    fallback: "4h",
    help: "exec, attach and port-forward without traffic end after this (the original: 30s)",
  },
  {
    flag: "stream-creation-timeout",
    type: "string",
    fallback: "30s",
    help: "time a client has to open its streams",
  },
  { flag: "log-format", type: "string", fallback: "text", help: "text or json" },
  {
    flag: "trace-exporter",
    type: "list",
    help: "where traces go: otlp or log; repeatable. jaeger and ocagent send as otlp, zpages has no effect",
  },
  {
    flag: "trace-service-name",
    type: "string",
    fallback: "virtual-kubelet",
    help: "service.name of traces",
  },
  { flag: "trace-tag", type: "list", help: "key=value on all traces; repeatable" },
  {
    flag: "trace-sample-rate",
    type: "string",
    fallback: "always",
    help: "share of traces: always, never, or 0 to 100 percent",
  },
  {
    flag: "metrics-addr",
    type: "string",
    fallback: ":10255",
    help: "address of GET /metrics, or off: the kubelet API has it too",
  },
  { flag: "standby", type: "boolean", help: "replicas of this node stand by for each other" },
  {
    flag: "namespace",
    type: "string",
    hasNoEffect: true,
    help: "a node has the pods of all namespaces, as in the original",
  },
  {
    flag: "enable-node-lease",
    type: "boolean",
    hasNoEffect: true,
    help: "nodes always have a lease",
  },
  {
    flag: "pod-sync-workers",
    type: "string",
    hasNoEffect: true,
    help: "pods do not wait for each other",
  },
  ...klogOptions,
  ...nodeOptions({
    certificate: "asked of the cluster (CSR), self-signed meanwhile",
    clientCa: "the cluster's own",
  }),
];
