// The kernels, written once over 16 lanes. A level includes this file after it
// has defined
//
//	v16               16 floats, and v_load, v_store, v_zero, v_set1, v_add,
//	                  v_sub, v_mul, v_div
//	v_fma(a, b, c)    a·b + c, fused or not, but always the same way
//	v_max, v_min      the second argument where either is NaN
//	v_loadw(dt, p)    16 weights of a panel line, as floats
//	v_lane(dt, i)     where column i lies in that line
//	v_sum(v)          the sum: lanes 8 apart, then 4, 2, 1
//	v_top(v)          the highest lane; no NaN
//	v_or_nan(a, x)    a, with NaN where x is NaN
//	v_scale2(y, t)    y·2ⁿ for t = n + 3·2²²
//	v_keep_ge(y, x, lim)   y where x ≥ lim, else 0 (also where x is NaN)
//	v_drop_lt(y, x, lim)   0 where x < lim, else y (also where x is NaN)
//	v_range(x, at, a, b)   x where a ≤ at+lane < b, else −Inf
//	vmass, v_mass_add, v_mass_sum   exact sums of masses (see sample)
//	MAX_ROWS          rows of x that a register tile takes
//	ISA_NAME, ISA_TABLE
//
// Every output of tile is one chain of v_fma over k, ascending, from 0. It does
// not matter how many rows or panels are computed at once, where K is cut (the
// chain's value is stored and loaded again), or which thread does it. That is
// the whole of the determinism promise: all products are made by tile.
#include <string.h>
#include "gk.h"

// tile adds x·w to acc, for R rows and NP panels whose lines lie in num pieces
// of K lines each.
//
//	x    row r at x + r·xs, num·K values
//	w    piece i of panel p at w[i] + off + p·ws bytes: lines of 16
//	acc  16 sums of (r, p) at acc + r·ars + p·aps; taken as 0 if first
//
// Each line also fetches ahead, and moves that on by pace: one stream alone
// keeps too little in flight. NULL is 2 KiB further on in the same piece.
INLINE void tile(const int dt, const int R, const int NP, const float *x, int64_t xs, const char *const *w, int num,
	int64_t off, int64_t ws, int K, float *acc, int64_t ars, int64_t aps, int first, const char *ahead, int pace) {
	const int line = dt == GK_F32 ? 64 : 32;
	v16 a[MAX_ROWS][4];
#pragma GCC unroll 8
	for (int r = 0; r < R; r++)
#pragma GCC unroll 4
		for (int p = 0; p < NP; p++)
			a[r][p] = first ? v_zero() : v_load(acc + r * ars + p * aps);
	for (int i = 0; i < num; i++, x += K) {
		const char *l = w[i] + off, *pre = ahead ? ahead + i * K * pace : l + 2048;
		for (int k = 0; k < K; k++, l += line, pre += pace) {
			v16 b[4];
#pragma GCC unroll 4
			for (int p = 0; p < NP; p++)
				b[p] = v_loadw(dt, l + p * ws);
			__builtin_prefetch(pre);
#pragma GCC unroll 8
			for (int r = 0; r < R; r++) {
				v16 s = v_set1(x[r * xs + k]);
#pragma GCC unroll 4
				for (int p = 0; p < NP; p++)
					a[r][p] = v_fma(s, b[p], a[r][p]);
			}
		}
	}
#pragma GCC unroll 8
	for (int r = 0; r < R; r++)
#pragma GCC unroll 4
		for (int p = 0; p < NP; p++)
			v_store(acc + r * ars + p * aps, a[r][p]);
}

#define TILE_ARGS \
	const float *x, int64_t xs, const char *const *w, int num, int64_t off, int64_t ws, int K, float *acc, int64_t ars, \
		int64_t aps, int first, const char *ahead, int pace
typedef void (*tile_fn)(TILE_ARGS);

#define TILE(dt, R, NP) \
	static void tile_##dt##_##R##_##NP(TILE_ARGS) { tile(dt, R, NP, x, xs, w, num, off, ws, K, acc, ars, aps, first, ahead, pace); }
#define TILES_OF(dt) TILE_LIST(TILE, dt)
TILES_OF(GK_F32)
TILES_OF(GK_BF16)
TILES_OF(GK_F16)

#define TILE_ENTRY(dt, R, NP) [R][NP] = tile_##dt##_##R##_##NP,
static const tile_fn tile_table[4][MAX_ROWS + 1][5] = {
	[GK_F32] = {TILE_LIST(TILE_ENTRY, GK_F32)},
	[GK_BF16] = {TILE_LIST(TILE_ENTRY, GK_BF16)},
	[GK_F16] = {TILE_LIST(TILE_ENTRY, GK_F16)},
};

// panels adds x·w to acc for any number of panels.
static void panels(int dt, int R, int np, TILE_ARGS) {
	const tile_fn *f = tile_table[dt][R];
	for (int n = 4; np > 0; n /= 2) {
		if (!f[n])
			continue;
		for (; np >= n; np -= n, off += n * ws, acc += n * aps)
			f[n](x, xs, w, num, off, ws, K, acc, ars, aps, first, ahead, pace);
	}
}

// part loads n < 16 floats, the rest 0.
INLINE v16 v_load_part(const float *p, int n) {
	float t[16] = {0};
	memcpy(t, p, n * sizeof *p);
	return v_load(t);
}

INLINE void v_store_part(float *p, v16 v, int n) {
	float t[16];
	v_store(t, v);
	memcpy(p, t, n * sizeof *p);
}

