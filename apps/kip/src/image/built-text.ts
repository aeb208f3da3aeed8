import type { BuiltAmi } from "@kip/cloud-aws/ami";

/** The text at the end of a build: what was made, how cells use it, and leftovers that cost money. Ends with a line break. */
export function builtText({ id, name, region, isNew, leftOvers }: BuiltAmi): string {
  const lines = [
    isNew
      ? `Image ${id} (${name}) was made in ${region}.`
      : `Image ${id} (${name}) was in ${region} already.`,
    "Cells boot the newest such image of the account, or the one that cells.bootImageSpec.imageIDs names.",
  ];
  if (leftOvers.length > 0) {
    lines.push(
      "",
      "Snapshots of other builds, which no image stands on and which cost money unless a build is running:",
    );
    for (const { id: snapshot, state, name: of, startedAt } of leftOvers) {
      const since = startedAt === undefined ? "" : `, of ${startedAt.toISOString()}`;
      lines.push(`  ${snapshot}  ${of}, ${state}${since}`);
    }
    lines.push(`Remove one: aws ec2 delete-snapshot --region ${region} --snapshot-id ID`);
  }
  return `${lines.join("\n")}\n`;
}
