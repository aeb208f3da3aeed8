/** The calls of the port that ask the cloud for something: all but subscriptions and the end of a driver. */
export const cloudOperations = [
  "instanceTypes",
  "resolveImage",
  "launch",
  "waitForRunning",
  "waitForTerminated",
  "terminate",
  "growRootDisk",
  "setTags",
  "describe",
  "list",
  "consoleOutput",
  "networkFacts",
  "createVolume",
  "deleteVolume",
  "attachVolume",
  "detachVolume",
  "listVolumes",
] as const;

/** @see cloudOperations */
export type CloudOperation = (typeof cloudOperations)[number];