// exp_core is e^x for x in [−87, 88]. Its operations are those of ref.Exp, one
// by one and never fused, so its bits are the same.
INLINE v16 exp_core(v16 x) {
	v16 t = v_add(v_mul(x, v_set1(0x1.715476p+0f)), v_set1(12582912.0f));
	v16 n = v_sub(t, v_set1(12582912.0f));
	v16 r = v_sub(x, v_mul(n, v_set1(0x1.63p-1f)));
	r = v_sub(r, v_mul(n, v_set1(-0x1.bd0106p-13f)));
	v16 y = v_set1(1.9875691500e-4f);
	y = v_add(v_mul(y, r), v_set1(1.3981999507e-3f));
	y = v_add(v_mul(y, r), v_set1(8.3334519073e-3f));
	y = v_add(v_mul(y, r), v_set1(4.1665795894e-2f));
	y = v_add(v_mul(y, r), v_set1(1.6666665459e-1f));
	y = v_add(v_mul(y, r), v_set1(5.0000001201e-1f));
	y = v_add(v_mul(y, v_mul(r, r)), r);
	y = v_add(y, v_set1(1.0f));
	return v_scale2(y, t);
}

// v_exp is e^x: 0 below −87, e^88 above 88, NaN for NaN. Error below 1.2e-7.
INLINE v16 v_exp(v16 x) {
	v16 c = v_min(v_set1(88.0f), v_max(v_set1(-87.0f), x));
	return v_drop_lt(exp_core(c), x, -87.0f);
}

// v_exp_or_0 is e^x for x ≤ 0, and 0 below −87 and for NaN.
INLINE v16 v_exp_or_0(v16 x) { return v_keep_ge(exp_core(x), x, -87.0f); }

// exp_of is v_exp of one number.
static float exp_of(float x) {
	float t[16];
	v_store(t, v_exp(v_set1(x)));
	return t[0];
}

// rms_scale returns 1/√(mean(x²)+eps) over n columns.
INLINE v16 rms_scale(const float *x, float eps, int n) {
	v16 a = v_zero(), b = v_zero();
	int i = 0;
	for (; i + 32 <= n; i += 32) {
		v16 u = v_load(x + i), v = v_load(x + i + 16);
		a = v_fma(u, u, a);
		b = v_fma(v, v, b);
	}
	for (; i < n; i += 16) {
		v16 u = n - i >= 16 ? v_load(x + i) : v_load_part(x + i, n - i);
		a = v_fma(u, u, a);
	}
	return v_set1(1.0f / __builtin_sqrtf(v_sum(v_add(a, b)) / n + eps));
}

// rms_norm sets out = x/√(mean(x²)+eps)·w over n columns. out may be x.
static void rms_norm(float *out, const float *x, const float *w, float eps, int n) {
	v16 inv = rms_scale(x, eps, n);
	int i = 0;
	for (; i + 16 <= n; i += 16)
		v_store(out + i, v_mul(v_mul(v_load(x + i), inv), v_load(w + i)));
	if (i < n)
		v_store_part(out + i, v_mul(v_mul(v_load_part(x + i, n - i), inv), v_load_part(w + i, n - i)), n - i);
}

// GK_RMSNORM: out[t] = norm of x[t] by bias, eps f0.
static void run_rms_norm(gk_op *op, int chunk, gk_worker *wk) {
	int end = (chunk + 1) * op->rows_per_chunk;
	for (int t = chunk * op->rows_per_chunk; t < end && t < op->T; t++)
		rms_norm(op->out.data + t * op->out.stride, op->x.data + t * op->x.stride, op->bias, op->f0, op->x.cols);
}

// GK_ADD_RMSNORM: the same, added to out[t]. Rows and vectors are padded to 16.
static void run_add_rms_norm(gk_op *op, int chunk, gk_worker *wk) {
	int end = (chunk + 1) * op->rows_per_chunk;
	for (int t = chunk * op->rows_per_chunk; t < end && t < op->T; t++) {
		float *out = op->out.data + t * op->out.stride;
		const float *x = op->x.data + t * op->x.stride;
		v16 inv = rms_scale(x, op->f0, op->x.cols);
		for (int i = 0; i < op->x.cols; i += 16)
			v_store(out + i, v_add(v_load(out + i), v_mul(v_mul(v_load(x + i), inv), v_load(op->bias + i))));
	}
}

// rows_of returns how many of the rows left go into the next register tile, so
// that tiles are of about one size.
INLINE int rows_of(int left) { return gk_ceil(left, gk_ceil(left, MAX_ROWS)); }

// GK_LINEAR: out = x·wᵀ + bias, or added to out if flag. A chunk is a block of
// rows of a group of panels; one group's blocks follow each other.
static void run_linear(gk_op *op, int chunk, gk_worker *wk) {
	const gk_weight *m = op->w;
	int K = m->k, dt = m->dtype;
	int blocks = gk_ceil(op->T, op->rows_per_chunk), total = gk_ceil(m->n, GK_LANES);
	int row0 = chunk % blocks * op->rows_per_chunk, rows = op->T - row0;
	if (rows > op->rows_per_chunk)
		rows = op->rows_per_chunk;
	int panel0 = chunk / blocks * op->cols_per_chunk, np = total - panel0;
	if (np > op->cols_per_chunk)
		np = op->cols_per_chunk;
	int64_t line = GK_LANES * gk_size(dt), ws = line * K, xs = op->x.stride;
	const char *w = (const char *)m->data + panel0 * ws;
	const float *x = op->x.data + row0 * xs;
	float *acc = (float *)wk->scratch; // [np][rows][16]
	int64_t aps = rows * GK_LANES;

	if (rows <= MAX_ROWS) {
		panels(dt, rows, np, x, xs, &w, 1, 0, ws, K, acc, GK_LANES, aps, 1, NULL, line);
	} else {
		// A panel's piece of 16 KiB stays in the first-level cache while the
		// rows pass over it; the rows' piece stays in the second for np panels.
		int step = gk_ceil(K, gk_ceil(K, 16384 / line));
		for (int k = 0; k < K; k += step) {
			int kn = K - k < step ? K - k : step;
			for (int p = 0; p < np; p++) {
				const char *next = w + (p + 1) * ws + k * line;
				int pace = line / gk_ceil(rows, MAX_ROWS);
				for (int r = 0, n; r < rows; r += n) {
					n = rows_of(rows - r);
					panels(dt, n, 1, x + r * xs + k, xs, &w, 1, p * ws + k * line, ws, kn,
						acc + p * aps + r * GK_LANES, GK_LANES, aps, k == 0, next + r * kn * pace / MAX_ROWS, pace);
				}
			}
		}
	}
	for (int r = 0; r < rows; r++) {
		float *out = op->out.data + (row0 + r) * op->out.stride + panel0 * GK_LANES;
		for (int p = 0; p < np; p++) {
			v16 y = v_load(acc + p * aps + r * GK_LANES);
			// Rows and vectors are padded to 16, so a whole line may be read
			// and written.
			if (op->bias)
				y = v_add(y, v_load(op->bias + (panel0 + p) * GK_LANES));
			if (op->flag)
				y = v_add(y, v_load(out + p * GK_LANES));
			v_store(out + p * GK_LANES, y);
		}
	}
}

