import type { DesiredContainer, DesiredPod } from "@kip/agent-api";

/** A container with the test's settings. */
export function container(
  name: string,
  overrides: Partial<DesiredContainer> = {},
): DesiredContainer {
  return {
    name,
    image: `registry.test/${name}:1`,
    imagePullPolicy: "IfNotPresent",
    env: [],
    mounts: [],
    terminationMessagePath: "/dev/termination-log",
    terminationMessagePolicy: "File",
    ...overrides,
  };
}

/** A pod with one container "web", unless the test says otherwise. */
export function desiredPod(overrides: Partial<DesiredPod> = {}): DesiredPod {
  return {
    uid: "uid-1",
    namespace: "default",
    name: "pod",
    generation: 1,
    restartPolicy: "Always",
    hostname: "pod",
    hostNetwork: false,
    podIp: "10.0.0.2",
    labels: {},
    annotations: {},
    terminationGracePeriodSeconds: 30,
    resolvConf: "",
    etcHosts: "127.0.0.1 localhost\n",
    initContainers: [],
    containers: [container("web")],
    volumes: [],
    registries: [],
    ...overrides,
  };
}
