import { randomUUID } from "node:crypto";
import { CloudError } from "../../errors.ts";
import { changedVolumes, type Mutant } from "./mutant.ts";

/** Defects of volumes. */
export const volumeMutants: readonly Mutant[] = [
  {
    name: "makes a volume at each request",
    breaks: ["makes one volume for one token", "goes on where an answer was lost"],
    mutate: ({ sound }) => {
      const hidden = changedVolumes(sound, (volume) => ({
        ...volume,
        token: volume.token.split("~")[0] ?? "",
      }));
      return {
        ...hidden,
        createVolume: (request) =>
          hidden.createVolume({ ...request, token: `${request.token}~${randomUUID()}` }),
      };
    },
  },
  {
    name: "makes volumes that are too small",
    breaks: ["makes one volume for one token"],
    mutate: ({ sound }) =>
      changedVolumes(sound, (volume) => ({ ...volume, sizeBytes: volume.sizeBytes - 2 ** 20 })),
  },
  {
    name: "makes a small volume where none can be",
    breaks: ["refuses a volume that cannot be"],
    mutate: ({ sound }) => ({
      createVolume: (request) =>
        sound.createVolume({
          ...request,
          sizeBytes: Math.max(2 ** 20, Math.floor(request.sizeBytes) || 0),
        }),
    }),
  },
  {
    name: "makes a volume whatever its tags are",
    breaks: ["refuses a volume that cannot be"],
    mutate: ({ sound }) => ({
      createVolume: (request) => sound.createVolume({ ...request, tags: {} }),
    }),
  },
  {
    name: "gives all volumes the same serial",
    breaks: ["gives each volume a serial of its own"],
    mutate: ({ sound }) => changedVolumes(sound, (volume) => ({ ...volume, serial: "volume1" })),
  },
  {
    name: "names the volume's serial as no disk has it",
    breaks: ["shows a guest the disk by its serial"],
    mutate: ({ sound }) =>
      changedVolumes(sound, (volume) => ({ ...volume, serial: volume.serial.toUpperCase() })),
  },
  {
    name: "takes a volume from the instance that has it",
    breaks: ["lets one instance at a time have a volume"],
    mutate: ({ sound }) => ({
      attachVolume: async (id, instanceId) => {
        const volume = (await sound.listVolumes()).find((each) => each.id === id);
        if (volume?.attachedTo !== undefined) await sound.detachVolume(id, volume.attachedTo);
        await sound.attachVolume(id, instanceId);
      },
    }),
  },
  {
    name: "deletes a volume that an instance has",
    breaks: ["lets one instance at a time have a volume"],
    mutate: ({ sound }) => ({
      deleteVolume: async (id) => {
        const volume = (await sound.listVolumes()).find((each) => each.id === id);
        if (volume?.attachedTo !== undefined) await sound.detachVolume(id, volume.attachedTo);
        await sound.deleteVolume(id);
      },
    }),
  },
  {
    name: "detaches a volume from any instance that has it",
    breaks: ["lets one instance at a time have a volume"],
    mutate: ({ sound }) => ({
      detachVolume: async (id) => {
        const volume = (await sound.listVolumes()).find((each) => each.id === id);
        if (volume?.attachedTo !== undefined) await sound.detachVolume(id, volume.attachedTo);
      },
    }),
  },
  {
    name: "cannot detach twice",
    breaks: ["attaches and detaches while the instance runs", "goes on where an answer was lost"],
    mutate: ({ sound }) => ({
      detachVolume: async (id, instanceId) => {
        const volume = (await sound.listVolumes()).find((each) => each.id === id);
        if (volume?.attachedTo !== instanceId)
          throw new CloudError("CLOUD_NOT_FOUND", "Cannot detach the volume: it is not attached");
        await sound.detachVolume(id, instanceId);
      },
    }),
  },
  {
    name: "cannot attach twice",
    breaks: ["attaches and detaches while the instance runs", "goes on where an answer was lost"],
    mutate: ({ sound }) => ({
      attachVolume: async (id, instanceId) => {
        const volume = (await sound.listVolumes()).find((each) => each.id === id);
        if (volume?.attachedTo !== undefined)
          throw new CloudError("CLOUD_INVALID_REQUEST", "Cannot attach the volume: it is attached");
        await sound.attachVolume(id, instanceId);
      },
    }),
  },
  {
    name: "attaches to what does not exist",
    breaks: ["knows what cannot be attached"],
    mutate: ({ sound }) => ({
      attachVolume: async (id, instanceId) => {
        if (await sound.describe(instanceId)) await sound.attachVolume(id, instanceId);
      },
    }),
  },
  {
    name: "leaves volumes with instances that are gone",
    breaks: [
      "takes volumes from an instance that is ended",
      "takes volumes from an instance that dies",
    ],
    mutate: ({ sound, notes }) => ({
      attachVolume: async (id, instanceId) => {
        await sound.attachVolume(id, instanceId);
        notes.set(id, instanceId);
      },
      detachVolume: async (id, instanceId) => {
        await sound.detachVolume(id, instanceId);
        if (notes.get(id) === instanceId) notes.delete(id);
      },
      listVolumes: async () =>
        (await sound.listVolumes()).map((volume) => {
          const attachedTo = notes.get(volume.id);
          return { ...volume, attachedTo };
        }),
    }),
  },
  {
    name: "lists only volumes that its own process made",
    breaks: ["attaches and detaches while the instance runs"],
    mutate: ({ sound }) => {
      const own = new Set<string>();
      return {
        createVolume: async (request) => {
          const volume = await sound.createVolume(request);
          own.add(volume.id);
          return volume;
        },
        listVolumes: async () => (await sound.listVolumes()).filter(({ id }) => own.has(id)),
      };
    },
  },
  {
    name: "lists other owners' volumes",
    breaks: ["hides volumes of other owners"],
    mutate: ({ sound, stranger }) => ({
      listVolumes: async () => [...(await sound.listVolumes()), ...(await stranger.listVolumes())],
    }),
  },
  {
    name: "deletes other owners' volumes",
    breaks: ["hides volumes of other owners"],
    mutate: ({ sound, stranger }) => ({
      deleteVolume: async (id) => {
        await stranger.deleteVolume(id);
        await sound.deleteVolume(id);
      },
    }),
  },
  {
    name: "wipes a volume when it is detached",
    breaks: ["shows a guest the disk by its serial, and another what is on it"],
    mutate: ({ sound, cloud }) => ({
      detachVolume: async (id, instanceId) => {
        const volume = (await sound.listVolumes()).find((each) => each.id === id);
        if (volume?.attachedTo === instanceId) cloud.write(instanceId, volume.serial, "");
        await sound.detachVolume(id, instanceId);
      },
    }),
  },
  {
    name: "says that a volume is attached, and gives no disk",
    breaks: ["shows a guest the disk by its serial, and another what is on it"],
    mutate: ({ sound }) => ({
      attachVolume: async () => await Promise.resolve(),
      listVolumes: () => sound.listVolumes(),
    }),
  },
];
