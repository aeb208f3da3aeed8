/** How much of them goes into a message, characters. */
const limit = 500;

/**
 * What a log says went wrong: its last lines that report an error, or else its last line, without
 * time stamps and places in the code. Knows klog's lines (Kubernetes) and zap's JSON (etcd).
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
