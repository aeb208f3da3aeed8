import { silentLogger, systemClock } from "@kip/base";
import type { OptionalCalls, PodProvider } from "../pod-provider.ts";
import { pollProvider, type PollOptions } from "../polling/poll-provider.ts";
import { boundOptionalCalls } from "../providers/optional-calls.ts";
import type { MemoryProvider } from "./memory-provider.ts";

/** A {@link MemoryProvider} that is polled instead of reporting by itself. It also has the optional calls of a subclass. */
export function polledVariant(
  memory: MemoryProvider & OptionalCalls,
  options: Partial<PollOptions> = {},
): PodProvider {
  return pollProvider(
    {
      apply: (pod) => memory.apply(pod),
      remove: (pod) => memory.remove(pod),
      removeUnknown: (uid) => memory.removeUnknown(uid),
      presence: (uid) => memory.presence(uid),
      list: () => memory.list(),
      nodeFacts: () => memory.nodeFacts(),
      ping: () => memory.ping(),
      ...boundOptionalCalls(memory),
      status: async ({ metadata }) => memory.statuses.get(metadata.uid),
    },
    { clock: systemClock, logger: silentLogger, intervalMs: 50, ...options },
  );
}
