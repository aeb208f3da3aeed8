import { ContainerProbes } from "../checks/container-probes.ts";
import { present, recordOf, targetOf, type Executor } from "./step-tools.ts";

/** Probes a container as long as its run lasts. */
export const probe: Executor<"probe"> = async (
  { container, runId, isStopping },
  context,
  tools,
) => {
  const { state, change, signal, onReplanned } = context;
  const { events, clock, probeCounts } = tools;
  const { desired, saved } = recordOf(state(), container);
  const probes = new ContainerProbes({
    container: desired,
    target: targetOf(runId, present(state().desired), tools),
    startedAtMs: saved.run?.startedAtMs ?? clock.now(),
    isStarted: saved.started,
    events,
    clock,
    signal,
    listener: {
      started: () => change({ kind: "startupPassed", container }),
      ready: (isReady) => change({ kind: "readiness", container, isReady }),
      probed: (kind, isSuccess) => probeCounts.add(container, kind, isSuccess),
      failed: (kind, graceSeconds) => {
        const cause = { kind: "probe", probe: kind, graceSeconds } as const;
        change({ kind: "killWanted", container, cause });
      },
    },
  });
  if (isStopping) probes.endKilling();
  onReplanned((step) => {
    if (step.isStopping) probes.endKilling();
  });
  await probes.run();
  return undefined;
};
