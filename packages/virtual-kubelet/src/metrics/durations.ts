import type { MetricSample } from "./metrics-text.ts";

type Labels = Readonly<Record<string, string>>;

interface Series {
  readonly labels: Labels;
  /** Number of durations up to the bound with the same index, and above the previous bound. */
  readonly buckets: number[];
  count: number;
  sumSeconds: number;
}

/** Histograms of one metric, by labels, in the order in which the labels first appeared. */
export class Durations {
  readonly #bounds: readonly number[];
  readonly #series = new Map<string, Series>();

  /** @param bounds upper bounds of the buckets, seconds, ascending */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
  }

  observe(labels: Labels, seconds: number): void {
    const key = JSON.stringify(labels);
    let series = this.#series.get(key);
    if (!series) {
      series = { labels, buckets: this.#bounds.map(() => 0), count: 0, sumSeconds: 0 };
      this.#series.set(key, series);
    }
    series.count++;
    series.sumSeconds += seconds;
    const bucket = this.#bounds.findIndex((bound) => seconds <= bound);
    if (bucket !== -1) series.buckets[bucket] = (series.buckets[bucket] ?? 0) + 1;
  }

  /** Number of durations for each set of labels. */
  counts(): readonly MetricSample[] {
    return [...this.#series.values()].map(({ labels, count }) => ({ labels, value: count }));
  }

  /** The samples for a family of type `histogram`. */
  samples(): readonly MetricSample[] {
    return [...this.#series.values()].flatMap((series) => this.#histogram(series));
  }

  #histogram({ labels, buckets, count, sumSeconds }: Series): readonly MetricSample[] {
    const suffix = "_bucket";
    let cumulative = 0;
    return [
      ...this.#bounds.map((bound, index) => {
        cumulative += buckets[index] ?? 0;
        return { suffix, labels: { ...labels, le: String(bound) }, value: cumulative };
      }),
      { suffix, labels: { ...labels, le: "+Inf" }, value: count },
      { suffix: "_sum", labels, value: sumSeconds },
      { suffix: "_count", labels, value: count },
    ];
  }
}
