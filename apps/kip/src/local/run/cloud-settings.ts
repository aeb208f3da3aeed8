import path from "node:path";
import type { OptionValues } from "@kip/base";
import { architectures } from "../../cli/architectures.ts";
import { hostPorts } from "../cluster/host-ports.ts";
import { networkRanges } from "../cluster/network-ranges.ts";
import { nodePortAddresses } from "../cluster/node-port-addresses.ts";
import { dnsService, serviceRanges } from "../cluster/service-range.ts";
import type { LocalLayout } from "../cluster/layout.ts";

/** Root disk of a cell whose pod does not request a size, bytes. */
export const cellDiskBytes = 5 * 2 ** 30;

/** IDs of the cell images, one for each architecture. */
export function imagesOf(options: OptionValues): readonly string[] {
  return [options.required("image"), ...options.list("other-image")];
}

/** Settings of the local cloud. The daemon and the provider both use them. */
export function cloudSettings(options: OptionValues, layout: LocalLayout) {
  return {
    stateDir: layout.machinesDir,
    imagesDir: path.join(layout.cacheDir, "images"),
    architectures: architectures(options),
    templatesDir: layout.templatesDir,
    templates: options.isSet("templates"),
    namespace: options.required("namespace-name"),
    ...networkRanges(options),
    hostPorts: hostPorts(options),
    serviceRanges: serviceRanges(options),
    hostServices: true,
    nodePortAddresses: nodePortAddresses(options),
    dnsService: dnsService(options),
  };
}
