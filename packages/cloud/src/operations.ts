/** The calls of the port that reach the cloud: all except subscriptions and disposal. */
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
