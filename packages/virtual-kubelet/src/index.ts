export type {
  LogOptions,
  NodeFacts,
  PodEvent,
  PodPresence,
  PodProvider,
  PodStatusUpdate,
  ProcessExit,
  ProviderCallbacks,
  ResolvedPod,
  VolumeFile,
} from "./pod-provider.ts";
