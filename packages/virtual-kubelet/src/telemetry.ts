// Metrics in Prometheus' text format and trace spans, for providers that have their own.
export { Durations } from "./metrics/durations.ts";
export { metricsText, type MetricFamily, type MetricSample } from "./metrics/metrics-text.ts";
export { noTracer, startPodSpan, type Tracer } from "./tracing.ts";