// GK_LINEAR_EACH: out[s] = ws[idx[s]]·x[s/each] for s < T. A chunk is a group of
// panels of one matrix, over the rows that are its own: gathered, then one
// register tile after the other.
static void run_linear_each(gk_op *op, int chunk, gk_worker *wk) {
	int total = gk_ceil(op->ws[0]->n, GK_LANES), groups = gk_ceil(total, op->cols_per_chunk);
	int id = chunk / groups, panel0 = chunk % groups * op->cols_per_chunk, np = total - panel0;
	if (np > op->cols_per_chunk)
		np = op->cols_per_chunk;
	const gk_weight *m = op->ws[id];
	int K = m->k, n = 0, rows[MAX_ROWS];
	int64_t line = GK_LANES * gk_size(m->dtype), ws = line * K;
	const char *w = (const char *)m->data + panel0 * ws;
	float *x = (float *)wk->scratch, *acc = x + MAX_ROWS * K;
	for (int s = 0; s < op->T; s++) {
		if (chunk == 0 && (op->idx.data[s] < 0 || op->idx.data[s] >= op->num_ws))
			gk_fail(wk, op, GK_MATRIX, s, op->idx.data[s], op->num_ws);
		if (op->idx.data[s] == id) {
			memcpy(x + n * K, op->x.data + s / op->each * op->x.stride, sizeof *x * K);
			rows[n++] = s;
		}
		if (n == 0 || (n < MAX_ROWS && s < op->T - 1))
			continue;
		panels(m->dtype, n, np, x, K, &w, 1, 0, ws, K, acc, GK_LANES, n * GK_LANES, 1, NULL, line);
		for (int r = 0; r < n; r++) {
			float *out = op->out.data + rows[r] * op->out.stride + panel0 * GK_LANES;
			for (int p = 0; p < np; p++)
				v_store(out + p * GK_LANES, v_load(acc + (p * n + r) * GK_LANES));
		}
		n = 0;
	}
}

// GK_ROUTE: the idx.len/T highest columns of x[t], and their parts of the
// softmax in out[t]; flag: over those alone.
static void run_route(gk_op *op, int chunk, gk_worker *wk) {
	int end = (chunk + 1) * op->rows_per_chunk, k = op->out.cols;
	for (int t = chunk * op->rows_per_chunk; t < end && t < op->T; t++) {
		const float *x = op->x.data + t * op->x.stride;
		int32_t *ids = op->idx.data + (int64_t)t * k;
		float *out = op->out.data + t * op->out.stride, sum = 0;
		for (int j = 0; j < k; j++) {
			int best = -1;
			for (int i = 0; i < op->x.cols; i++) {
				int taken = 0;
				for (int h = 0; h < j; h++)
					taken |= ids[h] == i;
				if (!taken && (best < 0 || x[i] > x[best]))
					best = i;
			}
			ids[j] = best;
			out[j] = exp_of(x[best] - x[ids[0]]);
			sum += out[j];
		}
		if (!op->flag) {
			sum = 0;
			for (int i = 0; i < op->x.cols; i++)
				sum += exp_of(x[i] - x[ids[0]]);
		}
		for (int j = 0; j < k; j++)
			out[j] /= sum;
	}
}

// GK_ADD_WEIGHTED: adds Σ w[t, j]·x[t·k+j] to out[t]; src is w's gk_act. Rows are
// padded to 16.
static void run_add_weighted(gk_op *op, int chunk, gk_worker *wk) {
	const gk_act *w = op->src;
	int end = (chunk + 1) * op->rows_per_chunk, k = w->cols;
	for (int t = chunk * op->rows_per_chunk; t < end && t < op->T; t++)
		for (int i = 0; i < op->out.cols; i += 16) {
			float *out = op->out.data + t * op->out.stride + i;
			v16 sum = v_zero();
			for (int j = 0; j < k; j++)
				sum = v_fma(v_set1(w->data[t * w->stride + j]), v_load(op->x.data + ((int64_t)t * k + j) * op->x.stride + i), sum);
			v_store(out, v_add(v_load(out), sum));
		}
}

// gate returns x·σ(x), or the tanh approximation of GELU: with
// y = √(2/π)·(x + 0.044715·x³) that is x·(1+tanh(y))/2 = x·σ(2y).
INLINE v16 gate(v16 x, int gelu) {
	v16 y = x;
	if (gelu) {
		v16 cube = v_mul(v_mul(x, x), x);
		y = v_mul(v_set1(1.5957691216f), v_fma(v_set1(0.044715f), cube, x));
	}
	return v_div(x, v_add(v_set1(1.0f), v_exp(v_sub(v_zero(), y))));
}

