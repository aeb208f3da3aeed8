import { access } from "node:fs/promises";
import { parseCidr } from "@kip/network-view";
import { cidrsOverlap, readCidr } from "./cidrs.ts";
import { namespaceOf } from "./namespace.ts";

/**
 * Routes with at most this prefix length (such as a VPN's two halves of the internet) count as default routes. Kip's route is
 * more specific.
 */
const widestPrefix = 7;

/**
 * Finds a route of the host that collides with a range. Undefined if there is none.
 *
 * One local cloud's range may contain another's, because tests run beside a `kip up`. Addresses are assigned from the low end,
 * so they do not collide. Equal ranges always collide.
 *
 * @param routes output of `ip -o -4 route show`, or -6 for an IPv6 range
 * @param ownDevice routes through this device are Kip's own
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
 * The first route of the host inside or around a range. Undefined if there is none.
 *
 * @param routes output of `ip -o -4 route show`, or -6 for an IPv6 range
 * @param ownDevice routes through this device are Kip's own
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
