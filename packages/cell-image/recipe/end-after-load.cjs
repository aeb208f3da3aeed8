// Preloaded when the agent's code cache is made: ends the program once its modules are loaded, before it does anything.
// oxlint-disable-next-line unicorn/no-process-exit -- ending the program is what this file is for
setImmediate(() => process.exit(0));
