export { maxErrorLength } from "./answers.ts";
export { AgentClient, type AgentClientOptions, type AgentLogOptions } from "./agent-client.ts";
export {
  decodeAgentInfo,
  decodeCellIdentity,
  type AgentInfo,
  type CellIdentity,
} from "./agent-info.ts";
export {
  decodeAgentStats,
  maxInterfaces,
  type AgentStats,
  type DiskStats,
  type InterfaceStats,
} from "./agent-stats.ts";
export { bandwidthOf, type Bandwidth } from "./bandwidth.ts";
export { AgentError, type AgentErrorCode, type ImageProblem } from "./errors.ts";
export {
  decodeDesiredPod,
  decodeImagePull,
  type DesiredContainer,
  type DesiredExtendedResource,
  type DesiredHook,
  type DesiredHostPort,
  type DesiredHugePages,
  type DesiredImageSettings,
  type DesiredLogs,
  type DesiredNetwork,
  type DesiredPod,
  type DesiredProbe,
  type DesiredRegistry,
  type DesiredSeccompProfile,
  type DesiredVariable,
  type DesiredVolume,
  type DesiredVolumeMount,
  type ResourceAmounts,
  type ImagePull,
} from "./desired-pod.ts";
export {
  channels,
  FrameParser,
  FrameWriter,
  maxFrameBytes,
  writeTo,
  type Channel,
  type Frame,
} from "./framing.ts";
export { longestReport } from "./latest-line.ts";
export { limitSeconds } from "./longest-seconds.ts";
export { maxMessageLength } from "./message-length.ts";
export type { NetworkChanges, NetworkHello } from "./network-stream.ts";
export { plainText } from "./plain-text.ts";
export {
  maxContainers,
  decodePodReport,
  maxEvents,
  type ContainerReport,
  type PodEventReport,
  type PodReport,
  type ReportedPod,
  type ResizeReport,
  type TerminatedReport,
} from "./pod-report.ts";
export type { AgentProcessExit } from "./relay-process.ts";
export { runsAgain, runsAgainWhenKilled, type OwnRestartPolicy } from "./restart-policy.ts";
export { agentPort, apiVersion, cellServerName, maxBodyBytes, maxSessionMemory } from "./routes.ts";
export { waitForAgent, waitForAgentPort, type WaitForAgentOptions } from "./wait-for-agent.ts";
export { registryLogIns } from "./registry-log-ins.ts";
