// Package httpserver is what stands between the network and the API: the
// socket, TLS, keys, CORS, limits against slow and large requests, request IDs
// and the access log. It knows no route and no JSON; refusals are written by
// the API that it serves.
//
// A request passes, in this order: request ID and access log; recovery from
// panics; the root path; CORS; number of headers; key; size and pace of the
// body; the API.
//
// Names and defaults follow vLLM 0.32 (vllm/entrypoints/launchers and
// serve/middleware); we differ in:
//
//   - with a key set every path wants it but those of Config.OpenPaths, not
//     only /v1, /v2, /inference and /cohere; x-api-key carries it as well;
//   - the request ID is bounded, the same in log, header and body;
//   - a request that comes too slowly is ended, a client that does not read is
//     dropped, and idle connections live for two minutes, not five seconds:
//     shorter than its balancer's, a server's timeout resets requests.
package httpserver
