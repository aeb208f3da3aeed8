import type { Instance } from "../../cloud-driver.ts";
import { cloudOperations } from "../../operations.ts";
import { errorText } from "@kip/base";
import { CloudError, cloudErrorCode } from "../../errors.ts";
import type { Mutant } from "./mutant.ts";

type Call = (...args: readonly unknown[]) => Promise<unknown>;

/** Defects of lists, ownership and errors. */
export const listingMutants: readonly Mutant[] = [
  {
    name: "lists other owners' instances",
    breaks: ["hides instances of other owners"],
    mutate: ({ sound, stranger }) => ({
      list: async () => [...(await sound.list()), ...(await stranger.list())],
    }),
  },
  {
    name: "describes other owners' instances",
    breaks: ["hides instances of other owners"],
    mutate: ({ sound, stranger }) => ({
      describe: async (id) => (await sound.describe(id)) ?? (await stranger.describe(id)),
    }),
  },
  {
    name: "ends other owners' instances",
    breaks: ["hides instances of other owners"],
    mutate: ({ sound, stranger }) => ({
      terminate: async (id) => {
        await stranger.terminate(id);
        await sound.terminate(id);
      },
    }),
  },
  {
    name: "lists only what its own process launched",
    breaks: ["finds running instances again after a restart"],
    mutate: ({ sound }) => {
      const own = new Set<string>();
      return {
        launch: async (request, signal) => {
          const instance = await sound.launch(request, signal);
          own.add(instance.id);
          return instance;
        },
        list: async () => (await sound.list()).filter(({ id }) => own.has(id)),
      };
    },
  },
  {
    name: "shows instances that are gone",
    breaks: ["brings an instance up", "tells all who wait that an instance is gone"],
    mutate: ({ sound }) => {
      const seen = new Map<string, Instance>();
      return {
        describe: async (id) => {
          const instance = await sound.describe(id);
          if (instance) seen.set(id, instance);
          const last = seen.get(id);
          return instance ?? (last && { ...last, state: "terminated" });
        },
        waitForTerminated: async (id, signal) => {
          const last = await sound.describe(id);
          if (last) seen.set(id, last);
          await sound.waitForTerminated(id, signal);
        },
      };
    },
  },
  {
    name: "lists what it knew a moment ago",
    breaks: ["brings an instance up"],
    mutate: ({ sound }) => {
      let known: readonly Instance[] = [];
      return {
        list: async () => {
          const before = known;
          known = await sound.list();
          return before;
        },
      };
    },
  },
  {
    name: "lists nothing when it may not list",
    breaks: ["answers with each code of the closed set"],
    mutate: ({ sound }) => ({ list: async () => await sound.list().catch(() => []) }),
  },
  {
    name: "cannot end what is gone",
    breaks: ["ends an instance twice, at once, and one that never was"],
    mutate: ({ sound }) => ({
      terminate: async (id) => {
        if (!(await sound.describe(id)))
          throw new CloudError("CLOUD_NOT_FOUND", "Cannot end an instance: it does not exist");
        await sound.terminate(id);
      },
    }),
  },
  {
    name: "has one code for all that fails",
    breaks: ["knows what does not exist", "answers with each code of the closed set"],
    mutate: ({ sound }) =>
      Object.fromEntries(
        cloudOperations.map((operation) => {
          const call = sound[operation].bind(sound) as Call; // each is a method of the port
          const blurred: Call = async (...args) => {
            try {
              return await call(...args);
            } catch (cause) {
              throw new CloudError("CLOUD_UNKNOWN", `Cannot do ${operation}`, { cause });
            }
          };
          return [operation, blurred];
        }),
      ),
  },
  {
    name: "does not say what there is no more of",
    breaks: ["says which type has no capacity", "says that the zone has no capacity"],
    mutate: ({ sound }) => ({
      launch: async (request, signal) => {
        try {
          return await sound.launch(request, signal);
        } catch (cause) {
          throw new CloudError(cloudErrorCode(cause), errorText(cause), { cause });
        }
      },
    }),
  },
  {
    name: "says of every shortage that it is the type's",
    breaks: ["says that the zone has no capacity", "says which launch type has no capacity"],
    mutate: ({ sound }) => ({
      launch: async (request, signal) => {
        try {
          return await sound.launch(request, signal);
        } catch (cause) {
          if (!(cause instanceof CloudError) || cause.code !== "CLOUD_NO_CAPACITY") throw cause;
          const scope = { instanceType: request.instanceType };
          throw new CloudError("CLOUD_NO_CAPACITY", cause.message, { cause, scope });
        }
      },
    }),
  },
  {
    name: "repeats a call that was throttled",
    breaks: ["throttles as many calls as asked"],
    mutate: ({ sound }) => ({ list: async () => await sound.list().catch(() => sound.list()) }),
  },
  {
    name: "finds an image for every specification",
    breaks: ["knows what does not exist"],
    mutate: ({ sound }) => ({ resolveImage: () => sound.resolveImage({}) }),
  },
  {
    name: "gives more of the console than was asked for",
    breaks: ["shows the end of the console"],
    mutate: ({ sound }) => ({ consoleOutput: (id) => sound.consoleOutput(id, 4096) }),
  },
  {
    name: "gives the beginning of the console",
    breaks: ["shows the end of the console"],
    mutate: ({ sound }) => ({
      consoleOutput: async (id, most) => (await sound.consoleOutput(id, 4096)).slice(0, most),
    }),
  },
  {
    name: "loses the console of an instance that ended",
    breaks: ["shows the console of an instance that ended by itself"],
    mutate: ({ sound }) => ({
      consoleOutput: async (id, most) => {
        if (await sound.describe(id)) return await sound.consoleOutput(id, most);
        throw new CloudError("CLOUD_NOT_FOUND", "Cannot read the console: it does not exist");
      },
    }),
  },
];
