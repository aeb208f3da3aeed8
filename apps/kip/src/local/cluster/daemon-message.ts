/** Messages that the daemon sends to `kip up` while it starts. */
export type DaemonMessage =
  | { readonly kind: "progress"; readonly text: string }
  | { readonly kind: "ready" }
  | { readonly kind: "failed"; readonly message: string; readonly remedy: string | undefined };
