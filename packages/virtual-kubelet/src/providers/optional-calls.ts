import { optionalCalls, type OptionalCalls } from "../pod-provider.ts";

/** The optional calls that a provider has, and only those: by what is there the library tells what it can do. */
export function boundOptionalCalls(provider: OptionalCalls): OptionalCalls {
  const bound = optionalCalls.flatMap((name) => {
    const call: unknown = provider[name];
    return typeof call === "function" ? [[name, call.bind(provider) as unknown] as const] : [];
  });
  return {
    ...Object.fromEntries(bound),
    ...(provider.hasLogStreams === true && { hasLogStreams: true }),
  };
}
