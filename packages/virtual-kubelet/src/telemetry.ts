// Figures in Prometheus' text format and spans of traces, for providers that have some of their own.
export { Durations } from "./metrics/durations.ts";
export { metricsText, type MetricFamily, type MetricSample } from "./metrics/metrics-text.ts";
export { noTracer, startPodSpan, type Tracer } from "./tracing.ts";
