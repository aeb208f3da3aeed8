export { openAwsCloud, type AwsCloudOptions, type AwsTimes } from "./open-aws-cloud.ts";
