//go:build cgo

// The AVX2 level: AVX2, FMA and F16C; 16 lanes are two registers.
//
// The ladder of Linear in bfloat16, 2 cores of AMD Zen 3, best of 5 alternating
// runs, mean of 3072×576 and 576×1536. T=1 is weight bytes over a plain read of
// memory (18.8 GB/s; above 1 because the last 32 MiB stay in the third-level
// cache); the others are over the cores' FMA rate (177 GFLOP/s).
//
//	                                          T=1   T=4   T=16  T=256
//	generic (SSE2, 2 rows a tile)             0.89  0.22  0.23  0.22
//	1 tiles of 6 rows × 16 columns, or of     1.21  0.26  0.62  0.88
//	  1 row × 4 panels, whose four streams
//	  are what keeps memory busy
//	2 fetch 2 KiB ahead: tiles of more rows   1.16  0.40  0.62  0.79
//	  have one stream
//	3 where several tiles share a panel,      1.14  0.36  0.71  0.83
//	  fetch the next one spread over them
//
//	GOVLLM_CPU_ISA=avx2 go test -run xxx -bench 'Linear/dtype=bf' ./kernels/cpu
//
// A tile alone, weights in the first-level cache, reaches 0.93 or more of the
// FMA rate. bfloat16 costs nothing there: a shift and a mask beside 12 FMAs.
#pragma GCC target("avx2,fma,f16c")
#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include "gk.h"

typedef struct {
	__m256 lo, hi;
} v16;

