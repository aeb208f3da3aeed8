import type { InstanceTypeOffer } from "@kip/cloud";
import type { Ec2 } from "./ec2/ec2-calls.ts";
import type { Hosts } from "./host/hosts.ts";
import type { Images } from "./image/images.ts";
import type { Instances } from "./instance/instances.ts";
import type { Launcher } from "./instance/launcher.ts";
import type { Tagger } from "./instance/tagger.ts";
import type { Terminator } from "./instance/terminator.ts";
import type { InstanceWatch } from "./instance/watch.ts";
import type { InterruptionReader } from "./interruption/interruption-reader.ts";
import type { Interruptions } from "./interruption/interruptions.ts";
import type { DhcpOptions } from "./network/network-facts.ts";
import type { Place } from "./network/place.ts";
import type { Routes } from "./network/routes.ts";
import type { Subnets } from "./network/subnets.ts";
import type { EcrLogIns } from "./registry/ecr-log-ins.ts";
import type { VolumeStore } from "./volume/volume-store.ts";
import type { Volumes } from "./volume/volumes.ts";

/** The parts of the driver. Each calls EC2 through `ec2`. */
export interface AwsCloudParts {
  readonly ec2: Ec2;
  readonly region: string;
  readonly place: Place;
  readonly subnets: Subnets;
  readonly offers: readonly InstanceTypeOffer[];
  readonly images: Images;
  readonly instances: Instances;
  readonly consistencyMs: number;
  /** @default dedicated instances use dedicated tenancy */
  readonly hosts: Hosts | undefined;
  readonly launcher: Launcher;
  readonly terminator: Terminator;
  readonly tagger: Tagger;
  readonly watch: InstanceWatch;
  readonly interruptions: Interruptions;
  /** @default no queue is configured */
  readonly interruptionReader: InterruptionReader | undefined;
  readonly registries: EcrLogIns;
  readonly store: VolumeStore;
  readonly volumes: Volumes;
  /** Ranges besides the VPC's that may reach cells, and that pods reach with their own addresses. */
  readonly extraCIDRs: readonly string[];
  readonly dhcp: DhcpOptions;
  readonly routes: Routes;
  /** Whether pods can ask for routes of address ranges to them. */
  readonly podRoutes: boolean;
  readonly sourceDestCheck: boolean;
  /** Ends all waits and connections. */
  readonly close: () => void;
}
