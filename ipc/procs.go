package ipc

// Receivers is how many goroutines of one process wait for the peer at any
// time and must run at once when it speaks, however busy the cores are:
// GOMAXPROCS is to be the number of cores plus this.
const Receivers = 2
