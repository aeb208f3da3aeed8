import type { ContainerStatus, Pod } from "@kip/k8s-types";

type Terminated = NonNullable<NonNullable<ContainerStatus["state"]>["terminated"]>;

/** How a pod has ended, one sentence each: why the pod has, then its containers that failed. Empty if it has not ended. */
export function endTexts({ status }: Pod): readonly string[] {
  const { phase, reason, message } = status ?? {};
  if (phase === "Succeeded") return ["all its containers have completed"];
  if (phase !== "Failed") return [];
  const all = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])];
  const texts = [
    ...(reason === undefined && message === undefined ? [] : [joined(reason, message)]),
    ...all.flatMap(({ name, state }) => {
      const end = state?.terminated;
      return end && end.exitCode !== 0 ? [`container "${name}" ended with ${exitText(end)}`] : [];
    }),
  ];
  return texts.length > 0 ? texts : ["it has failed; its status does not say why"];
}

/** How the last run of each container that runs again has ended. */
export function restartTexts({ status }: Pod): readonly string[] {
  const all = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])];
  return all.flatMap(({ name, restartCount, state, lastState }) => {
    const last = lastState?.terminated;
    if (state?.running === undefined || !last) return [];
    const times = restartCount === 1 ? "once" : `${restartCount} times`;
    return [`container "${name}", ${times}: its last run ended with ${exitText(last)}`];
  });
}

/** The exit code or the signal of a container that has ended, with its reason and message. */
export function exitText({ exitCode, signal, reason, message }: Terminated): string {
  const code = signal ? `signal ${signal}` : `exit code ${exitCode}`;
  return joined(reason === undefined ? code : `${code} (${reason})`, message?.trimEnd());
}

/** Two parts of a sentence, of which each may be missing or empty. */
function joined(...parts: readonly (string | undefined)[]): string {
  return parts.filter((text) => text !== undefined && text !== "").join(": ");
}
