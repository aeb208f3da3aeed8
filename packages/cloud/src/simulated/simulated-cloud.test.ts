import { describeCloudDriver } from "../testing/index.ts";
import { simulatedConformance } from "../testing/simulated-conformance.ts";

describeCloudDriver("simulated cloud", simulatedConformance());
