import type { ClientHttp2Session } from "node:http2";

const pingIntervalMs = 5000;
/** Intervals in a row without an answer, after which the peer is gone. */
const maxSilentIntervals = 2;

/**
 * Asks the peer for a sign of life until the connection ends, and ends it without: a machine that vanished sends no packet that
 * would tell. That is noticed 10 to 15 seconds after it vanished.
 *
 * Intervals are counted, and not time: one in which this process itself stood still counts once, however long it was. And what has
 * come meanwhile is read before a connection is given up.
 *
 * @param intervalMs between two questions, milliseconds
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
    // A session that is destroyed may take a while to close, and throws when it is used.
    if (session.destroyed) return;
    if (isAsked) silentIntervals += 1;
    // An immediate runs after the input that has come.
    if (silentIntervals >= maxSilentIntervals) setImmediate(judge);
    isAsked = true;
    session.ping(onAnswer);
  }, intervalMs);
  timer.unref();
  session.once("close", () => clearInterval(timer));
}
