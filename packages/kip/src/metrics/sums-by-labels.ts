import type { MetricSample } from "@kip/virtual-kubelet/telemetry";

type Labels = Readonly<Record<string, string>>;

/** One sample for each set of labels: the sum over the items with these labels. */
export function sumsByLabels<T>(
  items: readonly T[],
  labelsOf: (item: T) => Labels,
  valueOf: (item: T) => number,
): readonly MetricSample[] {
  const sets = new Map<string, { readonly labels: Labels; value: number }>();
  for (const item of items) {
    const labels = labelsOf(item);
    const key = JSON.stringify(labels);
    const known = sets.get(key);
    if (known) known.value += valueOf(item);
    else sets.set(key, { labels, value: valueOf(item) });
  }
  return [...sets.values()];
}
