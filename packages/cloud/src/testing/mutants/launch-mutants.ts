import { randomUUID } from "node:crypto";
import { CloudError } from "../../errors.ts";
import { changedInstances, markedTokens, type Mutant } from "./mutant.ts";

/** Defects of launches and of the instances that calls return. */
export const launchMutants: readonly Mutant[] = [
  {
    name: "launches once more at each request",
    breaks: ["gives one instance for one token", "finds an instance whose launch was not answered"],
    mutate: ({ sound }) => markedTokens(sound, randomUUID),
  },
  {
    name: "knows tokens in its own process only",
    breaks: ["gives one instance for one token", "finds running instances again after a restart"],
    mutate: ({ sound }) => {
      const own = randomUUID();
      return markedTokens(sound, () => own);
    },
  },
  {
    name: "refuses a token when the request differs",
    breaks: ["gives the instance of a token whatever else is asked for"],
    mutate: ({ sound }) => ({
      launch: async (request, signal) => {
        const known = (await sound.list()).find(({ token }) => token === request.token);
        if (known && known.name !== request.name)
          throw new CloudError("CLOUD_INVALID_REQUEST", "Cannot launch: parameters differ");
        return await sound.launch(request, signal);
      },
    }),
  },
  {
    name: "gives the dead instance of a token",
    breaks: ["gives a token a new instance once the one before is gone"],
    mutate: ({ sound, notes }) => ({
      launch: async (request, signal) => {
        const known = notes.get(request.token);
        if (known !== undefined) return { ...(await sound.launch(request, signal)), id: known };
        const instance = await sound.launch(request, signal);
        notes.set(request.token, instance.id);
        return instance;
      },
    }),
  },
  {
    name: "tries capacity before it looks for the token",
    breaks: ["gives the instance of a token for which there is no longer capacity"],
    mutate: ({ sound }) => ({
      launch: async (request, signal) => {
        const probe = await sound.launch({ ...request, token: randomUUID() }, signal);
        await sound.terminate(probe.id);
        return await sound.launch(request, signal);
      },
    }),
  },
  {
    name: "launches for a caller who has gone",
    breaks: ["starts nothing for a caller who has gone"],
    mutate: ({ sound }) => ({ launch: (request) => sound.launch(request) }),
  },
  {
    name: "forgets tags",
    breaks: ["brings an instance up", "keeps tags to the letter"],
    mutate: ({ sound }) => changedInstances(sound, (instance) => ({ ...instance, tags: {} })),
  },
  {
    name: "keeps only plain characters of tags",
    breaks: ["keeps tags to the letter"],
    mutate: ({ sound }) => ({
      launch: ({ tags, ...request }, signal) => {
        const plain = JSON.stringify(tags).replace(/[^ -~]/g, "?");
        return sound.launch({ ...request, tags: JSON.parse(plain) as typeof tags }, signal); // same type as before
      },
    }),
  },
  {
    name: "cuts long tags instead of refusing them",
    breaks: ["refuses what can never work"],
    mutate: ({ sound }) => ({
      launch: ({ tags, ...request }, signal) => {
        const cut = Object.entries(tags).map(([key, value]) => [
          key.slice(0, 127) || "none",
          value.slice(0, 255),
        ]);
        return sound.launch({ ...request, tags: Object.fromEntries(cut.slice(0, 40)) }, signal);
      },
    }),
  },
  {
    name: "cuts long user data",
    breaks: ["refuses what can never work"],
    mutate: ({ sound }) => ({
      launch: (request, signal) =>
        sound.launch({ ...request, userData: request.userData.slice(0, 8000) }, signal),
    }),
  },
  {
    name: "takes user data for text",
    breaks: ["gives an instance its user data byte by byte"],
    mutate: ({ sound }) => ({
      launch: (request, signal) => {
        const userData = Buffer.from(Buffer.from(request.userData).toString());
        return sound.launch({ ...request, userData: userData.subarray(0, 16_000) }, signal);
      },
    }),
  },
  {
    name: "takes another type where there is none of this name",
    breaks: ["refuses what can never work"],
    mutate: ({ sound }) => ({
      launch: async (request, signal) => {
        const names = (await sound.instanceTypes()).map(({ name }) => name);
        const instanceType = names.find((name) => name === request.instanceType) ?? names[0] ?? "";
        return await sound.launch({ ...request, instanceType }, signal);
      },
    }),
  },
  {
    name: "gives instance and pod one address",
    breaks: ["gives each instance two addresses of its own"],
    mutate: ({ sound }) =>
      changedInstances(sound, (instance) => ({
        ...instance,
        podIp: instance.managementIp,
      })),
  },
  {
    name: "gives every instance the same address",
    breaks: ["gives each instance two addresses of its own"],
    mutate: ({ sound }) =>
      changedInstances(sound, (instance) => ({ ...instance, managementIp: "10.0.0.9" })),
  },
  {
    name: "gives addresses of another network",
    breaks: ["gives instances addresses of the network it names"],
    mutate: () => ({
      networkFacts: async () =>
        await Promise.resolve({ nameservers: [], searchDomains: [], cidrs: ["192.0.2.0/24"] }),
    }),
  },
  {
    name: "gives everyone a public address",
    breaks: ["gives no public address to an instance that wants none"],
    mutate: ({ sound }) => ({
      launch: (request, signal) => sound.launch({ ...request, privateIpOnly: false }, signal),
    }),
  },
  {
    name: "launches on demand whatever is asked for",
    breaks: ["says which launch type has no capacity"],
    mutate: ({ sound }) => ({
      launch: (request, signal) => sound.launch({ ...request, launchType: "on-demand" }, signal),
    }),
  },
  {
    name: "gives every instance the image's root disk",
    breaks: ["gives a root disk as large as asked for"],
    mutate: ({ sound }) => ({
      launch: (request, signal) => sound.launch({ ...request, rootDiskBytes: 0 }, signal),
    }),
  },
  {
    name: "keeps tags that it should replace",
    breaks: ["gives an instance other tags"],
    mutate: ({ sound }) => ({
      setTags: async (id, tags) =>
        await sound.setTags(id, { ...(await sound.describe(id))?.tags, ...tags }),
    }),
  },
  {
    name: "tags what is not there",
    breaks: ["refuses to tag what is not there"],
    mutate: ({ sound }) => ({
      setTags: async (id, tags) => {
        if (await sound.describe(id)) await sound.setTags(id, tags);
      },
    }),
  },
  {
    name: "never lets a root disk grow",
    breaks: ["lets the root disk of a running instance grow"],
    mutate: ({ sound }) => ({
      growRootDisk: async (id) => {
        if (!(await sound.describe(id))) throw new CloudError("CLOUD_NOT_FOUND", "It is gone");
      },
    }),
  },
  {
    name: "adds what was asked for to a root disk",
    breaks: ["lets the root disk of a running instance grow"],
    mutate: ({ sound, cloud }) => ({
      growRootDisk: (id, bytes) => sound.growRootDisk(id, cloud.hardware(id).rootBytes + bytes),
    }),
  },
  {
    name: "grows any size into one that can be",
    breaks: ["refuses to grow the root disk of what is gone"],
    mutate: ({ sound }) => ({
      growRootDisk: (id, bytes) =>
        sound.growRootDisk(id, Math.max(2 ** 20, Math.floor(bytes) || 0)),
    }),
  },
];
