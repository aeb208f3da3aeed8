/** One action for a cell; each is safe to repeat. */
export type CellStep =
  | { readonly kind: "createCell" }
  | { readonly kind: "observeInstance" }
  | { readonly kind: "launch" }
  | { readonly kind: "awaitRunning" }
  | { readonly kind: "connect" }
  | { readonly kind: "dispatch" }
  | { readonly kind: "drain"; readonly graceSeconds: number }
  /** The pod's last cell is gone, and the pod has ended with it. */
  | { readonly kind: "endPod" }
  /** Write how the pod ended into its Cell. */
  | { readonly kind: "recordEnd" }
  | { readonly kind: "saveLogs" }
  | { readonly kind: "terminate" }
  /** Keep the Cell, whose instance is gone, until the API has the pod's end. */
  | { readonly kind: "awaitEndInApi" }
  | { readonly kind: "deleteCell"; readonly isLost: boolean }
  /** Wait for an event. */
  | { readonly kind: "wait" }
  /** Pod and cell are settled. */
  | { readonly kind: "done" };
