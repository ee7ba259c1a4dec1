//go:build cgo

// Which instruction-set levels this machine can run.
#include "gk.h"
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

// os_saves says whether the system saves the register state named by mask.
static int os_saves(uint32_t mask) {
	uint32_t a, b, c, d;
	__cpuid(1, a, b, c, d);
	if (!(c & bit_OSXSAVE))
		return 0;
	uint32_t lo, hi;
	__asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
	return (lo & mask) == mask;
}

static int has_avx2(void) {
	uint32_t a, b, c, d;
	__cpuid(1, a, b, c, d);
	uint32_t need = bit_AVX | bit_FMA | bit_F16C;
	if ((c & need) != need || !os_saves(0x6))
		return 0;
	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
}
#endif

// levels lists what the machine has, best first.
static int levels(const gk_isa *out[4]) {
	int n = 0;
#if defined(__x86_64__)
	if (has_avx2())
		out[n++] = &gk_avx2;
#endif
	out[n++] = &gk_generic;
	return n;
}

// gk_find_isa returns the level of that name, the best one for "", and NULL
// where the machine has no such level.
const gk_isa *gk_find_isa(const char *name) {
	const gk_isa *have[4];
	int n = levels(have);
	for (int i = 0; i < n; i++)
		if (!*name || strcmp(have[i]->name, name) == 0)
			return have[i];
	return NULL;
}

// gk_isa_names returns the names of the machine's levels, best first, each
// followed by a space.
const char *gk_isa_names(void) {
	static char names[64];
	const gk_isa *have[4];
	int n = levels(have);
	names[0] = 0;
	for (int i = 0; i < n; i++)
		strcat(strcat(names, have[i]->name), " ");
	return names;
}
