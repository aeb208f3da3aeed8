/**
 * Framing of exec and attach: each direction is a sequence of frames
 * `channel (1 byte) | length (4 bytes, big endian, ≤ 1 MiB) | payload`.
 *
 * | channel | direction | payload |
 * | --- | --- | --- |
 * | 0 stdin | kip → agent | bytes; an empty frame ends the process's input |
 * | 1 stdout, 2 stderr | agent → kip | bytes |
 * | 3 exit | agent → kip, last frame | JSON `{"exitCode": n}` or `{"error": "..."}` |
 * | 4 resize | kip → agent | JSON `{"columns": n, "rows": n}` |
 */
export const channels = { stdin: 0, stdout: 1, stderr: 2, exit: 3, resize: 4 } as const;

/** Largest payload of one frame, bytes. */
export const maxFrameBytes = 1024 * 1024;
