import type { Option } from "@kip/base";
import { klogOptions } from "./klog-flags.ts";
import { nodeOptions, type NodeOptionDefaults } from "./node-options.ts";

/** Defaults of options that differ between commands. */
export interface CommandOptionDefaults extends NodeOptionDefaults {
  readonly logFormat: "text" | "json";
  /** Default of `--metrics-addr`. */
  readonly metrics: string;
  /** Allowed values of `--os`. @default linux or windows */
  readonly systems?: string | undefined;
}

/**
 * The options of all commands that run a node like Virtual Kubelet's. Their names, variables and meanings are those of Virtual
 * Kubelet and its early releases.
 */
export function commandOptions(defaults: CommandOptionDefaults): readonly Option[] {
  return [
    {
      flag: "os",
      type: "string",
      fallback: "linux",
      help: `operating system of the node: ${defaults.systems ?? "linux or windows"}`,
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
      help: "exit if the node has not started after this time. 0 means no limit",
    },
    {
      flag: "stream-idle-timeout",
      type: "string",
      fallback: "4h",
      help: "end exec, attach and port-forward after this time without traffic; 0 for no limit. The original used 30s",
    },
    {
      flag: "stream-creation-timeout",
      type: "string",
      fallback: "30s",
      help: "time in which a client of exec and attach must open its streams",
    },
    {
      flag: "log-format",
      type: "string",
      fallback: defaults.logFormat,
      help: "format of log lines: text or json",
    },
    ...traceOptions,
    {
      flag: "metrics-addr",
      type: "string",
      fallback: defaults.metrics,
      help: "address that serves GET /metrics, in addition to the kubelet API, or off",
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
    help: "value of the node's taint. Default: the provider's name",
  },
  {
    flag: "taint-effect",
    type: "string",
    env: "VKUBELET_TAINT_EFFECT",
    fallback: "NoSchedule",
    help: "effect of the node's taint: NoSchedule, NoExecute or PreferNoSchedule",
  },
];

const traceOptions: readonly Option[] = [
  {
    flag: "trace-exporter",
    type: "list",
    help: "where traces are sent: otlp or log. jaeger and ocagent mean otlp. zpages has no effect",
  },
  {
    flag: "trace-service-name",
    type: "string",
    fallback: "virtual-kubelet",
    help: "service.name in traces",
  },
  { flag: "trace-tag", type: "list", help: "key=value that is added to all traces" },
  {
    flag: "trace-sample-rate",
    type: "string",
    fallback: "always",
    help: "share of traces that is sent: always, never, or a percentage from 0 to 100",
  },
];

const uselessOptions: readonly Option[] = [
  {
    flag: "namespace",
    type: "string",
    hasNoEffect: true,
    help: "the node runs the pods of all namespaces that are bound to it. Keep others off with its taint",
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
    help: "use --trace-exporter=otlp, with a collector that shows traces",
  },
  {
    flag: "kube-api-qps",
    type: "string",
    hasNoEffect: true,
    help: "the API server's priority and fairness limits requests",
  },
  {
    flag: "kube-api-burst",
    type: "string",
    hasNoEffect: true,
    help: "the API server's priority and fairness limits requests",
  },
];
