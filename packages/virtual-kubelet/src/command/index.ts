// What a command needs that runs a node: providers by name, certificate files, metrics and traces.
export { NodeMetrics } from "../metrics/node-metrics.ts";
export { ServingTls } from "../node/serving-tls.ts";
export { optionalCalls } from "../pod-provider.ts";
export { noTracer, type Span, type SpanFields, type Tracer } from "../tracing.ts";
export { ProviderStore } from "./provider-store.ts";
