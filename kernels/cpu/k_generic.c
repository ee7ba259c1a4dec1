//go:build cgo

// The level of every machine: GCC's vectors of four floats, which SSE2, NEON
// and plain scalars all serve; 16 lanes are four of them. Nothing is fused.
#include <math.h>
#include <stdint.h>
#include <string.h>
#include "gk.h"

typedef float f4 __attribute__((vector_size(16)));
typedef int32_t i4 __attribute__((vector_size(16)));
typedef uint32_t u4 __attribute__((vector_size(16)));

typedef struct {
	f4 q[4];
} v16;

#define EACH4 _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++)

INLINE v16 v_load(const float *p) {
	v16 v;
	EACH4 memcpy(&v.q[i], p + 4 * i, 16);
	return v;
}
INLINE void v_store(float *p, v16 v) { EACH4 memcpy(p + 4 * i, &v.q[i], 16); }
INLINE v16 v_set1(float f) {
	f4 q = {f, f, f, f};
	return (v16){{q, q, q, q}};
}
INLINE v16 v_zero(void) { return v_set1(0); }

// pick returns a where the mask is set, else b.
INLINE f4 pick(i4 mask, f4 a, f4 b) { return (f4)((mask & (i4)a) | (~mask & (i4)b)); }

#define BINARY(name, expr) \
	INLINE v16 name(v16 va, v16 vb) { \
		v16 v; \
		EACH4 { \
			f4 a = va.q[i], b = vb.q[i]; \
			v.q[i] = expr; \
		} \
		return v; \
	}
BINARY(v_add, a + b)
BINARY(v_sub, a - b)
BINARY(v_mul, a *b)
BINARY(v_div, a / b)
BINARY(v_max, pick(a > b, a, b))
BINARY(v_min, pick(a < b, a, b))
#undef BINARY

INLINE v16 v_fma(v16 a, v16 b, v16 c) { return v_add(v_mul(a, b), c); }

// A line of bfloat16 is eight 32-bit words: column i in the low half, column
// i+8 in the high half of word i.
INLINE int v_lane(int dt, int i) { return dt != GK_BF16 ? i : i < 8 ? 2 * i : 2 * (i - 8) + 1; }

INLINE v16 v_loadw(const int dt, const char *p) {
	if (dt == GK_F32)
		return v_load((const float *)p);
	v16 v = v_zero();
	if (dt == GK_F16) {
		EACH4 for (int j = 0; j < 4; j++) v.q[i][j] = gk_from_f16(((const uint16_t *)p)[4 * i + j]);
		return v;
	}
	for (int i = 0; i < 2; i++) {
		u4 w;
		memcpy(&w, p + 16 * i, 16);
		v.q[i] = (f4)(w << 16);
		v.q[i + 2] = (f4)(w & 0xffff0000u);
	}
	return v;
}

INLINE float v_sum(v16 v) {
	f4 a = (v.q[0] + v.q[2]) + (v.q[1] + v.q[3]);
	return (a[0] + a[2]) + (a[1] + a[3]);
}

INLINE float v_top(v16 v) {
	float m = v.q[0][0];
	EACH4 for (int j = 0; j < 4; j++) m = v.q[i][j] > m ? v.q[i][j] : m;
	return m;
}

INLINE v16 v_or_nan(v16 a, v16 x) {
	EACH4 a.q[i] = (f4)((i4)a.q[i] | (x.q[i] != x.q[i]));
	return a;
}

INLINE v16 v_scale2(v16 y, v16 t) {
	EACH4 {
		i4 n = (i4)t.q[i] - (0x4b400000 - 127);
		y.q[i] *= (f4)(n << 23);
	}
	return y;
}

INLINE v16 v_keep_ge(v16 y, v16 x, float lim) {
	EACH4 y.q[i] = (f4)((i4)y.q[i] & (x.q[i] >= lim));
	return y;
}

INLINE v16 v_drop_lt(v16 y, v16 x, float lim) {
	EACH4 y.q[i] = (f4)((i4)y.q[i] & ~(x.q[i] < lim));
	return y;
}

INLINE v16 v_range(v16 x, int at, int a, int b) {
	const i4 iota = {0, 1, 2, 3};
	EACH4 {
		i4 lane = iota + (at + 4 * i);
		x.q[i] = pick((lane >= a) & (lane < b), x.q[i], (f4){-INFINITY, -INFINITY, -INFINITY, -INFINITY});
	}
	return x;
}

// Sums of masses are exact in float64 (at most 2⁵⁰), in any order.
typedef struct {
	double sum;
} vmass;

INLINE void v_mass_add(vmass *m, v16 w) {
	EACH4 for (int j = 0; j < 4; j++) m->sum += ((double)w.q[i][j] * 0x1p40 + 0x1p52) - 0x1p52;
}

INLINE uint64_t v_mass_sum(const vmass *m) { return (uint64_t)m->sum; }

#define MAX_ROWS 2
#define TILE_LIST(X, dt) X(dt, 1, 2) X(dt, 1, 1) X(dt, 2, 1)
#define ISA_NAME "generic"
#define ISA_TABLE gk_generic
#include "body.h"
