import type { ServerHttp2Stream } from "node:http2";
import { PassThrough, type Writable } from "node:stream";
import { channels, FrameParser, FrameWriter, maxErrorLength, writeTo } from "@kip/agent-api";
import { decode, errorText, type Logger, type ProcessStreams, type TerminalSize } from "@kip/base";
import type { CommandFrames } from "./command-frames.ts";
import { Newest } from "./newest.ts";
import { framedOutput } from "./small-pieces.ts";

const decodeSize = decode.object({ columns: decode.integer, rows: decode.integer });

/** Runs a process on streams: exec or attach of a container. */
export type RunProcess = (
  streams: ProcessStreams,
  signal: AbortSignal,
) => Promise<{ readonly exitCode: number }>;

/** Serves exec or attach, between frames on the connection and streams of a process. If kip disconnects, the signal aborts. */
export async function serveProcess(
  stream: ServerHttp2Stream,
  query: URLSearchParams,
  options: {
    readonly run: RunProcess;
    /** Receives the command's frames, if the client sends it in frames. */
    readonly commandFrames?: CommandFrames | undefined;
    readonly logger: Logger;
  },
): Promise<void> {
  stream.respond({ ":status": 200, "content-type": "application/octet-stream" });
  const gone = new AbortController();
  stream.once("close", () => gone.abort(new Error("The client has gone")));
  const writer = new FrameWriter(stream);
  const stdin = query.has("stdin") ? new PassThrough() : undefined;
  // The process may end before it has read all of its input.
  stdin?.on("error", () => {});
  const resizes = new Newest<TerminalSize>();
  const streams: ProcessStreams = {
    tty: query.has("tty"),
    stdin,
    stdout: query.has("stdout") ? framedOutput(writer, channels.stdout, gone.signal) : undefined,
    stderr: query.has("stderr") ? framedOutput(writer, channels.stderr, gone.signal) : undefined,
    resizes: query.has("tty") ? resizes : undefined,
  };
  receive(stream, { stdin, resizes, commandFrames: options.commandFrames }).catch(
    (error: unknown) => {
      options.logger.debug("Lost the input of a process", { err: error });
      gone.abort(error);
    },
  );
  try {
    const { exitCode } = await options.run(streams, gone.signal);
    await flushed(streams.stdout);
    await flushed(streams.stderr);
    await writer.writeJson(channels.exit, { exitCode });
  } catch (error) {
    await writer.writeJson(channels.exit, { error: errorText(error).slice(0, maxErrorLength) });
  } finally {
    resizes.end();
    if (!stream.destroyed) stream.end();
  }
}

/** The targets of a client's frames. */
interface FrameSinks {
  readonly stdin: PassThrough | undefined;
  readonly resizes: Newest<TerminalSize>;
  readonly commandFrames: CommandFrames | undefined;
}

async function receive(
  stream: ServerHttp2Stream,
  { stdin, resizes, commandFrames }: FrameSinks,
): Promise<void> {
  const parser = new FrameParser();
  try {
    for await (const chunk of stream.iterator({
      destroyOnReturn: false,
    }) as AsyncIterable<Buffer>) {
      for (const { channel, payload } of parser.push(chunk)) {
        if (channel === channels.resize)
          resizes.push(decodeSize(JSON.parse(payload.toString()), "resize"));
        else if (channel === channels.command && commandFrames) commandFrames.push(payload);
        else if (channel !== channels.stdin)
          throw new Error(`Channel ${channel} is not a client's`);
        else if (payload.length === 0) stdin?.end();
        else if (stdin) await writeTo(stdin, payload);
      }
    }
  } finally {
    stdin?.end();
    commandFrames?.end();
  }
}

/** Resolves when everything written so far was passed to the connection. */
async function flushed(sink: Writable | undefined): Promise<void> {
  if (!sink || sink.destroyed || sink.writableFinished) return;
  await new Promise<void>((resolve) => {
    sink.once("close", resolve);
    sink.end(resolve);
  });
}
