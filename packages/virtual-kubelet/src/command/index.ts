// Parts of a command that runs a node: options, providers by name, certificate files, metrics and traces.
export { NodeMetrics } from "../metrics/node-metrics.ts";
export { ServingTls } from "../node/serving-tls.ts";
export { optionalCalls } from "../pod-provider.ts";
export { noTracer, type Span, type SpanFields, type Tracer } from "../tracing.ts";
export { commandOptions } from "./command-options.ts";
export { withKlogNames } from "./klog-flags.ts";
export type { ProcessHealth } from "./health-server.ts";
export { openLogOutput } from "./log-output.ts";
export {
  createCommandLogger,
  metricsAddress,
  nodeTimes,
  startHealth,
  startMetrics,
  taintsOf,
} from "./node-settings.ts";
export { ownAddress } from "./own-address.ts";
export { certificatePair, clientCaOf, openClient, readOptionFile } from "./read-node-options.ts";
export { choice, duration, labelValue } from "./read-values.ts";
export { waitForStart } from "./wait-for-start.ts";
export { openTracer } from "./tracing/open-tracer.ts";
export { ProviderStore } from "./provider-store.ts";
