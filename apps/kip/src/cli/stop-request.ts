/** Aborts when this process gets SIGINT or SIGTERM, or when the caller calls `abort()`. */
export function stopRequest(): AbortController {
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.once(signal, () => stop.abort(new Error(`${signal} received`)));
  return stop;
}
