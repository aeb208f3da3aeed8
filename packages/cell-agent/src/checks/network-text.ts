import { errorText } from "@kip/base";

/** Why a connection failed, in the words of Go's network library, which a kubelet shows. */
export function networkText(error: unknown, signal: AbortSignal, prefix?: string): string {
  if (signal.aborted)
    return prefix === undefined
      ? "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
      : `${prefix}: i/o timeout`;
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  const where =
    error instanceof Error && "address" in error && "port" in error
      ? `dial tcp ${String(error.address)}:${String(error.port)}`
      : (prefix ?? "");
  const words: Readonly<Record<string, string>> = {
    ECONNREFUSED: "connect: connection refused",
    EHOSTUNREACH: "connect: no route to host",
    ECONNRESET: "read: connection reset by peer",
  };
  const text = words[code] ?? errorText(error);
  return where === "" ? text : `${where}: ${text}`;
}
