import { errorText, type Clock, type Logger } from "@kip/base";
import { wireTime } from "@kip/k8s-client";
import type { StepFailure } from "@kip/reconcile";
import { VirtualKubeletError } from "../errors.ts";
import { providerFailedStatus, waitingStatus } from "./fallback-statuses.ts";
import { hasBegun } from "./pod-facts.ts";
import { isPlanned, type PodStep } from "./pod-plan.ts";
import type { PodState } from "./pod-state.ts";
import type { ProviderProblems } from "./provider-problems.ts";
import type { StatusWriter } from "./status-writer.ts";

/** Options of {@link explainFailure}. */
export interface ExplainFailureOptions {
  readonly state: PodState;
  readonly status: StatusWriter;
  readonly problems: ProviderProblems;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Shows on the pod why its step failed: with an event, a condition, and, if the pod has not started, its status. */
export function explainFailure(
  { step, error, delayMs }: StepFailure<PodStep>,
  { state, status, problems, clock, logger }: ExplainFailureOptions,
): void {
  if (!isPlanned(state, step.kind)) return; // the step is no longer needed, which may be why it failed
  logger.warn(`Could not ${step.kind} a pod`, { delayMs, err: error });
  const { pod } = state.api;
  // A status from the provider, now or before a restart, must not be overwritten.
  const hasBetterStatus = state.provider.hasReported || hasBegun(pod);
  if (VirtualKubeletError.is(error, "VK_UNRESOLVED")) {
    // A pod that was not admitted by this process is one that its provider has.
    if (!hasBetterStatus && state.content.isAdmitted)
      status.write(waitingStatus(pod, error, wireTime(clock.now())));
    return;
  }
  const verb = failedVerb(step, state);
  if (verb === undefined) return;
  const message = errorText(error);
  problems.report(`Provider${verb}Failed`, message);
  if (verb === "Create" && !hasBetterStatus) status.write(providerFailedStatus(pod, message));
}

/** The middle of the event's reason `Provider…Failed`. Undefined for steps whose failures are not shown on the pod. */
function failedVerb(step: PodStep, { content }: PodState): string | undefined {
  switch (step.kind) {
    case "apply":
      return content.applied ? "Update" : "Create";
    case "finish":
      return "Stop";
    case "remove":
      return step.isDeletion ? "Delete" : "Stop";
    case "finalize":
    case "forget":
      return undefined;
    default:
      return step satisfies never;
  }
}
