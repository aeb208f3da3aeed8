import { createSimulatedCloud, type SimulatedCloud } from "../simulated/simulated-cloud.ts";
import type { SimulatedCloudOptions } from "../simulated/simulated-cloud-options.ts";
import type { CloudConformanceOptions, ConformanceGuest } from "./bench/conformance-options.ts";

/** Options for running the suite against a simulated cloud. */
export function simulatedConformance(
  options: SimulatedCloudOptions = {},
): CloudConformanceOptions & { readonly simulated: SimulatedCloud } {
  const times = { callMs: { minMs: 0, maxMs: 3 }, startMs: { minMs: 0, maxMs: 9 }, stopMs: 5 };
  const userData = new Map<string, Uint8Array>();
  const boot: SimulatedCloudOptions["boot"] = (machine) => {
    userData.set(machine.instance.id, machine.userData);
    return options.boot?.(machine);
  };
  const simulated = createSimulatedCloud({ ...times, ...options, boot });
  return {
    simulated,
    open: async () => await Promise.resolve(simulated.open({ owner: "tests" })),
    openAsStranger: async () => await Promise.resolve(simulated.open({ owner: "stranger" })),
    imageSpec: { name: "cell" },
    consoleText: /Simulated instance/,
    faults: simulated.faults,
    guest: guestOf(simulated),
    userDataOf: async ({ id }) => await Promise.resolve(userData.get(id) ?? new Uint8Array()),
    callCount: () => simulated.callCount(),
    schedules: { count: 10, steps: 20 },
    timeoutMs: 20_000,
  };
}

/** The guest writes its name to empty disks whenever the suite looks at it. */
function guestOf(simulated: SimulatedCloud): ConformanceGuest {
  return {
    imageSpec: { name: "cell" },
    look: async ({ id, name }) => {
      for (const { serial, content } of simulated.hardware(id).disks)
        if (content === "") simulated.write(id, serial, name);
      return await Promise.resolve(simulated.hardware(id));
    },
  };
}
