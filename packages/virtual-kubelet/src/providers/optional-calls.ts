import { optionalCalls, type OptionalCalls } from "../pod-provider.ts";

/** The optional calls that a provider has, bound to it. Calls that it lacks are absent, which shows what it can do. */
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
