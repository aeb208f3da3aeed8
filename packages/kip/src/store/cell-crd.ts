const text = { type: "string" };
const integer = { type: "integer", format: "int64" };
const boolean = { type: "boolean" };
/** The API server writes null for an unknown time. */
const time = { ...text, format: "date-time", nullable: true };

/** Quantities by resource name. */
const amounts = { type: "object", additionalProperties: text };

const terminated = {
  type: "object",
  required: ["exitCode"],
  properties: {
    exitCode: integer,
    signal: integer,
    reason: text,
    message: text,
    startedAt: time,
    finishedAt: time,
    containerID: text,
  },
};
const containerState = {
  type: "object",
  properties: {
    waiting: { type: "object", properties: { reason: text, message: text } },
    running: { type: "object", properties: { startedAt: time } },
    terminated,
  },
};
const containerStatuses = {
  type: "array",
  items: {
    type: "object",
    required: ["name"],
    properties: {
      name: text,
      state: containerState,
      lastState: containerState,
      ready: boolean,
      started: boolean,
      restartCount: integer,
      image: text,
      imageID: text,
      containerID: text,
      allocatedResources: amounts,
      resources: { type: "object", properties: { limits: amounts, requests: amounts } },
    },
  },
};
const podEnd = {
  type: "object",
  required: ["phase"],
  properties: {
    phase: { type: "string", enum: ["Succeeded", "Failed"] },
    reason: text,
    message: text,
    initContainerStatuses: containerStatuses,
    containerStatuses,
    ephemeralContainerStatuses: containerStatuses,
  },
};
const endedContainer = {
  type: "object",
  required: ["exitCode"],
  properties: { exitCode: integer, reason: text, startedAt: time, finishedAt: time },
};

const conditions = {
  type: "array",
  "x-kubernetes-list-type": "map",
  "x-kubernetes-list-map-keys": ["type"],
  items: {
    type: "object",
    required: ["type", "status"],
    properties: {
      type: text,
      status: { type: "string", enum: ["True", "False", "Unknown"] },
      reason: text,
      message: text,
      lastTransitionTime: time,
    },
  },
};
/** Fields of the spec that the original had in the status, for scripts of its users that read them there. */
const originalStatus = {
  podName: text,
  podNamespace: text,
  node: text,
  launchType: text,
  instanceType: text,
  controllerID: text,
};

/** A standby cell gets its pod once. Nothing else in a spec changes. */
const specRules = [
  {
    rule: "has(self.podRef) || (has(self.standby) && self.standby)",
    message: "a cell has a pod, or stands by for one",
  },
  {
    rule: `self == oldSelf || (!has(oldSelf.podRef) && has(self.podRef) && ${[
      "nodeName",
      "controllerID",
      "instanceType",
      "launchType",
      "image",
      "privateIPOnly",
      "standby",
    ]
      .map((name) => `self.${name} == oldSelf.${name}`)
      .join(" && ")} && self.rootDiskBytes >= oldSelf.rootDiskBytes && ${[
      "zone",
      "instanceProfile",
      "securityGroups",
      "routes",
    ]
      .map(
        (name) =>
          `has(self.${name}) == has(oldSelf.${name}) && (!has(self.${name}) || self.${name} == oldSelf.${name})`,
      )
      .join(" && ")})`,
    message:
      "the spec of a cell never changes, except that a standby cell gets its pod once, and perhaps a larger disk",
  },
];

/**
 * The CustomResourceDefinition of cells. Group, version, names and the first seven columns are those of the original Kip.
 * PHASE, PRICE and AGE are new.
 */
export const cellCrd = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "cells.kip.elotl.co" },
  spec: {
    group: "kip.elotl.co",
    scope: "Cluster",
    names: { kind: "Cell", plural: "cells", singular: "cell", shortNames: ["cl"] },
    versions: [
      {
        name: "v1beta1",
        served: true,
        storage: true,
        subresources: { status: {} },
        additionalPrinterColumns: [
          { name: "Pod Name", type: "string", jsonPath: ".spec.podRef.name" },
          { name: "Pod Namespace", type: "string", jsonPath: ".spec.podRef.namespace" },
          { name: "Node", type: "string", jsonPath: ".spec.nodeName" },
          { name: "Launch Type", type: "string", jsonPath: ".spec.launchType" },
          { name: "Instance Type", type: "string", jsonPath: ".spec.instanceType" },
          { name: "Instance ID", type: "string", jsonPath: ".status.instanceID" },
          { name: "IP", type: "string", jsonPath: ".status.ip" },
          { name: "Phase", type: "string", jsonPath: ".status.phase" },
          { name: "Price", type: "number", jsonPath: ".spec.pricePerHour" },
          { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
          { name: "Zone", type: "string", priority: 1, jsonPath: ".spec.zone" },
          { name: "Standby", type: "boolean", priority: 1, jsonPath: ".spec.standby" },
          {
            name: "Reason",
            type: "string",
            priority: 1,
            jsonPath: '.status.conditions[?(@.type=="Ready")].reason',
          },
        ],
        schema: {
          openAPIV3Schema: {
            type: "object",
            required: ["spec"],
            properties: {
              spec: {
                type: "object",
                required: ["nodeName", "controllerID", "instanceType", "launchType", "image"],
                properties: {
                  podRef: {
                    type: "object",
                    required: ["namespace", "name", "uid"],
                    properties: { namespace: text, name: text, uid: text },
                  },
                  nodeName: text,
                  controllerID: text,
                  instanceType: text,
                  launchType: { type: "string", enum: ["on-demand", "spot", "dedicated"] },
                  zone: text,
                  image: text,
                  rootDiskBytes: integer,
                  launchedDiskBytes: integer,
                  privateIPOnly: { type: "boolean" },
                  instanceProfile: { ...text, maxLength: 1024 },
                  securityGroups: {
                    type: "array",
                    maxItems: 16,
                    items: { ...text, maxLength: 255 },
                  },
                  routes: { type: "array", maxItems: 16, items: { ...text, maxLength: 64 } },
                  pricePerHour: { type: "number" },
                  standby: boolean,
                  attempt: integer,
                  restartCounts: { type: "object", additionalProperties: integer },
                  ended: { type: "object", additionalProperties: endedContainer },
                },
                "x-kubernetes-validations": specRules,
              },
              status: {
                type: "object",
                properties: {
                  phase: text,
                  instanceID: text,
                  ip: text,
                  podIP: text,
                  startedFrom: text,
                  startMs: { type: "object", additionalProperties: integer },
                  identityExpires: text,
                  bootID: text,
                  reason: text,
                  message: text,
                  conditions,
                  ...originalStatus,
                  podEnd,
                },
              },
            },
          },
        },
      },
    ],
  },
} as const;
