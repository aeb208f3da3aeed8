import type { ClientHttp2Session } from "node:http2";

const pingIntervalMs = 5000;
/** Number of consecutive intervals without a response after which the peer counts as lost. */
const maxSilentIntervals = 2;

/**
 * Pings the peer until the connection ends, and ends it if there is no response. A machine that vanished sends no packet to
 * close it. It is detected 10 to 15 seconds after it vanished.
 *
 * Counts intervals instead of time. So an interval in which this process itself was blocked counts once, however long it was.
 * Before a connection is given up, pending input is read.
 *
 * @param intervalMs time between two pings, milliseconds
 */
export function keepAlive(session: ClientHttp2Session, intervalMs = pingIntervalMs): void {
  let silentIntervals = 0;
  let isAsked = false;
  const onAnswer = (error: Error | null): void => {
    if (!error) silentIntervals = 0;
  };
  const judge = (): void => {
    if (session.destroyed || silentIntervals < maxSilentIntervals) return;
    const silentMs = maxSilentIntervals * intervalMs;
    session.destroy(new Error(`no answer to pings for ${silentMs} ms`));
  };
  const timer = setInterval(() => {
    // A destroyed session may take a while to close, and throws if it is used.
    if (session.destroyed) return;
    if (isAsked) silentIntervals += 1;
    // An immediate runs after pending input was read.
    if (silentIntervals >= maxSilentIntervals) setImmediate(judge);
    isAsked = true;
    session.ping(onAnswer);
  }, intervalMs);
  timer.unref();
  session.once("close", () => clearInterval(timer));
}
