import type { Option } from "@kip/base";
import { klogOptions } from "./klog-flags.ts";
import { nodeOptions, type NodeOptionDefaults } from "./node-options.ts";

/** Defaults of options that differ from command to command. */
export interface CommandOptionDefaults extends NodeOptionDefaults {
  readonly logFormat: "text" | "json";
  /** Of `--metrics-addr`. */
  readonly metrics: string;
}

/**
 * The options of each command that runs a node with all that Virtual Kubelet's has: names, variables and meaning of the original,
 * and of its early releases.
 */
export function commandOptions(defaults: CommandOptionDefaults): readonly Option[] {
  return [
    {
      flag: "os",
      type: "string",
      fallback: "linux",
      help: "operating system of the node: linux or windows",
    },
    ...taintOptions,
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
    { flag: "log-format", type: "string", fallback: defaults.logFormat, help: "text or json" },
    ...traceOptions,
    {
      flag: "metrics-addr",
      type: "string",
      fallback: defaults.metrics,
      help: "address of GET /metrics, or off: the kubelet API has it too",
    },
    ...uselessOptions,
    ...klogOptions,
    ...nodeOptions(defaults),
  ];
}

const taintOptions: readonly Option[] = [
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
];

const traceOptions: readonly Option[] = [
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
];

const uselessOptions: readonly Option[] = [
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
  {
    flag: "trace-zpages-addr",
    type: "string",
    hasNoEffect: true,
    help: "there is no page of traces; use --trace-exporter=otlp, with a collector that shows them",
  },
  {
    flag: "kube-api-qps",
    type: "string",
    hasNoEffect: true,
    help: "requests are not limited here; the API server's priority and fairness limits them",
  },
  {
    flag: "kube-api-burst",
    type: "string",
    hasNoEffect: true,
    help: "requests are not limited here; the API server's priority and fairness limits them",
  },
];
