//go:build cgo

// The threads of a device, and how they share a step.
//
// A step is an array of operations, each cut into chunks. Every thread walks
// the array: it claims chunks of an operation until there are none, waits until
// all of them are finished, and goes on. Nobody waits for a thread, only for
// claimed chunks; so a thread that the system has put aside holds up the others
// only if it was inside a chunk.
//
// A thread may still walk a step that is long over. So a claim carries the
// step's number, and fails when the operation has been closed or recorded anew.
//
// Waiting spins for SPIN_NS, then sleeps on a futex. Between steps the threads
// sleep; the caller of gk_run is worker 0, whichever thread that is: nothing
// here is thread-local.
#define _GNU_SOURCE
#include "gk.h"
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPIN_NS 40000
#define NAP_NS 2000000
#define CLOSED 0xffffffffu

// futex_wait sleeps while *word is seen, for limit at most unless that is NULL.
// It may return early.
static void futex_wait(uint32_t *word, uint32_t seen, const struct timespec *limit) {
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, limit, NULL, 0);
}

static void futex_wake(uint32_t *word) {
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

static int64_t now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void pause_cpu(void) {
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

// spin pauses a little and says whether there is time left to spin.
static int spin(int *turn, int64_t *until) {
	if ((++*turn & 31) == 0) {
		int64_t t = now_ns();
		if (*until == 0)
			*until = t + SPIN_NS;
		else if (t > *until)
			return 0;
	}
	pause_cpu();
	return 1;
}

static inline uint32_t chunks_of(const gk_op *op) {
	return (uint32_t)__atomic_load_n(&op->chunks, __ATOMIC_RELAXED);
}

// stale says that an operation no longer belongs to a step.
static inline int stale(const gk_op *op, uint32_t step) {
	uint64_t v = __atomic_load_n(&op->next, __ATOMIC_ACQUIRE);
	return (uint32_t)(v >> 32) != step || (uint32_t)v == CLOSED;
}

// wait_done returns when all chunks are finished; 0 if the step is over.
static int wait_done(gk_op *op, uint32_t step) {
	int turn = 0;
	int64_t until = 0;
	for (;;) {
		uint32_t done = __atomic_load_n(&op->done, __ATOMIC_ACQUIRE);
		if (stale(op, step))
			return 0;
		if (done >= chunks_of(op))
			return 1;
		if (spin(&turn, &until))
			continue;
		__atomic_add_fetch(&op->waiters, 1, __ATOMIC_SEQ_CST);
		// A nap, not a sleep: a late thread may wait for an operation that
		// was meanwhile recorded anew, with nothing in it that would wake it.
		futex_wait(&op->done, done, &(struct timespec){.tv_nsec = NAP_NS});
		__atomic_sub_fetch(&op->waiters, 1, __ATOMIC_SEQ_CST);
	}
}

// run_op claims and runs chunks of one operation; 0 if the step is over.
static int run_op(gk_op *op, uint32_t step, gk_worker *w) {
	for (;;) {
		uint64_t v = __atomic_load_n(&op->next, __ATOMIC_ACQUIRE);
		if ((uint32_t)(v >> 32) != step || (uint32_t)v == CLOSED)
			return 0;
		if ((uint32_t)v >= chunks_of(op))
			return wait_done(op, step);
		if (!__atomic_compare_exchange_n(&op->next, &v, v + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		gk_kernel(w->dev->isa, op->kind)(op, (int)(uint32_t)v, w);
		uint32_t chunks = chunks_of(op);
		if (__atomic_add_fetch(&op->done, 1, __ATOMIC_SEQ_CST) == chunks &&
			__atomic_load_n(&op->waiters, __ATOMIC_SEQ_CST) > 0)
			futex_wake(&op->done);
	}
}

static void walk(gk_op *ops, int n, uint32_t step, gk_worker *w) {
	for (int i = 0; i < n; i++)
		if (!run_op(&ops[i], step, w))
			return;
}

static void *work(void *arg) {
	gk_worker *w = arg;
	gk_dev *d = w->dev;
	uint32_t last = 0;
	for (;;) {
		int turn = 0;
		int64_t until = 0;
		uint32_t step;
		while ((step = __atomic_load_n(&d->step, __ATOMIC_ACQUIRE)) == last) {
			if (spin(&turn, &until))
				continue;
			__atomic_add_fetch(&d->sleepers, 1, __ATOMIC_SEQ_CST);
			futex_wait(&d->step, last, NULL);
			__atomic_sub_fetch(&d->sleepers, 1, __ATOMIC_SEQ_CST);
		}
		if (__atomic_load_n(&d->quit, __ATOMIC_ACQUIRE))
			return NULL;
		gk_op *ops = __atomic_load_n(&d->ops, __ATOMIC_ACQUIRE);
		int n = __atomic_load_n(&d->num_ops, __ATOMIC_ACQUIRE);
		// If the step changed meanwhile, ops or n may be the next one's.
		if (__atomic_load_n(&d->step, __ATOMIC_ACQUIRE) != step)
			continue;
		last = step;
		walk(ops, n, step, w);
	}
}

static void publish(gk_dev *d, gk_op *ops, int n, uint32_t step) {
	__atomic_store_n(&d->num_ops, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&d->ops, ops, __ATOMIC_RELEASE);
	__atomic_store_n(&d->num_ops, n, __ATOMIC_RELEASE);
	__atomic_store_n(&d->step, step, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&d->sleepers, __ATOMIC_SEQ_CST) > 0)
		futex_wake(&d->step);
}

// grow_scratch gives every worker bytes; -1 if there is no memory. No chunk is
// running, so nobody holds the old one.
static int grow_scratch(gk_dev *d, size_t bytes) {
	if (bytes <= d->scratch_bytes)
		return 0;
	for (int i = 0; i < d->threads; i++) {
		gk_worker *w = &d->workers[i];
		char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			return -1;
		if (w->scratch)
			munmap(w->scratch, w->scratch_bytes);
		w->scratch = p;
		w->scratch_bytes = bytes;
	}
	d->scratch_bytes = bytes;
	return 0;
}

// gk_run runs ops[0, n) in order and returns when all are done: 0, -1 if there
// is no memory, or 1 with d->error set.
int gk_run(gk_dev *d, gk_op *ops, int n) {
	uint32_t step = d->step + 1;
	if (step == 0)
		step = 1;
	size_t scratch = 0;
	for (int i = 0; i < n; i++) {
		gk_prepare(d, &ops[i]);
		size_t s = gk_scratch(d, &ops[i]);
		scratch = s > scratch ? s : scratch;
	}
	if (grow_scratch(d, scratch) < 0)
		return -1;
	for (int i = 0; i < n; i++) {
		__atomic_store_n(&ops[i].done, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&ops[i].next, (uint64_t)step << 32, __ATOMIC_RELEASE);
	}
	publish(d, ops, n, step);
	walk(ops, n, step, &d->workers[0]);
	for (int i = 0; i < n; i++)
		__atomic_store_n(&ops[i].next, (uint64_t)step << 32 | CLOSED, __ATOMIC_RELEASE);
	return d->error.set ? 1 : 0;
}

gk_dev *gk_open(const gk_isa *isa, int threads) {
	gk_dev *d = calloc(1, sizeof *d);
	if (!d)
		return NULL;
	d->isa = isa;
	d->threads = threads;
	d->workers = aligned_alloc(64, sizeof(gk_worker) * threads);
	d->tids = calloc(threads, sizeof *d->tids);
	if (!d->workers || !d->tids) {
		d->threads = 1;
		gk_close(d);
		return NULL;
	}
	memset(d->workers, 0, sizeof(gk_worker) * threads);
	// The threads take no signals: those are for the Go side.
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (int i = 0; i < threads; i++) {
		d->workers[i].dev = d;
		d->workers[i].index = i;
		pthread_t tid;
		if (i > 0) {
			if (pthread_create(&tid, NULL, work, &d->workers[i]) != 0) {
				d->threads = i;
				break;
			}
			d->tids[i] = (uint64_t)tid;
		}
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (d->threads < threads) {
		gk_close(d);
		return NULL;
	}
	return d;
}

void gk_close(gk_dev *d) {
	__atomic_store_n(&d->quit, 1, __ATOMIC_RELEASE);
	__atomic_add_fetch(&d->step, 1, __ATOMIC_SEQ_CST);
	futex_wake(&d->step);
	for (int i = 1; i < d->threads; i++)
		pthread_join((pthread_t)d->tids[i], NULL);
	for (int i = 0; d->workers && i < d->threads; i++)
		if (d->workers[i].scratch)
			munmap(d->workers[i].scratch, d->workers[i].scratch_bytes);
	gk_free_all(d);
	free(d->workers);
	free(d->tids);
	free(d);
}
