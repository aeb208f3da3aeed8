import type { InstanceTypeOffer } from "@kip/cloud";
import { Admission } from "./admission/admission.ts";
import { localInstanceTypes } from "./host/catalog.ts";
import { Launcher } from "./launch/launcher.ts";
import { readRoom } from "./launch/machine-reservation.ts";
import { MachineStarter } from "./launch/machine-starter.ts";
import { MachineTerminator } from "./launch/machine-terminator.ts";
import { Machines } from "./launch/machines.ts";
import { MachineStore } from "./machine/machine-store.ts";
import { MachineWatch } from "./machine/machine-watch.ts";
import { LocalNetwork } from "./network/local-network.ts";
import { SharedNetwork } from "./network/shared-network.ts";
import type { ResolvedLocalCloudOptions } from "./options/local-cloud-options.ts";
import { AcceleratorChoice } from "./qemu/accelerator.ts";
import { Templates } from "./template/templates.ts";
import { LocalVolumes } from "./volume/local-volumes.ts";

/** The parts of the local cloud. */
export interface LocalCloudParts {
  readonly options: ResolvedLocalCloudOptions;
  readonly offers: readonly InstanceTypeOffer[];
  readonly store: MachineStore;
  readonly network: LocalNetwork;
  readonly sharedNetwork: SharedNetwork;
  readonly watch: MachineWatch;
  readonly admission: Admission;
  readonly accelerator: AcceleratorChoice;
  readonly templates: Templates;
  readonly starter: MachineStarter;
  readonly terminator: MachineTerminator;
  readonly machines: Machines;
  readonly launcher: Launcher;
  readonly volumes: LocalVolumes;
}

/** Creates and connects the parts. Reads and starts nothing. */
export function createParts(options: ResolvedLocalCloudOptions): LocalCloudParts {
  const store = new MachineStore(options.stateDir);
  const network = new LocalNetwork({ ...options, name: options.namespace });
  const lock = async <T>(work: () => Promise<T>): Promise<T> => await store.lockNetwork(work);
  const sharedNetwork = new SharedNetwork({ ...options, network, lock });
  const accelerator = new AcceleratorChoice(options);
  const offers = options.instanceTypes ?? localInstanceTypes(options.host, options.architectures);
  const watch = new MachineWatch((id, reason) => terminator.note(id, reason), options.logger);
  const freeRoom = async () => await readRoom(options, store);
  const admission = new Admission({ ...options, machinesDir: store.folder, readRoom: freeRoom });
  const templates = new Templates(options, store, network);
  const known = { options, offers, store, network, sharedNetwork, watch, admission, templates };
  const volumes = new LocalVolumes({
    ...options,
    store,
    freeDisk: async () => (await freeRoom()).disk,
    machines: {
      withRunning: (id, work) =>
        machines.withRunning(id, (record) => work(record && machines.disksOf(record))),
      noteEnd: async (id) => void (await machines.describe(id)),
    },
  });
  const starter = new MachineStarter(known);
  const terminator: MachineTerminator = new MachineTerminator({ ...known, volumes });
  const machines: Machines = new Machines({ ...known, terminator });
  const launcher = new Launcher({ ...known, accelerator, starter, terminator, machines });
  return { ...known, accelerator, volumes, starter, terminator, machines, launcher };
}
