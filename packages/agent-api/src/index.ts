export {
  AgentClient,
  waitForAgent,
  type AgentClientOptions,
  type AgentLogOptions,
  type AgentProcessExit,
  type WaitForAgentOptions,
} from "./agent-client.ts";
export {
  decodeAgentInfo,
  decodeAgentStats,
  decodeCellIdentity,
  type AgentInfo,
  type AgentStats,
  type CellIdentity,
} from "./agent-info.ts";
export {
  decodeDesiredPod,
  type DesiredContainer,
  type DesiredHook,
  type DesiredPod,
  type DesiredProbe,
  type DesiredRegistry,
  type DesiredVolume,
  type DesiredVolumeMount,
} from "./desired-pod.ts";
export { channels, maxFrameBytes } from "./framing.ts";
export {
  decodePodReport,
  type ContainerReport,
  type PodEventReport,
  type PodReport,
  type TerminatedReport,
} from "./pod-report.ts";
export { agentPort, apiVersion, cellServerName } from "./routes.ts";
