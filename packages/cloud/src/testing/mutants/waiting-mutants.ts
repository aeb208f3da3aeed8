import { setTimeout } from "node:timers/promises";
import type { CloudDriver, Instance, InterruptionNotice } from "../../cloud-driver.ts";
import type { Mutant } from "./mutant.ts";

/** Defects of waiting and of notifications. */
export const waitingMutants: readonly Mutant[] = [
  {
    name: "looks now and then whether an instance is gone",
    breaks: ["asks the cloud nothing while it waits"],
    mutate: ({ sound }) => ({
      waitForTerminated: async (id, signal) => {
        for (;;) {
          signal?.throwIfAborted();
          if (!(await sound.describe(id))) return;
          await setTimeout(30, undefined, { ref: false });
        }
      },
    }),
  },
  {
    name: "looks seldom whether an instance is gone",
    breaks: ["hears of an end as fast as the end itself is"],
    mutate: ({ sound }) => ({
      waitForTerminated: async (id) => {
        while (await sound.describe(id)) await setTimeout(60_000, undefined, { ref: false });
      },
    }),
  },
  {
    name: "takes an instance for gone once it was asked to end",
    breaks: ["tells all who wait that an instance is gone", "brings an instance up"],
    mutate: () => ({ waitForTerminated: async () => await Promise.resolve() }),
  },
  {
    name: "takes an instance for running once it was launched",
    breaks: ["tells all who wait that an instance runs"],
    mutate: ({ sound }) => ({
      waitForRunning: async (id, signal) =>
        (await sound.describe(id)) ?? (await sound.waitForRunning(id, signal)),
    }),
  },
  {
    name: "keeps a waiter whose signal aborts",
    breaks: ["lets a waiter go when its signal aborts"],
    mutate: ({ sound }) => ({ waitForTerminated: (id) => sound.waitForTerminated(id) }),
  },
  {
    name: "waits for what never was",
    breaks: ["waits for nothing that is gone", "ends an instance twice"],
    mutate: ({ sound }) => ({
      waitForTerminated: async (id, signal) => {
        if (await sound.describe(id)) await sound.waitForTerminated(id, signal);
        else await new Promise(() => {});
      },
    }),
  },
  {
    name: "tells of no end",
    breaks: ["reports an unexpected end to every process"],
    mutate: () => ({ onTerminated: () => () => {} }),
  },
  {
    name: "tells of an end in the process that launched only",
    breaks: ["reports an unexpected end to every process"],
    mutate: ({ sound }) => {
      const own = new Set<string>();
      return {
        launch: async (request, signal) => {
          const instance = await sound.launch(request, signal);
          own.add(instance.id);
          return instance;
        },
        onTerminated: (callback) =>
          sound.onTerminated((instance) => own.has(instance.id) && callback(instance)),
      };
    },
  },
  {
    name: "tells of ends on purpose too",
    breaks: ["says nothing of instances that were ended on purpose"],
    mutate: ({ sound }) => {
      const listeners = new Set<(instance: Instance) => void>();
      return {
        onTerminated: (callback) => {
          listeners.add(callback);
          return sound.onTerminated(callback);
        },
        terminate: async (id) => {
          const instance = await sound.describe(id);
          await sound.terminate(id);
          if (instance) for (const listener of listeners) listener(instance);
        },
      };
    },
  },
  {
    name: "tells of an end without a reason",
    breaks: ["reports an unexpected end to every process"],
    mutate: ({ sound }) => ({
      onTerminated: (callback) =>
        sound.onTerminated((instance) => callback({ ...instance, stateReason: "" })),
    }),
  },
  {
    name: "goes on telling one who has unsubscribed",
    breaks: ["reports an unexpected end to every process"],
    mutate: ({ sound }) => ({
      onTerminated: (callback) => {
        sound.onTerminated(callback);
        return () => {};
      },
    }),
  },
  {
    name: "tells one owner of another's instances",
    breaks: ["tells an owner nothing of another's instances"],
    mutate: ({ sound, stranger }) => ({
      onTerminated: (callback) => {
        stranger.onTerminated(callback);
        return sound.onTerminated(callback);
      },
    }),
  },
  {
    name: "loses notices",
    breaks: ["tells every process once that an instance will be taken back"],
    mutate: () => ({ onInterruption: () => () => {} }),
  },
  {
    name: "loses notices that were given before",
    breaks: ["tells a process that comes later, as after a restart"],
    mutate: ({ sound }) => ({ onInterruption: (callback) => onlyLater(sound, callback) }),
  },
  {
    name: "gives each notice twice",
    breaks: ["tells every process once that an instance will be taken back"],
    mutate: ({ sound }) => ({
      onInterruption: (callback) =>
        sound.onInterruption((notice) => {
          callback(notice);
          callback(notice);
        }),
    }),
  },
  {
    name: "gives a notice without a time",
    breaks: ["tells every process once that an instance will be taken back"],
    mutate: ({ sound }) => ({
      onInterruption: (callback) =>
        sound.onInterruption((notice) => callback({ ...notice, endsAt: "soon" })),
    }),
  },
  {
    name: "remembers notices of instances that are gone",
    breaks: ["forgets the notice of an instance that was ended before"],
    mutate: ({ sound, notes }) => ({
      onInterruption: (callback) => {
        const known = notes.get("notice");
        if (known !== undefined) callback(JSON.parse(known) as InterruptionNotice); // written below
        return sound.onInterruption((notice) => {
          notes.set("notice", JSON.stringify(notice));
          callback(notice);
        });
      },
    }),
  },
];

function onlyLater(sound: CloudDriver, callback: (notice: InterruptionNotice) => void): () => void {
  let isLater = false;
  const stop = sound.onInterruption((notice) => isLater && callback(notice));
  queueMicrotask(() => (isLater = true)); // after earlier notices
  return stop;
}
