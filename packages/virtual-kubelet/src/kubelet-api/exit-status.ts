import type { Status } from "@kip/k8s-types";

/** The final message of the error stream of an exec or attach. */
export type CommandOutcome =
  | { readonly kind: "success" }
  | { readonly kind: "exit"; readonly exitCode: number }
  | { readonly kind: "failure"; readonly message: string };

/** The outcome as a Kubernetes Status, for `v4.channel.k8s.io` and later. */
export function outcomeStatus(outcome: CommandOutcome): Status {
  switch (outcome.kind) {
    case "success":
      return { metadata: {}, status: "Success" };
    case "exit":
      return {
        metadata: {},
        status: "Failure",
        message: outcomeText(outcome),
        reason: "NonZeroExitCode",
        details: { causes: [{ reason: "ExitCode", message: String(outcome.exitCode) }] },
      };
    default:
      return {
        metadata: {},
        status: "Failure",
        message: outcomeText(outcome),
        reason: "InternalError",
        details: { causes: [{ message: outcome.message }] },
        code: 500,
      };
  }
}

/** The outcome as text, for protocols before `v4.channel.k8s.io`. Empty for success. */
export function outcomeText(outcome: CommandOutcome): string {
  switch (outcome.kind) {
    case "success":
      return "";
    case "exit":
      return `command terminated with non-zero exit code: exit status ${outcome.exitCode}`;
    default:
      return `Internal error occurred: ${outcome.message}`;
  }
}
