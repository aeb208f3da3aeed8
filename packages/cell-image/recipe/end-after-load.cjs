/* oxlint-disable unicorn/no-process-exit -- ending the program is what this file is for */
// Preloaded when the agent's code cache is made: ends the program once its modules are loaded, before it does anything.
setImmediate(() => process.exit(0));
// What it misses outside a cell does not matter here.
process.on("uncaughtException", () => process.exit(0));
