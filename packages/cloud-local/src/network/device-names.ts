/** Name of the bridge for all machines, inside the namespace. */
export const bridgeDevice = "cells";

/** Name of the namespace's end of the link to the host. */
export const hostLink = "host";

/** Name of the uplink's device, inside the namespace. */
export const uplinkDevice = "uplink";
