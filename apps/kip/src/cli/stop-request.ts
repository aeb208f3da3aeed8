/** Aborts when this process is asked to end: by SIGINT, SIGTERM, or a call of `abort()`. */
export function stopRequest(): AbortController {
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.once(signal, () => stop.abort(new Error(`${signal} received`)));
  return stop;
}
