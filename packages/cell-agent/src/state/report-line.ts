import { longestReport, maxEvents, plainText } from "@kip/agent-api";
import type { ContainerReport, PodReport } from "@kip/agent-api";

/** Steps to shorten a report that is too long: characters of each message, groups of each user, newest events. */
const cuts = [
  { characters: 1000, groups: 1000, events: maxEvents },
  { characters: 100, groups: 100, events: 100 },
  { characters: 0, groups: 0, events: 1 },
] as const;

/** How much of an image's name kip reads, characters. */
const imageLength = 1024;

type Cut = (typeof cuts)[number];

/**
 * The report as a line of the status stream that kip can read. A cell whose reports are too long would be replaced. Reports are
 * mostly too long because of texts from the pod's programs and from registries, so these are shortened.
 */
export function reportLine(report: PodReport): string {
  const { initContainers, containers, ephemeralContainers } = report;
  const most = longestReport(
    initContainers.length + containers.length + ephemeralContainers.length,
  );
  let line = JSON.stringify(report);
  for (const cut of cuts) {
    if (Buffer.byteLength(line) <= most) break;
    line = JSON.stringify(shortened(report, cut));
  }
  return `${line}\n`;
}

function shortened(report: PodReport, cut: Cut): PodReport {
  const container = (one: ContainerReport): ContainerReport => ({
    ...one,
    image: plainText(one.image, imageLength),
    waiting: one.waiting && withShortMessage(one.waiting, cut),
    terminated: one.terminated && withShortMessage(one.terminated, cut),
    lastTerminated: one.lastTerminated && withShortMessage(one.lastTerminated, cut),
    user: one.user && { ...one.user, groups: one.user.groups.slice(0, cut.groups) },
  });
  return {
    ...withShortMessage(report, cut),
    initContainers: report.initContainers.map(container),
    containers: report.containers.map(container),
    ephemeralContainers: report.ephemeralContainers.map(container),
    events: report.events.slice(-cut.events).map((event) => withShortMessage(event, cut)),
  };
}

/** Measured in the form that kip reads. A control character has six bytes in JSON, and its replacement has three. */
function withShortMessage<T extends { readonly message?: string | undefined }>(
  one: T,
  { characters }: Cut,
): T {
  return one.message === undefined ? one : { ...one, message: plainText(one.message, characters) };
}
