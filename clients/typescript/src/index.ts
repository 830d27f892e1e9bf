export { Client, type CallOptions, type ClientOptions, type OnceOptions, type Turn } from "./client.js";
export { LockLost, SeqdError, type Json, type Reason } from "./errors.js";
export { IdGenerator, type GeneratorOptions, type GeneratorStatus } from "./generator.js";
export { decode, encode, Layout, type Format, type Parts } from "./layout.js";
export { Hold, Lock, type LockOptions } from "./lock.js";
export { Minter, type Limits, type Mint } from "./minter.js";
export { Ranges } from "./ranges.js";
export { ROUTES, type Operation, type Route } from "./routes.js";
export type { Fetch } from "./transport.js";
