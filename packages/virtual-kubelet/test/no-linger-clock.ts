import { systemClock, type Clock } from "@kip/base";

/** How long a connection lets its client read the last bytes, milliseconds. */
const lingerMs = 10_000;

/** The system's clock, on which lingering at the end of a connection takes no time. */
export const noLingerClock: Clock = {
  ...systemClock,
  sleep: async (ms, signal) => (ms === lingerMs ? undefined : await systemClock.sleep(ms, signal)),
};
