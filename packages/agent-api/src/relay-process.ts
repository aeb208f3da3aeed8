import type { Duplex, Readable, Writable } from "node:stream";
import { bytesOf, decode, type ProcessStreams } from "@kip/base";
import { AgentError } from "./errors.ts";
import { decodeAnswer, maxErrorLength } from "./answers.ts";
import { plainText } from "./plain-text.ts";
import { channels, FrameParser, FrameWriter, writeTo, type Frame } from "./framing.ts";

/** How an executed or attached process ended. */
export interface AgentProcessExit {
  readonly exitCode: number;
}

const decodeExit = decode.object({
  exitCode: decode.optional(decode.int32),
  error: decode.optional(decode.string),
});

/**
 * Connects a caller's streams with a framed stream to the agent until the process has ended. Ends the caller's output streams.
 *
 * @param command sent first, if the agent expects it
 * @throws {AgentError} code `AGENT_PROCESS_FAILED` if the process could not be run, `AGENT_FRAME_INVALID` if the agent violates
 * the framing; the stream's error if it is lost
 */
export async function relayProcess(
  stream: Duplex,
  streams: ProcessStreams,
  command?: readonly string[],
): Promise<AgentProcessExit> {
  const writer = new FrameWriter(stream);
  const begun = command ? sendCommand(command, writer) : Promise.resolve();
  const stdin = streams.stdin && sendInput(streams.stdin, writer, begun);
  const resizes = streams.resizes && sendResizes(streams.resizes, writer, begun);
  // The stream itself reports failures. These handlers only avoid unhandled rejections.
  stdin?.catch((error: unknown) => stream.destroy(error instanceof Error ? error : undefined));
  resizes?.catch(() => {});
  try {
    return await receive(stream, streams);
  } finally {
    streams.stdout?.end();
    streams.stderr?.end();
    if (!stream.writableEnded) stream.end();
    stream.destroy();
  }
}

async function sendCommand(command: readonly string[], writer: FrameWriter): Promise<void> {
  await writer.writeJson(channels.command, command);
  await writer.write(channels.command, Buffer.alloc(0));
}

async function sendInput(
  stdin: Readable,
  writer: FrameWriter,
  begun: Promise<void>,
): Promise<void> {
  await begun;
  for await (const chunk of stdin) {
    await writer.write(channels.stdin, typeof chunk === "string" ? Buffer.from(chunk) : chunk);
  }
  await writer.write(channels.stdin, Buffer.alloc(0));
}

async function sendResizes(
  resizes: NonNullable<ProcessStreams["resizes"]>,
  writer: FrameWriter,
  begun: Promise<void>,
): Promise<void> {
  await begun;
  for await (const { columns, rows } of resizes) {
    await writer.writeJson(channels.resize, { columns, rows });
  }
}

async function receive(stream: Duplex, streams: ProcessStreams): Promise<AgentProcessExit> {
  const parser = new FrameParser();
  for await (const chunk of bytesOf(stream)) {
    for (const frame of parser.push(chunk)) {
      if (frame.channel === channels.exit) return readExit(frame);
      const sink = sinkOf(frame, streams);
      if (sink) await writeTo(sink, frame.payload);
    }
  }
  throw new AgentError(
    "AGENT_PROCESS_FAILED",
    "Cannot tell how the process ended: the agent closed the stream",
    { retryable: true },
  );
}

function sinkOf(frame: Frame, streams: ProcessStreams): Writable | undefined {
  if (frame.channel === channels.stdout) return streams.stdout;
  if (frame.channel === channels.stderr) return streams.stderr;
  throw new AgentError(
    "AGENT_FRAME_INVALID",
    `Cannot read a frame: channel ${frame.channel} goes the other way`,
  );
}

function readExit(frame: Frame): AgentProcessExit {
  const exit = decodeAnswer(frame.payload.toString(), decodeExit);
  if (exit.exitCode !== undefined) return { exitCode: exit.exitCode };
  throw new AgentError(
    "AGENT_PROCESS_FAILED",
    exit.error === undefined ? "Cannot run the process" : plainText(exit.error, maxErrorLength),
  );
}
