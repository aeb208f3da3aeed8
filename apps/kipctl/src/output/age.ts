/** The time that has passed since then, as kubectl prints it: `45s`, `3m20s`, `2h15m`, `3d4h`. Undefined without a time. */
export function ageText(time: string | undefined, now: number): string | undefined {
  const since = Date.parse(time ?? "");
  return Number.isNaN(since) ? undefined : durationText(now - since);
}

/** A duration as kubectl prints it. Negative ones are `0s`, because clocks differ. */
export function durationText(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  const days = Math.floor(hours / 24);
  if (seconds < 120) return `${seconds}s`;
  if (minutes < 10) return both(minutes, "m", seconds % 60, "s");
  if (minutes < 180) return `${minutes}m`;
  if (hours < 8) return both(hours, "h", minutes % 60, "m");
  if (hours < 48) return `${hours}h`;
  if (days < 8) return both(days, "d", hours % 24, "h");
  return days < 730 ? `${days}d` : both(Math.floor(days / 365), "y", days % 365, "d");
}

function both(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large}${largeUnit}` : `${large}${largeUnit}${small}${smallUnit}`;
}
