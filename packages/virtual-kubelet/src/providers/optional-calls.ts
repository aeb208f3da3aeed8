import { optionalCalls, type OptionalCalls, type PodProvider } from "../pod-provider.ts";

/** The optional calls that do not belong to the kubelet API, without those that change a pod. */
const otherCalls = ["admit", "resume", "podAllocatable", "metricFamilies"] as const;
const flags = ["readsEnvFiles", "holdsBackContainers"] as const;

/** The optional parts of a provider that one that wraps it passes on. */
export type OptionalParts = OptionalCalls &
  Pick<PodProvider, (typeof otherCalls)[number] | (typeof flags)[number]>;

/** A provider's optional calls, bound to it. Unsupported calls are absent. */
export function boundOptionalCalls(provider: OptionalCalls): OptionalCalls {
  return {
    ...bound(provider, optionalCalls),
    ...(provider.hasLogStreams === true && { hasLogStreams: true }),
  };
}

/** The same, with everything else that is optional, except for `stop` and `finish`. */
export function boundOptionalParts(provider: OptionalParts): OptionalParts {
  return {
    ...boundOptionalCalls(provider),
    ...bound(provider, otherCalls),
    ...Object.fromEntries(flags.flatMap((flag) => (provider[flag] === true ? [[flag, true]] : []))),
  };
}

function bound<K extends keyof OptionalParts>(
  provider: Pick<OptionalParts, K>,
  names: readonly K[],
): Pick<OptionalParts, K> {
  const calls = names.flatMap((name) => {
    const call: unknown = provider[name];
    if (typeof call !== "function") return [];
    const own: unknown = call.bind(provider);
    return [[name, own] as const];
  });
  return Object.fromEntries(calls) as Pick<OptionalParts, K>; // those of the names that there are
}
