import { childOf, itemsOf, setText, textOf, type XmlElement } from "./xml.ts";

/**
 * Changes a response of DescribeRouteTables. moto's routes name an ended instance, but EC2's only name its interface, as a
 * blackhole.
 *
 * @param lost interfaces of the ended instances, by instance ID
 */
export function loseRoutes(answer: XmlElement, lost: ReadonlyMap<string, string>): void {
  for (const route of itemsOf(answer, "routeTableSet").flatMap((each) =>
    itemsOf(each, "routeSet"),
  )) {
    const networkInterface = lost.get(textOf(route, "instanceId"));
    const target = childOf(route, "instanceId");
    if (networkInterface === undefined || !target) continue;
    route.children.splice(route.children.indexOf(target), 1);
    setText(route, "networkInterfaceId", networkInterface);
    setText(route, "state", "blackhole");
  }
}
