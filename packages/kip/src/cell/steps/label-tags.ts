import { cloudLimits } from "@kip/cloud";

/** What a cloud takes less the tags of kip, with some to spare. */
const maxLabelTags = cloudLimits.tags - 8;

/** Labels that are not the user's: those that the original leaves out, and the keys of kip's own tags. */
const ownLabels = /^(kip-|kiyot\.|kubernetes\.io|io\.kubernetes|aws:)/i;

/** The pod's labels as tags of its machine, for bills by team or application. One that some cloud does not take is left out. */
export function labelTags(
  labels: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> {
  const isTag = ([key]: readonly [string, string]): boolean =>
    key.length <= cloudLimits.tagKeyLength && !ownLabels.test(key);
  return Object.fromEntries(Object.entries(labels).filter(isTag).slice(0, maxLabelTags));
}
