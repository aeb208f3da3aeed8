import { optionalCalls, type OptionalCalls } from "../pod-provider.ts";

/** A provider's optional calls, bound to it. Unsupported calls are absent. */
export function boundOptionalCalls(provider: OptionalCalls): OptionalCalls {
  const bound = optionalCalls.flatMap((name) => {
    const call: unknown = provider[name];
    if (typeof call !== "function") return [];
    const bound: unknown = call.bind(provider);
    return [[name, bound] as const];
  });
  return {
    ...Object.fromEntries(bound),
    ...(provider.hasLogStreams === true && { hasLogStreams: true }),
  };
}