// GK_GATE: out[t, i] = gate(x[t, i])·x[t, F+i]; flag is the kind.
static void run_gate(gk_op *op, int chunk, gk_worker *wk) {
	int F = op->out.cols, blocks = gk_ceil(F, op->cols_per_chunk);
	int t = chunk / blocks, i = chunk % blocks * op->cols_per_chunk;
	int end = i + op->cols_per_chunk < F ? i + op->cols_per_chunk : F;
	const float *g = op->x.data + t * op->x.stride, *u = g + F;
	float *out = op->out.data + t * op->out.stride;
	for (; i + 16 <= end; i += 16)
		v_store(out + i, v_mul(gate(v_load(g + i), op->flag), v_load(u + i)));
	if (i < end)
		v_store_part(out + i, v_mul(gate(v_load_part(g + i, end - i), op->flag), v_load_part(u + i, end - i)), end - i);
}

// soft_cap returns cap·tanh(x/cap) = cap·(1 − 2/(e^(2x/cap)+1)).
INLINE v16 soft_cap(v16 x, float cap) {
	v16 e = v_exp(v_mul(x, v_set1(2.0f / cap)));
	return v_mul(v_set1(cap), v_sub(v_set1(1.0f), v_div(v_set1(2.0f), v_add(e, v_set1(1.0f)))));
}

// GK_SOFTCAP: x[t, i] = soft_cap of it by f0. Rows are padded to 16.
static void run_soft_cap(gk_op *op, int chunk, gk_worker *wk) {
	int blocks = gk_ceil(op->x.cols, op->cols_per_chunk), i = chunk % blocks * op->cols_per_chunk;
	float *x = op->x.data + chunk / blocks * op->x.stride;
	for (int end = i + op->cols_per_chunk; i < end && i < op->x.cols; i += 16)
		v_store(x + i, soft_cap(v_load(x + i), op->f0));
}

// turn rotates the pairs of a head: (x, y) → (x·c − y·s, y·c + x·s).
INLINE void turn(float *restrict h, const float *restrict c, const float *restrict s, int half, int interleaved) {
	if (interleaved)
		for (int i = 0; i < half; i++) {
			float x = h[2 * i], y = h[2 * i + 1];
			h[2 * i] = x * c[i] - y * s[i];
			h[2 * i + 1] = y * c[i] + x * s[i];
		}
	else
		for (int i = 0; i < half; i++) {
			float x = h[i], y = h[i + half];
			h[i] = x * c[i] - y * s[i];
			h[i + half] = y * c[i] + x * s[i];
		}
}

// GK_ROPE_WRITE: turns q and k of row t = chunk of x by position idx[t] and
// writes k and v to slot idx2[t]. bias and bias2 are the q and k norms.
static void run_rope_write(gk_op *op, int t, gk_worker *wk) {
	const gk_shape *s = &op->shape;
	const gk_kv *kv = op->kv;
	int64_t pos = op->idx.data[t], slot = op->idx2.data[t], slots = (int64_t)kv->blocks * kv->block_size;
	if (pos < 0 || pos >= op->positions) {
		gk_fail(wk, op, GK_POSITION, t, pos, op->positions);
		return;
	}
	if (slot < 0 || slot >= slots) {
		gk_fail(wk, op, GK_SLOT, t, slot, slots);
		return;
	}
	int hd = s->head_dim, half = op->rotary / 2, dt = kv->dtype;
	float *row = op->x.data + t * op->x.stride;
	for (int h = 0; h < s->heads + s->kv_heads; h++) {
		const float *norm = h < s->heads ? op->bias : op->bias2;
		if (norm)
			rms_norm(row + h * hd, row + h * hd, norm, op->f0, hd);
		turn(row + h * hd, op->cos + pos * half, op->sin + pos * half, half, op->style);
	}
	int64_t block = slot / kv->block_size, at = slot % kv->block_size;
	int units = kv->block_size / GK_LANES, lane = v_lane(dt, at % GK_LANES);
	const float *k = row + s->heads * hd, *v = k + s->kv_heads * hd;
	for (int h = 0; h < s->kv_heads; h++, k += hd, v += hd) {
		char *unit = kv->data + op->layer * kv->layer_bytes + block * kv->block_bytes +
			(h * units + at / GK_LANES) * kv->unit_bytes;
		for (int i = 0; i < hd; i++)
			gk_put(dt, unit, i * GK_LANES + lane, k[i]);
		unit += kv->k_bytes;
		for (int i = 0; i < hd; i++)
			gk_put(dt, unit, (i / GK_LANES * GK_LANES + at % GK_LANES) * GK_LANES + v_lane(dt, i % GK_LANES), v[i]);
	}
}

// The state of one attention item: rows are (query, head of the group).
typedef struct {
	const gk_op *op;
	int hd, hdp, group, rows, pos0; // pos0: position of the first query
	float *q;                       // [rows][hd]
	float *top, *sum, *acc;         // [rows], [rows], [rows][hdp]
	float *scores;                  // [MAX_ROWS][GK_PART]
	const char *units[GK_PART / GK_LANES];
	const char *next[GK_PART / GK_LANES]; // the next partition's units
} attn;

// range sets the positions of a partition, from its start, that row r sees.
INLINE void range(const attn *a, int r, int part, int *lo, int *hi) {
	int pos = a->pos0 + r / a->group, window = a->op->shape.window, base = part * GK_PART;
	int first = window > 0 && pos - window + 1 > 0 ? pos - window + 1 : 0;
	*lo = first > base ? first - base : 0;
	*hi = pos + 1 - base < GK_PART ? pos + 1 - base : GK_PART;
}