INLINE v16 v_load(const float *p) { return (v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
INLINE void v_store(float *p, v16 v) {
	_mm256_storeu_ps(p, v.lo);
	_mm256_storeu_ps(p + 8, v.hi);
}
INLINE v16 v_set1(float f) {
	__m256 v = _mm256_set1_ps(f);
	return (v16){v, v};
}
INLINE v16 v_zero(void) { return v_set1(0); }

#define EACH(name, op) \
	INLINE v16 name(v16 a, v16 b) { return (v16){op(a.lo, b.lo), op(a.hi, b.hi)}; }
EACH(v_add, _mm256_add_ps)
EACH(v_sub, _mm256_sub_ps)
EACH(v_mul, _mm256_mul_ps)
EACH(v_div, _mm256_div_ps)
EACH(v_max, _mm256_max_ps)
EACH(v_min, _mm256_min_ps)
#undef EACH

INLINE v16 v_fma(v16 a, v16 b, v16 c) {
	return (v16){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}

// A line of bfloat16 is eight 32-bit words: column i in the low half, column
// i+8 in the high half of word i. So one load, one shift and one mask widen it.
INLINE int v_lane(int dt, int i) { return dt != GK_BF16 ? i : i < 8 ? 2 * i : 2 * (i - 8) + 1; }

INLINE v16 v_loadw(const int dt, const char *p) {
	if (dt == GK_F32)
		return v_load((const float *)p);
	if (dt == GK_F16) {
		const __m128i *h = (const __m128i *)p;
		return (v16){_mm256_cvtph_ps(_mm_loadu_si128(h)), _mm256_cvtph_ps(_mm_loadu_si128(h + 1))};
	}
	__m256i w = _mm256_loadu_si256((const __m256i *)p);
	return (v16){_mm256_castsi256_ps(_mm256_slli_epi32(w, 16)),
		_mm256_castsi256_ps(_mm256_and_si256(w, _mm256_set1_epi32((int)0xffff0000)))};
}

INLINE float v_sum(v16 v) {
	__m256 a = _mm256_add_ps(v.lo, v.hi);
	__m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
	b = _mm_add_ps(b, _mm_movehl_ps(b, b));
	return _mm_cvtss_f32(_mm_add_ss(b, _mm_shuffle_ps(b, b, 1)));
}

INLINE float v_top(v16 v) {
	__m256 a = _mm256_max_ps(v.lo, v.hi);
	__m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
	b = _mm_max_ps(b, _mm_movehl_ps(b, b));
	return _mm_cvtss_f32(_mm_max_ss(b, _mm_shuffle_ps(b, b, 1)));
}

INLINE v16 v_or_nan(v16 a, v16 x) {
	return (v16){_mm256_or_ps(a.lo, _mm256_cmp_ps(x.lo, x.lo, _CMP_UNORD_Q)),
		_mm256_or_ps(a.hi, _mm256_cmp_ps(x.hi, x.hi, _CMP_UNORD_Q))};
}

INLINE __m256 scale2(__m256 y, __m256 t) {
	__m256i n = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(0x4b400000 - 127));
	return _mm256_mul_ps(y, _mm256_castsi256_ps(_mm256_slli_epi32(n, 23)));
}
INLINE v16 v_scale2(v16 y, v16 t) { return (v16){scale2(y.lo, t.lo), scale2(y.hi, t.hi)}; }

INLINE v16 v_keep_ge(v16 y, v16 x, float lim) {
	__m256 l = _mm256_set1_ps(lim);
	return (v16){_mm256_and_ps(y.lo, _mm256_cmp_ps(x.lo, l, _CMP_GE_OQ)),
		_mm256_and_ps(y.hi, _mm256_cmp_ps(x.hi, l, _CMP_GE_OQ))};
}

INLINE v16 v_drop_lt(v16 y, v16 x, float lim) {
	__m256 l = _mm256_set1_ps(lim);
	return (v16){_mm256_andnot_ps(_mm256_cmp_ps(x.lo, l, _CMP_LT_OQ), y.lo),
		_mm256_andnot_ps(_mm256_cmp_ps(x.hi, l, _CMP_LT_OQ), y.hi)};
}

INLINE __m256 range8(__m256 x, int at, int a, int b) {
	__m256i i = _mm256_add_epi32(_mm256_set1_epi32(at), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
	__m256i in = _mm256_and_si256(_mm256_cmpgt_epi32(i, _mm256_set1_epi32(a - 1)), _mm256_cmpgt_epi32(_mm256_set1_epi32(b), i));
	return _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), x, _mm256_castsi256_ps(in));
}
INLINE v16 v_range(v16 x, int at, int a, int b) { return (v16){range8(x.lo, at, a, b), range8(x.hi, at + 8, a, b)}; }

// A mass is an integer of at most 2⁴⁰, a sum of 1024 of them at most 2⁵⁰: exact
// in float64, in any order.
typedef struct {
	__m256d a, b;
} vmass;

INLINE __m256d mass4(__m128 w) {
	const __m256d round = _mm256_set1_pd(0x1p52);
	return _mm256_sub_pd(_mm256_add_pd(_mm256_mul_pd(_mm256_cvtps_pd(w), _mm256_set1_pd(0x1p40)), round), round);
}

INLINE void v_mass_add(vmass *m, v16 w) {
	m->a = _mm256_add_pd(m->a, _mm256_add_pd(mass4(_mm256_castps256_ps128(w.lo)), mass4(_mm256_extractf128_ps(w.lo, 1))));
	m->b = _mm256_add_pd(m->b, _mm256_add_pd(mass4(_mm256_castps256_ps128(w.hi)), mass4(_mm256_extractf128_ps(w.hi, 1))));
}

INLINE uint64_t v_mass_sum(const vmass *m) {
	double t[4];
	_mm256_storeu_pd(t, _mm256_add_pd(m->a, m->b));
	return (uint64_t)(t[0] + t[1] + t[2] + t[3]);
}

#define MAX_ROWS 6
#define TILE_LIST(X, dt) X(dt, 1, 4) X(dt, 1, 2) X(dt, 1, 1) X(dt, 2, 2) X(dt, 2, 1) X(dt, 3, 1) X(dt, 4, 1) X(dt, 5, 1) X(dt, 6, 1)
#define ISA_NAME "avx2"
#define ISA_TABLE gk_avx2
#include "body.h"
