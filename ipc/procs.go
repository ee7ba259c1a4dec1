package ipc

// Receivers is how many goroutines of one process wait for the peer and must
// run at once when it speaks, however busy the cores are: GOMAXPROCS is to be
// the number of cores plus this. One reads messages, one writes them.
//
// With GOMAXPROCS = cores and every core computing, a round trip between the
// processes takes tens of milliseconds: a reader that is ready waits for a
// running goroutine's time slice to end, twice. With two more it takes as long
// as on an idle machine, since the operating system's scheduler, which is
// fairer, then decides. Measured with BenchmarkRoundTrip on 2 cores of an EPYC
// that other work kept busy too (load 15), 2 goroutines computing:
//
//	GOMAXPROCS            p50        p99
//	cores               50 ms  74–122 ms
//	cores + 2         0.15 ms    7–11 ms
//	cores + 2, idle   0.19 ms   0.3–4 ms
//
// Readers that block in ZeroMQ's recv, one thread each, measured the same
// within noise (0.16–0.19 ms busy, 0.23–0.24 ms idle; same machine and
// minutes). Waiting in the netpoller was chosen since it needs no thread, ends
// when asked, and lets one goroutine own a socket and its monitor.
const Receivers = 2
