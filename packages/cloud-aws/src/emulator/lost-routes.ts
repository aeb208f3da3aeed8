import { childOf, itemsOf, setText, textOf, type XmlElement } from "./xml.ts";

/**
 * Changes an answer to DescribeRouteTables: moto's routes name an instance that has ended, those of EC2 its interface alone, as a blackhole.
 *
 * @param lost interfaces of the instances that have ended, by their IDs
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
