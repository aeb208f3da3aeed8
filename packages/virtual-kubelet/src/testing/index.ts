export { MemoryProvider, type SeenCall } from "./memory-provider.ts";
export { polledVariant } from "./polled-variant.ts";
export { resolvedWith } from "./resolved-pod.ts";
export { until, type UntilOptions } from "./until.ts";
