// Package modelrunner computes steps: it turns the scheduler's plan into the
// arrays that the device works on, and brings back the sampled tokens.
//
// The scheduler sends a request whole once and then only differences. The rest
// is kept here in a row per running request: its tokens, block table and
// sampling state. A step's arrays are built anew from the rows each time, into
// buffers that grow once, so a step allocates nothing.
//
// Log probabilities of what is sampled are part of the same pass; those of a
// prompt make it a longer one (logprobs.go). Who asks for none pays nothing.
//
// Every layer has the same blocks of the KV cache, also one that looks at a
// window only: what has left a window is kept until its sequence ends.
//
// Computing overlaps with the caller: Start records the step and hands it to
// the device goroutine, Sample waits for it.
//
//	pass := runner.Start(plan)   // the device works from here
//	…                            // anything that needs no result
//	out, err := pass.Sample()
//
// The engine loop owns the Runner, its rows and the recording side of the
// queue; the device goroutine only calls Queue.Sync, between a Start and the
// end of its Sample. One pass at a time.
//
// Follows vLLM V1 gpu_model_runner.py and input_batch.py; we differ in that
// positions, slots and block tables are not kept between steps.
package modelrunner
