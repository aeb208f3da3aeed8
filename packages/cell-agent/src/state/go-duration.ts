/** A duration as Go prints it, in whole milliseconds: `850ms`, `1.204s`, `1m20s`, `1h0m0.5s`. */
export function goDuration(ms: number): string {
  const whole = Math.trunc(ms);
  if (whole < 1000) return whole === 0 ? "0s" : `${whole}ms`;
  const seconds = `${(whole % 60_000) / 1000}s`;
  const minutes = Math.trunc(whole / 60_000);
  if (minutes === 0) return seconds;
  return minutes < 60
    ? `${minutes}m${seconds}`
    : `${Math.trunc(minutes / 60)}h${minutes % 60}m${seconds}`;
}
