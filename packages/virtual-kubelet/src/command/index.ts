// What a command needs that runs a node: its options, providers by name, certificate files, metrics and traces.
export { NodeMetrics } from "../metrics/node-metrics.ts";
export { ServingTls } from "../node/serving-tls.ts";
export { optionalCalls } from "../pod-provider.ts";
export { noTracer, type Span, type SpanFields, type Tracer } from "../tracing.ts";
export { nodeOptions } from "./node-options.ts";
export { certificatePair, openClient, readOptionFile } from "./read-node-options.ts";
export { ProviderStore } from "./provider-store.ts";