// soften turns the raw scores of n rows into weights e^(score−top) and returns
// each row's top and sum; a sum of −1 says that the row sees nothing here. It
// goes by phases over all rows: a row's own steps wait for each other.
static void soften(const attn *a, int n, const int *lo, const int *hi, float *top, float *sum) {
	const gk_shape *s = &a->op->shape;
	v16 l[MAX_ROWS];
	for (int r = 0; r < n; r++) {
		float *score = a->scores + r * GK_PART;
		v16 m = v_set1(-INFINITY);
		for (int i = 0; i < GK_PART; i += 16) {
			v16 v = v_mul(v_load(score + i), v_set1(s->scale));
			if (s->softcap > 0)
				v = soft_cap(v, s->softcap);
			if (lo[r] > 0 || hi[r] < GK_PART)
				v = v_range(v, i, lo[r], hi[r]);
			m = v_max(v, m);
			v_store(score + i, v);
		}
		top[r] = v_top(m);
	}
	for (int r = 0; r < n; r++) {
		float *score = a->scores + r * GK_PART;
		l[r] = v_zero();
#pragma GCC unroll 4
		for (int i = 0; i < GK_PART; i += 16) {
			v16 w = v_exp(v_sub(v_load(score + i), v_set1(top[r])));
			l[r] = v_add(l[r], w);
			v_store(score + i, w);
		}
	}
	for (int r = 0; r < n; r++)
		sum[r] = lo[r] < hi[r] ? v_sum(l[r]) : -1;
}

// weigh adds Σ weight·v over positions [lo, hi) of the partition to n rows.
static void weigh(const attn *a, int n, const float *weights, float *acc, int lo, int hi) {
	const gk_kv *kv = a->op->kv;
	int64_t line = GK_LANES * gk_size(kv->dtype), ws = GK_LANES * line;
	while (lo < hi) {
		int u = lo / GK_LANES, from = lo % GK_LANES, num = 1, lines = GK_LANES - from;
		if (from == 0 && hi - lo >= GK_LANES)
			num = (hi - lo) / GK_LANES; // whole units
		else if (lines > hi - lo)
			lines = hi - lo;
		panels(kv->dtype, n, a->hdp / GK_LANES, weights + lo, GK_PART, &a->units[u], num,
			kv->k_bytes + from * line, ws, lines, acc, a->hdp, GK_LANES, 0, NULL, line);
		lo += num * lines;
	}
}

// weigh_ahead is weigh over a whole partition that fetches the next one, whose
// units may lie anywhere: each panel of v fetches its share of them.
static void weigh_ahead(const attn *a, int n, const float *weights, float *acc) {
	const gk_kv *kv = a->op->kv;
	const int units = GK_PART / GK_LANES, np = a->hdp / GK_LANES;
	int64_t line = GK_LANES * gk_size(kv->dtype), ws = GK_LANES * line, share = units * kv->unit_bytes / np;
	for (int p = 0; p < np; p++) {
		int64_t at = p * share;
		const char *ahead = a->next[at / kv->unit_bytes] + at % kv->unit_bytes;
		panels(kv->dtype, n, 1, weights, GK_PART, a->units, units, kv->k_bytes + p * ws, ws, GK_LANES,
			acc + p * GK_LANES, a->hdp, GK_LANES, 0, ahead, share / GK_PART);
	}
}

// partition computes rows [r0, r0+n) over one partition by itself: the highest
// score, the sum of weights and the weighted sum of v.
static void partition(const attn *a, int part, int r0, int n, float *top, float *sum, float *acc) {
	const gk_kv *kv = a->op->kv;
	int lo[MAX_ROWS] = {0}, hi[MAX_ROWS] = {0}, first = GK_PART, last = 0, lo_max = 0, hi_min = GK_PART;
	for (int r = 0; r < n; r++) {
		range(a, r0 + r, part, &lo[r], &hi[r]);
		if (lo[r] >= hi[r])
			lo[r] = hi[r] = 0;
		else {
			first = lo[r] < first ? lo[r] : first;
			last = hi[r] > last ? hi[r] : last;
		}
		lo_max = lo[r] > lo_max ? lo[r] : lo_max;
		hi_min = hi[r] < hi_min ? hi[r] : hi_min;
	}
	for (int u = first / GK_LANES; u * GK_LANES < last;) {
		int run = 1; // units side by side in memory
		while ((u + run) * GK_LANES < last && a->units[u + run] == a->units[u] + run * kv->unit_bytes)
			run++;
		panels(kv->dtype, n, run, a->q + r0 * a->hd, a->hd, &a->units[u], 1, 0, kv->unit_bytes, a->hd,
			a->scores + u * GK_LANES, GK_PART, GK_LANES, 1, NULL, GK_LANES * gk_size(kv->dtype));
		u += run;
	}
	soften(a, n, lo, hi, top, sum);
	memset(acc, 0, sizeof(float) * n * a->hdp);
	// What a row does not see must not be multiplied even by 0: it may be NaN.
	// So the rows go together only over what all of them see.
	if (lo_max >= hi_min)
		lo_max = hi_min = GK_PART;
	for (int r = 0; r < n; r++)
		weigh(a, 1, a->scores + r * GK_PART, acc + r * a->hdp, lo[r], hi[r] < lo_max ? hi[r] : lo_max);
	if (r0 == 0 && n > 2 && lo_max == 0 && hi_min == GK_PART && a->next[GK_PART / GK_LANES - 1])
		weigh_ahead(a, n, a->scores, acc);
	else
		weigh(a, n, a->scores, acc, lo_max, hi_min);
	for (int r = 0; r < n; r++)
		weigh(a, 1, a->scores + r * GK_PART, acc + r * a->hdp, lo[r] > hi_min ? lo[r] : hi_min, hi[r]);
}

