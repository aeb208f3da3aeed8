import { access } from "node:fs/promises";
import { parseCidr } from "@kip/network-view";
import { cidrsOverlap, readCidr } from "./cidrs.ts";
import { namespaceOf } from "./namespace.ts";

/** Routes this wide (a VPN's halves of the internet, say) are like a default route: ours is more specific. */
const widestPrefix = 7;

/**
 * The host's route that a range cannot live beside; undefined if there is none.
 *
 * Two local clouds may have ranges one inside the other (tests run beside a `kip up`): addresses are
 * given out from the low end, so they do not meet. Equal ranges always collide.
 *
 * @param routes output of `ip -o -4 route show`, or of -6 for a range of IPv6
 * @param ownDevice routes through it are ours
 */
export async function findCollision(
  routes: string,
  range: string,
  ownDevice: string,
): Promise<string | undefined> {
  for (const { line, target, device } of overlaps(routes, range, ownDevice)) {
    const isEqual = target === readCidr(range).text;
    if (isEqual || !(await isLocalCloudDevice(device))) return line;
  }
  return undefined;
}

/**
 * The first of the host's routes into a range or around it; undefined if there is none.
 *
 * @param routes output of `ip -o -4 route show`, or of -6 for a range of IPv6
 * @param ownDevice routes through it are ours
 */
export function findOverlap(routes: string, range: string, ownDevice: string): string | undefined {
  const [first] = overlaps(routes, range, ownDevice);
  return first?.line;
}

interface Route {
  readonly line: string;
  readonly target: string;
  readonly device: string;
}

function* overlaps(routes: string, range: string, ownDevice: string): Generator<Route> {
  for (const line of routes.split("\n")) {
    const [target = "", ...words] = line.trim().split(/\s+/);
    const cidr = parseCidr(target);
    if (!cidr) continue; // "default", "unreachable"
    const device = words[words.indexOf("dev") + 1] ?? "";
    const prefixLength = Number(cidr.text.split("/")[1]);
    if (device === ownDevice || prefixLength <= widestPrefix || !cidrsOverlap(target, range))
      continue;
    yield { line: line.trim(), target, device };
  }
}

async function isLocalCloudDevice(device: string): Promise<boolean> {
  if (!device.endsWith("0")) return false;
  return await access(namespaceOf(device.slice(0, -1)).file).then(
    () => true,
    () => false,
  );
}
