package protocol

// VLLMVersion is the vLLM release whose messages and API this project speaks.
// Engines register with it and /version reports it, since routers and clients
// compare it.
const VLLMVersion = "0.32.0"