// merge joins the next partition's result of a row to those before it.
INLINE void merge(attn *a, int r, float top, float sum, const float *acc) {
	if (sum < 0)
		return;
	float *out = a->acc + r * a->hdp;
	if (a->sum[r] < 0) {
		a->top[r] = top;
		a->sum[r] = sum;
		memcpy(out, acc, sizeof(float) * a->hdp);
		return;
	}
	float high = a->top[r] > top ? a->top[r] : top, pair[16] = {a->top[r], top}, e[16];
	v_store(e, v_exp(v_sub(v_load(pair), v_set1(high))));
	a->top[r] = high;
	a->sum[r] = a->sum[r] * e[0] + sum * e[1];
	v16 f = v_set1(e[0]), g = v_set1(e[1]);
	for (int i = 0; i < a->hdp; i += 16)
		v_store(out + i, v_add(v_mul(v_load(out + i), f), v_mul(v_load(acc + i), g)));
}

// find_units sets where a partition's units are, NULL beyond the sequence.
static void find_units(const attn *a, const char **units, const gk_item *it, int part) {
	const gk_kv *kv = a->op->kv;
	const int32_t *table = a->op->idx3.data + (int64_t)it->seq * a->op->max_blocks;
	int len = a->op->idx2.data[it->seq], per_block = kv->block_size / GK_LANES;
	for (int i = 0; i < GK_PART / GK_LANES; i++) {
		int unit = part * (GK_PART / GK_LANES) + i;
		if (unit * GK_LANES >= len) {
			units[i] = NULL;
			continue;
		}
		units[i] = kv->data + a->op->layer * kv->layer_bytes + table[unit / per_block] * kv->block_bytes +
			(it->kv_head * per_block + unit % per_block) * kv->unit_bytes;
	}
}

static void finish(attn *a, const gk_item *it, int row0) {
	for (int r = 0; r < a->rows; r++) {
		const gk_act *o = &a->op->out;
		float *out = o->data + (row0 + r / a->group) * o->stride + (it->kv_head * a->group + r % a->group) * a->hd;
		const float *acc = a->acc + r * a->hdp;
		v16 inv = v_set1(1.0f / a->sum[r]);
		int i = 0;
		for (; i + 16 <= a->hd; i += 16)
			v_store(out + i, v_mul(v_load(acc + i), inv));
		if (i < a->hd)
			v_store_part(out + i, v_mul(v_load(acc + i), inv), a->hd - i);
	}
}

// The ladder of a decode step's attention, bfloat16, 9 heads on 3 of 64, AVX2 on
// 2 cores of AMD Zen 3: time over that of the last version, best of 5 alternating
// runs (1 sequence at 4096 tokens; 16 at 256). The last reads the cache at 0.9
// of a plain read's 18.8 GB/s.
//
//	1 a call of tile for each 16 positions of v       1.61  1.45
//	2 one for the 4 units of a partition, 2 KiB ahead 1.52  1.33
//	3 fetch the next partition beside the sums of v   1     1
//
//	go test -run xxx -bench Attention ./kernels/cpu
//
// A prompt's attention spends three fifths of its time in tile, at the cores'
// FMA rate; a quarter goes to exp and to merging.

// GK_ATTENTION: item chunk of the plan. out and x (qkv) are rows of the batch.
static void run_attention(gk_op *op, int chunk, gk_worker *wk) {
	const gk_item *it = &op->plan->items[chunk];
	const gk_shape *s = &op->shape;
	const int32_t *start = op->idx.data, *lens = op->idx2.data;
	attn a = {.op = op, .hd = s->head_dim, .hdp = gk_ceil(s->head_dim, GK_LANES) * GK_LANES, .group = s->heads / s->kv_heads};
	a.rows = it->nq * a.group;
	a.pos0 = lens[it->seq] - (start[it->seq + 1] - start[it->seq]) + it->q0;
	float *p = (float *)wk->scratch;
	a.acc = p, p += a.rows * a.hdp;
	a.scores = p, p += MAX_ROWS * GK_PART;
	float *acc = p; // [MAX_ROWS][hdp]
	p += MAX_ROWS * a.hdp;
	a.top = p, p += a.rows;
	a.sum = p, p += a.rows;
	a.q = p;
	int row0 = start[it->seq] + it->q0;
	for (int i = 0; i < it->nq; i++)
		memcpy(a.q + i * a.group * a.hd, op->x.data + (row0 + i) * op->x.stride + it->kv_head * a.group * a.hd,
			sizeof(float) * a.group * a.hd);
	for (int r = 0; r < a.rows; r++)
		a.sum[r] = -1;

	// Partial results are [partition][rows] of top, sum, and then [hdp].
	int64_t part_floats = (int64_t)a.rows * (a.hdp + 2);
	find_units(&a, a.next, it, it->part0);
	for (int part = it->part0; part < it->part1; part++) {
		memcpy(a.units, a.next, sizeof a.units);
		memset(a.next, 0, sizeof a.next);
		if (part + 1 < it->part1)
			find_units(&a, a.next, it, part + 1);
		float *part_out = it->tile < 0 ? NULL : op->plan->partial + it->partial + (part - it->part0) * part_floats;
		for (int r = 0, n; r < a.rows; r += n) {
			n = rows_of(a.rows - r);
			if (part_out) {
				partition(&a, part, r, n, part_out + r, part_out + a.rows + r, part_out + 2 * a.rows + r * a.hdp);
				continue;
			}
			float top[MAX_ROWS] = {0}, sum[MAX_ROWS];
			partition(&a, part, r, n, top, sum, acc);
			for (int i = 0; i < n; i++)
				merge(&a, r + i, top[i], sum[i], acc + i * a.hdp);
		}
	}
	if (it->tile >= 0) {
		gk_tile *t = &op->plan->tiles[it->tile];
		if (__atomic_sub_fetch(&t->left, 1, __ATOMIC_ACQ_REL) > 0)
			return;
		t->left = t->items; // for the next layer
		for (int part = t->part0; part < t->part1; part++) {
			const float *f = op->plan->partial + t->partial + (part - t->part0) * part_floats;
			for (int r = 0; r < a.rows; r++)
				merge(&a, r, f[r], f[a.rows + r], f + 2 * a.rows + r * a.hdp);
		}
	}
	finish(&a, it, row0);
}

