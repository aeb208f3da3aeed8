/** Longest part of a log in a message, characters. */
const limit = 500;

/**
 * A log's last lines that report an error, or else its last line, without timestamps and source locations. Supports klog's
 * format (Kubernetes) and zap's JSON (etcd).
 */
export function lastErrorLines(log: string): string {
  const lines = log.trimEnd().split("\n").slice(-40);
  const errors = lines.filter((line) => /^[EF]\d{4} |"level":"(error|fatal)"|"error":/.test(line));
  const chosen = errors.length > 0 ? errors.slice(-2) : lines.slice(-1);
  return chosen.map(plain).join("; ").slice(-limit);
}

function plain(line: string): string {
  const klog = /^[IWEF]\d{4} \S+\s+\d+ \S+\] (.*)$/.exec(line);
  if (klog) return klog[1] ?? line;
  const message = /"msg":"((?:[^"\\]|\\.)*)"/.exec(line)?.[1];
  const error = /"error":"((?:[^"\\]|\\.)*)"/.exec(line)?.[1];
  const parts = [message, error].filter((part) => part !== undefined);
  return parts.length > 0 ? parts.join(": ").replaceAll('\\"', '"') : line;
}
