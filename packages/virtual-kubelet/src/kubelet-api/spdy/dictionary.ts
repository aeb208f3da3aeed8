/** Words of the dictionary. In the dictionary, each follows its length in four bytes. */
const words = [
  ..."options head post put delete trace accept accept-charset accept-encoding accept-language".split(
    " ",
  ),
  ..."accept-ranges age allow authorization cache-control connection content-base".split(" "),
  ..."content-encoding content-language content-length content-location content-md5".split(" "),
  ..."content-range content-type date etag expect expires from host if-match".split(" "),
  ..."if-modified-since if-none-match if-range if-unmodified-since last-modified location".split(
    " ",
  ),
  ..."max-forwards pragma proxy-authenticate proxy-authorization range referer".split(" "),
  ..."retry-after server te trailer transfer-encoding upgrade user-agent vary via warning".split(
    " ",
  ),
  ..."www-authenticate method get status".split(" "),
  "200 OK",
  ..."version HTTP/1.1 url public set-cookie keep-alive origin".split(" "),
];

/** The rest of the dictionary, which has no lengths. */
const text = [
  "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505",
  "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request",
  "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented",
  "503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00",
  " Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,",
  "application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=",
  "gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.",
].join("");

/**
 * The preset dictionary of SPDY/3 header compression: 1,423 bytes, Adler-32 e3c6a7c2.
 * From the SPDY protocol, draft 3, section 2.6.10.1.
 */
export const spdyDictionary: Buffer = Buffer.concat([...words.map(withLength), Buffer.from(text)]);

/** Adler-32 of {@link spdyDictionary}, which identifies the dictionary in a zlib stream. */
export const spdyDictionaryId = 0xe3c6a7c2;

function withLength(word: string): Buffer {
  const entry = Buffer.alloc(4 + word.length);
  entry.writeUInt32BE(word.length);
  entry.write(word, 4, "latin1");
  return entry;
}