// The sampler. Its definition is in ref/sample.go; here is how it is made fast.
//
// One pass takes the highest logit of every 64. The k-th highest of these is a
// bound that at least k logits reach, so top-k looks only at blocks that reach
// it. Top-p guesses how many tokens hold its mass, and looks again with a lower
// bound where they do not. What is left is selected by radix, not sorted.
// Without a filter, sums over 1024 tokens find the piece that holds the point.

#define BLOCK 64
#define PIECE 1024

typedef struct {
	uint32_t id, key;
	uint64_t mass;
} cand;

typedef struct {
	const float *x;
	int n, blocks;
	float top, temperature, min_p;
	float *block_top; // [blocks]
	cand *list;       // [n]
	uint64_t *pieces; // mass of every PIECE tokens
	float *copy;      // [n]
} sampler;

INLINE v16 logits_at(const sampler *s, int i) {
	int left = s->n - i;
	if (left >= 16)
		return v_add(v_load(s->x + i), v_zero()); // −0 → 0
	return v_range(v_add(v_load_part(s->x + i, left), v_zero()), 0, 0, left);
}

// probabilities returns those of 16 logits over that of the highest, 0 below
// min_p.
INLINE v16 probabilities(const sampler *s, v16 x) {
	v16 w = v_exp_or_0(v_div(v_sub(x, v_set1(s->top)), v_set1(s->temperature)));
	return v_keep_ge(w, w, s->min_p);
}

INLINE uint64_t mass_of(float w) {
	double d = (double)w * 0x1p40 + 0x1p52; // rounds to an integer, ties to even
	uint64_t u;
	memcpy(&u, &d, 8);
	return u & 0xfffffffffffffULL;
}

// Keys order as the logits do.
INLINE uint32_t key_of(float x) {
	uint32_t u;
	memcpy(&u, &x, 4);
	return u >> 31 ? ~u : u | 0x80000000u;
}

INLINE float of_key(uint32_t k) {
	uint32_t u = k >> 31 ? k & 0x7fffffffu : ~k;
	float f;
	memcpy(&f, &u, 4);
	return f;
}

// find_tops finds the highest logits; 0 if there is a NaN.
static int find_tops(sampler *s) {
	v16 nan = v_zero();
	s->top = -INFINITY;
	for (int b = 0; b < s->blocks; b++) {
		v16 m = v_set1(-INFINITY);
		for (int i = b * BLOCK; i < (b + 1) * BLOCK && i < s->n; i += 16) {
			v16 x = logits_at(s, i);
			m = v_max(x, m);
			nan = v_or_nan(nan, x);
		}
		s->block_top[b] = v_top(m);
		s->top = s->block_top[b] > s->top ? s->block_top[b] : s->top;
	}
	float t[16], any = 0;
	v_store(t, nan);
	for (int i = 0; i < 16; i++)
		any += t[i];
	return any == any;
}

static int highest(const sampler *s) {
	int b = 0;
	while (s->block_top[b] != s->top)
		b++;
	float x[16];
	for (int i = b * BLOCK;; i += 16) {
		v_store(x, logits_at(s, i));
		for (int j = 0; j < 16; j++)
			if (x[j] == s->top)
				return i + j;
	}
}

// total returns the mass of all tokens that reach min_p, and that of each piece.
static uint64_t total(const sampler *s) {
	uint64_t sum = 0;
	for (int p = 0; p * PIECE < s->n; p++) {
		vmass m = {0};
		for (int i = p * PIECE; i < (p + 1) * PIECE && i < s->n; i += 16)
			v_mass_add(&m, probabilities(s, logits_at(s, i)));
		sum += s->pieces[p] = v_mass_sum(&m);
	}
	return sum;
}

// draw_all returns the token at a point of the mass of all tokens.
static int draw_all(const sampler *s, uint64_t point) {
	int p = 0;
	for (; point >= s->pieces[p]; p++)
		point -= s->pieces[p];
	float w[16];
	for (int i = p * PIECE;; i += 16) {
		v_store(w, probabilities(s, logits_at(s, i)));
		for (int j = 0; j < 16; j++) {
			uint64_t m = mass_of(w[j]);
			if (point < m)
				return i + j;
			point -= m;
		}
	}
}

// top_select keeps, of n candidates in order of key, highest first, then of ID,
// those before which less than limit has been counted: their number, or their
// mass if by_mass. It returns how many; they stay in order of ID.
static int top_select(cand *c, int n, uint64_t limit, int by_mass) {
	uint32_t prefix = 0;
	uint64_t before = 0, ties = 0;
	if (limit < 1)
		limit = 1;
	for (int shift = 24; shift >= 0; shift -= 8) {
		uint64_t bins[256] = {0};
		for (int i = 0; i < n; i++)
			if (shift == 24 || c[i].key >> (shift + 8) == prefix)
				bins[c[i].key >> shift & 255] += by_mass ? c[i].mass : 1;
		int b = 255;
		while (b > 0 && before + bins[b] < limit)
			before += bins[b--];
		prefix = prefix << 8 | b;
		ties = bins[b];
	}
	// Equal keys have equal masses.
	uint64_t each = 1;
	for (int i = 0; by_mass && i < n; i++)
		if (c[i].key == prefix) {
			each = c[i].mass;
			break;
		}
	ties = limit > before ? (limit - before + each - 1) / each : 0;
	int kept = 0;
	for (int i = 0; i < n; i++) {
		if (c[i].key < prefix)
			continue;
		if (c[i].key == prefix) {
			if (ties == 0)
				continue;
			ties--;
		}
		c[kept++] = c[i];
	}
	return kept;
}

