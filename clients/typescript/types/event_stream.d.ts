/** Reads server-sent events from the body of a response. */
export type ServerSentEvent = {
    id: string;
    name: string;
    data: string;
};
/** @typedef {{id: string, name: string, data: string}} ServerSentEvent */
/**
 * Yield the events of a stream until it ends.
 *
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<ServerSentEvent | null>} null for bytes that complete no event, such as heartbeats.
 */
export declare function readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerSentEvent | null>;
/** Splits text into events, as the HTML standard says. */
export declare class EventParser {
    #private;
    /**
     * Return the events that this text completes.
     *
     * @param {string} text
     */
    feed(text: string): ServerSentEvent[];
}
