//go:build cgo

// Memory of a device: mappings of its own, untouched until used, all given back
// at once when the device closes. Weights and caches, which are read whole, ask
// for huge pages; activations do not, since a decode step uses one row of many.
#define _GNU_SOURCE
#include "gk.h"
#include <sys/mman.h>
#include <stdlib.h>

typedef struct gk_map {
	struct gk_map *next;
	void *base;
	size_t bytes;
} gk_map;

#define HUGE ((size_t)2 << 20)
#define SLAB ((size_t)1 << 20)

// map returns zero pages, or NULL. Huge ones are for 2 MiB and more.
static void *map(gk_dev *d, size_t bytes, int huge) {
	size_t extra = huge && bytes >= HUGE ? HUGE : 0;
	gk_map *m = malloc(sizeof *m);
	if (!m || bytes + extra < bytes) {
		free(m);
		return NULL;
	}
	m->bytes = bytes + extra;
	m->base = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m->base == MAP_FAILED) {
		free(m);
		return NULL;
	}
	m->next = d->maps;
	d->maps = m;
	char *p = m->base;
	if (extra) {
		p = (char *)(((uintptr_t)p + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
		madvise(p, bytes, MADV_HUGEPAGE); // a wish: without it the pages are small
	}
	return p;
}

// gk_alloc returns zeroed memory aligned to 64 bytes, or NULL. Small pieces
// share a slab.
void *gk_alloc(gk_dev *d, size_t bytes, int huge) {
	if (bytes > SIZE_MAX / 2)
		return NULL;
	bytes = (bytes + 63) & ~(size_t)63;
	if (bytes >= SLAB / 4)
		return map(d, bytes, huge);
	if (bytes > d->slab_left) {
		char *slab = map(d, SLAB, 0);
		if (!slab)
			return NULL;
		d->slab = slab;
		d->slab_left = SLAB;
	}
	char *p = d->slab;
	d->slab += bytes;
	d->slab_left -= bytes;
	return p;
}

void gk_free_all(gk_dev *d) {
	while (d->maps) {
		gk_map *m = d->maps;
		d->maps = m->next;
		munmap(m->base, m->bytes);
		free(m);
	}
	d->slab = NULL;
	d->slab_left = 0;
}