// bound returns a logit that at least k logits reach.
static float bound(const sampler *s, int k) {
	if (k >= s->blocks)
		return -INFINITY;
	for (int b = 0; b < s->blocks; b++)
		s->list[b] = (cand){b, key_of(s->block_top[b]), 1};
	int n = top_select(s->list, s->blocks, k, 0);
	uint32_t low = UINT32_MAX;
	for (int i = 0; i < n; i++)
		low = s->list[i].key < low ? s->list[i].key : low;
	return of_key(low);
}

// gather lists the candidates of at least low and returns how many.
static int gather_list(sampler *s, float low, uint64_t *mass) {
	int n = 0;
	*mass = 0;
	for (int b = 0; b < s->blocks; b++) {
		if (!(s->block_top[b] >= low))
			continue;
		for (int i = b * BLOCK; i < (b + 1) * BLOCK && i < s->n; i += 16) {
			float x[16], w[16];
			v16 l = logits_at(s, i);
			v_store(x, l);
			v_store(w, probabilities(s, l));
			for (int j = 0; j < 16; j++) {
				uint64_t m = mass_of(w[j]);
				if (m == 0 || x[j] < low)
					continue;
				s->list[n++] = (cand){i + j, key_of(x[j]), m};
				*mass += m;
			}
		}
	}
	return n;
}

static uint64_t mass_limit(float p, uint64_t mass) {
	double d = (double)p * (double)mass;
	return d > 0 ? (uint64_t)d : 0;
}

static uint64_t list_mass(const cand *c, int n) {
	uint64_t sum = 0;
	for (int i = 0; i < n; i++)
		sum += c[i].mass;
	return sum;
}

// filter applies top-k and top-p and returns how many candidates stay.
static int filter(sampler *s, const gk_sampling *p) {
	uint64_t mass;
	int n;
	if (p->top_k > 0 && p->top_k < s->n) {
		n = gather_list(s, bound(s, p->top_k), &mass);
		if (p->top_k < n)
			n = top_select(s->list, n, p->top_k, 0);
		if (p->top_p < 1)
			n = top_select(s->list, n, mass_limit(p->top_p, list_mass(s->list, n)), 1);
		return n;
	}
	uint64_t limit = mass_limit(p->top_p, total(s));
	for (int guess = 64;; guess *= 8) {
		float low = bound(s, guess);
		n = gather_list(s, low, &mass);
		if (mass >= limit || low == -INFINITY)
			return top_select(s->list, n, limit, 1);
	}
}

// random64 is the random number of (seed, position): Philox4x32-10.
// Source: Salmon et al. 2011.
static uint64_t random64(uint64_t seed, uint64_t position) {
	uint32_t c[4] = {position, position >> 32, 0, 0}, k0 = seed, k1 = seed >> 32;
	for (int i = 0; i < 10; i++) {
		uint64_t a = (uint64_t)0xD2511F53 * c[0], b = (uint64_t)0xCD9E8D57 * c[2];
		c[0] = (b >> 32) ^ c[1] ^ k0;
		c[2] = (a >> 32) ^ c[3] ^ k1;
		c[1] = b;
		c[3] = a;
		k0 += 0x9E3779B9;
		k1 += 0xBB67AE85;
	}
	return (uint64_t)c[1] << 32 | c[0];
}

#include "logits.h"

static int sample_row(sampler *s, const gk_sampling *p) {
	change(s, p);
	if (!has_distribution(s))
		return -1;
	if (!(p->temperature > 0))
		return highest(s);
	s->temperature = p->temperature;
	s->min_p = p->min_p > 0 ? (p->min_p < 1 ? p->min_p : 1) : 0;
	uint64_t u = random64(p->seed, p->position);
	if (!(p->top_k > 0 && p->top_k < s->n) && !(p->top_p < 1))
		return draw_all(s, (unsigned __int128)u * total(s) >> 64);
	int n = filter(s, p);
	uint64_t point = (unsigned __int128)u * list_mass(s->list, n) >> 64;
	int i = 0;
	for (; point >= s->list[i].mass; i++)
		point -= s->list[i].mass;
	return s->list[i].id;
}

// GK_SAMPLE: idx[row] = a token of x[row] as sampling[row] asks.
static void run_sample(gk_op *op, int row, gk_worker *wk) {
	sampler s = sampler_of(op, row, wk);
	op->idx.data[row] = sample_row(&s, &op->sampling[row]);
}

static int isa_lane(int dt, int i) { return v_lane(dt, i); }

const gk_isa ISA_TABLE = {
	.name = ISA_NAME,
	.max_rows = MAX_ROWS,
	.lane = isa_lane,
	.run = {
		[GK_RMSNORM] = run_rms_norm,
		[GK_ADD_RMSNORM] = run_add_rms_norm,
		[GK_SOFTCAP] = run_soft_cap,
		[GK_ROUTE] = run_route,
		[GK_LINEAR_EACH] = run_linear_each,
		[GK_ADD_WEIGHTED] = run_add_weighted,
		[GK_LINEAR] = run_linear,
		[GK_GATE] = run_gate,
		[GK_ROPE_WRITE] = run_rope_write,
		[GK_ATTENTION] = run_attention,
		[GK_SAMPLE] = run_sample,
		[GK_PROCESS] = run_process,
		[GK_LOGPROBS] = run_logprobs,
	},
};
