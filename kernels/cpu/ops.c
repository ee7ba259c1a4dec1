//go:build cgo

// What needs no vectors: how operations are cut into chunks, the checks of
// indices, copies, and the plan of a step's attention.
#include "gk.h"
#include <string.h>

// gk_fail keeps the first index of a step that points outside.
void gk_fail(gk_worker *w, const gk_op *op, int what, int entry, int64_t value, int64_t limit) {
	gk_error *e = &w->dev->error;
	if (__atomic_exchange_n(&e->set, 1, __ATOMIC_ACQ_REL))
		return;
	e->kind = op->kind;
	e->what = what;
	e->entry = entry;
	e->value = value;
	e->limit = limit;
}

static int outside(int64_t i, int64_t n) { return i < 0 || i >= n; }

// set_chunks is atomic because a late thread may still look at the operation.
static void set_chunks(gk_op *op, int n) { __atomic_store_n(&op->chunks, n, __ATOMIC_RELAXED); }

// cut sets the chunks of an operation over T rows and cols columns.
static void cut(gk_op *op, int rows, int rows_per_chunk, int cols, int cols_per_chunk) {
	op->rows_per_chunk = rows_per_chunk;
	op->cols_per_chunk = cols_per_chunk;
	set_chunks(op, gk_ceil(rows, rows_per_chunk) * gk_ceil(cols, cols_per_chunk));
}

// cut_linear cuts [T, N] into blocks. Up to max_rows rows are one register
// tile, and only the panels are dealt out. More rows are cut into blocks whose
// x stays in the second-level cache while a group of panels passes over it.
static void cut_linear(gk_dev *d, gk_op *op) {
	int panels = gk_ceil(op->w->n, GK_LANES), T = op->T;
	if (T <= d->isa->max_rows) {
		// Four panels are the widest tile; several chunks a thread even out.
		int group = panels / (d->threads * 7) & ~3;
		group = group > 16 ? 16 : group > 0 ? group : panels < 4 * d->threads ? 1 : 2;
		cut(op, T, T > 0 ? T : 1, panels, group);
		return;
	}
	int blocks = gk_ceil(T, 96);
	int rows = gk_ceil(gk_ceil(T, blocks), d->isa->max_rows) * d->isa->max_rows;
	int group = 8;
	while (group > 2 && gk_ceil(panels, group) * blocks < 4 * d->threads)
		group /= 2;
	cut(op, T, rows, panels, group);
}

// gk_prepare sets an operation's chunks. The work is the same however it is cut.
void gk_prepare(gk_dev *d, gk_op *op) {
	switch (op->kind) {
	case GK_COPY:
	case GK_PLAN:
	case GK_COPY_BLOCKS:
		set_chunks(op, 1);
		break;
	case GK_COPY_ROWS:
		cut(op, op->T, op->T > 0 ? op->T : 1, 1, 1);
		break;
	case GK_EMBED:
	case GK_GATHER:
	case GK_RMSNORM:
	case GK_ADD_RMSNORM:
	case GK_ROUTE:
	case GK_ADD_WEIGHTED:
		cut(op, op->T, op->T > 64 ? 4 : 1, 1, 1);
		break;
	case GK_ROPE_WRITE:
		cut(op, op->T, 1, 1, 1);
		break;
	case GK_LINEAR:
		cut_linear(d, op);
		break;
	case GK_LINEAR_EACH:
		cut(op, op->num_ws, 1, gk_ceil(op->ws[0]->n, GK_LANES), 8);
		break;
	case GK_GATE:
		cut(op, op->T, 1, op->out.cols, 1024);
		break;
	case GK_SOFTCAP:
		cut(op, op->T, 1, op->x.cols, 4096);
		break;
	case GK_SAMPLE:
	case GK_PROCESS:
	case GK_LOGPROBS:
		cut(op, op->T, 1, 1, 1);
		break;
	case GK_ATTENTION:
		set_chunks(op, 0); // its plan knows
		break;
	}
}

// GK_COPY: bytes of src to dst.
static void copy(gk_op *op, int chunk, gk_worker *w) { memcpy(op->dst, op->src, op->bytes); }

// GK_COPY_ROWS: T rows of x to dst, without the padding.
static void copy_rows(gk_op *op, int chunk, gk_worker *w) {
	for (int t = 0; t < op->T; t++)
		memcpy((float *)op->dst + (size_t)t * op->x.cols, op->x.data + t * op->x.stride, sizeof(float) * op->x.cols);
}

// GK_EMBED: out[t] = w[idx[t]]·f0, read from the panels.
static void embed(gk_op *op, int chunk, gk_worker *w) {
	const gk_weight *m = op->w;
	size_t size = gk_size(m->dtype);
	int end = (chunk + 1) * op->rows_per_chunk;
	for (int t = chunk * op->rows_per_chunk; t < end && t < op->T; t++) {
		int32_t id = op->idx.data[t];
		if (outside(id, m->n)) {
			gk_fail(w, op, GK_TOKEN, t, id, m->n);
			continue;
		}
		const char *panel = (const char *)m->data + (size_t)(id / GK_LANES) * m->k * GK_LANES * size;
		int lane = w->dev->isa->lane(m->dtype, id % GK_LANES);
		float *out = op->out.data + t * op->out.stride;
		for (int k = 0; k < m->k; k++)
			out[k] = gk_get(m->dtype, panel, (size_t)k * GK_LANES + lane) * op->f0;
	}
}

// GK_GATHER: out[i] = x[idx[i]].
static void gather(gk_op *op, int chunk, gk_worker *w) {
	int end = (chunk + 1) * op->rows_per_chunk;
	for (int t = chunk * op->rows_per_chunk; t < end && t < op->T; t++) {
		int32_t r = op->idx.data[t];
		if (outside(r, op->x.rows)) {
			gk_fail(w, op, GK_ROW, t, r, op->x.rows);
			continue;
		}
		memcpy(op->out.data + t * op->out.stride, op->x.data + r * op->x.stride, sizeof(float) * op->x.cols);
	}
}

// GK_COPY_BLOCKS: idx holds T pairs (from, to).
static void copy_blocks(gk_op *op, int chunk, gk_worker *w) {
	gk_kv *kv = op->kv;
	for (int i = 0; i < 2 * op->T; i++)
		if (outside(op->idx.data[i], kv->blocks)) {
			gk_fail(w, op, GK_BLOCK, i, op->idx.data[i], kv->blocks);
			return;
		}
	for (int layer = 0; layer < kv->layers; layer++)
		for (int i = 0; i < op->T; i++) {
			char *base = kv->data + layer * kv->layer_bytes;
			memmove(base + op->idx.data[2 * i + 1] * kv->block_bytes, base + op->idx.data[2 * i] * kv->block_bytes, kv->block_bytes);
		}
}

// check_batch says whether every number of the batch points inside.
static int check_batch(gk_op *op, gk_worker *w) {
	const int32_t *start = op->idx.data, *lens = op->idx2.data;
	int bs = op->kv->block_size;
	for (int s = 0; s < op->num_seqs; s++) {
		int64_t nq = (int64_t)start[s + 1] - start[s];
		if (start[s] < 0 || nq < 0 || start[s + 1] > op->T) {
			gk_fail(w, op, GK_QUERIES, s, start[s + 1], op->T + 1);
			return 0;
		}
		if (lens[s] < nq || lens[s] > (int64_t)op->max_blocks * bs) {
			gk_fail(w, op, GK_LENGTH, s, lens[s], (int64_t)op->max_blocks * bs + 1);
			return 0;
		}
		const int32_t *table = op->idx3.data + (size_t)s * op->max_blocks;
		for (int b = 0; b < gk_ceil(lens[s], bs); b++)
			if (outside(table[b], op->kv->blocks)) {
				gk_fail(w, op, GK_BLOCK, s, table[b], op->kv->blocks);
				return 0;
			}
	}
	return 1;
}

// first_part returns the partition of the first position that a query at pos
// sees.
static int first_part(const gk_shape *s, int pos) {
	int first = s->window > 0 && pos - s->window + 1 > 0 ? pos - s->window + 1 : 0;
	return first / GK_PART;
}

// order puts the costliest items first (a heap sort: items may be thousands).
static void sift(gk_item *v, int i, int n) {
	for (int c; (c = 2 * i + 1) < n; i = c) {
		if (c + 1 < n && v[c + 1].cost < v[c].cost)
			c++;
		if (v[i].cost <= v[c].cost)
			return;
		gk_item t = v[i];
		v[i] = v[c];
		v[c] = t;
	}
}

static void order(gk_item *v, int n) {
	for (int i = n / 2 - 1; i >= 0; i--)
		sift(v, i, n);
	for (int i = n - 1; i > 0; i--) {
		gk_item t = v[0];
		v[0] = v[i];
		v[i] = t;
		sift(v, 0, i);
	}
}

// GK_PLAN: the items of the attention operations after it that name its plan.
// Where there are few tiles for the threads, long ones are cut by partition;
// the pieces leave their partial results to the last one that finishes.
static void make_plan(gk_op *op, int chunk, gk_worker *w) {
	gk_plan *plan = op->plan;
	plan->count = plan->num_tiles = 0;
	if (!check_batch(op, w))
		return;
	const gk_shape *s = &op->shape;
	const int32_t *start = op->idx.data, *lens = op->idx2.data;
	int group = s->heads / s->kv_heads, tile_q = op->tile_queries, threads = w->dev->threads;
	int64_t tiles = 0, partial = 0;
	for (int i = 0; i < op->num_seqs; i++)
		tiles += (int64_t)s->kv_heads * gk_ceil(start[i + 1] - start[i], tile_q);
	int split = threads > 1 && tiles < 4 * threads;

	for (int i = 0; i < op->num_seqs; i++) {
		int n = start[i + 1] - start[i];
		for (int q = 0; q < n; q += tile_q) {
			int nq = n - q < tile_q ? n - q : tile_q, pos = lens[i] - n + q;
			int part0 = first_part(s, pos), part1 = (pos + nq - 1) / GK_PART + 1;
			int parts = part1 - part0, rows = nq * group, each = parts;
			int64_t part_floats = (int64_t)rows * (gk_ceil(s->head_dim, GK_LANES) * GK_LANES + 2);
			if (split && parts > 4) {
				each = gk_ceil(parts, gk_ceil(4 * threads, (int)tiles));
				each = each < 4 ? 4 : each;
			}
			for (int h = 0; h < s->kv_heads; h++) {
				int pieces = gk_ceil(parts, each), tile = -1;
				if (pieces > 1 && partial + parts * part_floats <= plan->cap_partial && plan->num_tiles < plan->cap_tiles) {
					tile = plan->num_tiles++;
					plan->tiles[tile] = (gk_tile){pieces, pieces, part0, part1, partial};
				} else {
					pieces = 1;
				}
				for (int k = 0; k < pieces; k++) {
					int p0 = pieces == 1 ? part0 : part0 + k * each;
					int p1 = pieces == 1 || p0 + each > part1 ? part1 : p0 + each;
					plan->items[plan->count++] = (gk_item){i, h, q, nq, p0, p1, tile, rows * (p1 - p0), partial + (p0 - part0) * part_floats};
				}
				if (tile >= 0)
					partial += parts * part_floats;
			}
		}
	}
	order(plan->items, plan->count);
	gk_dev *d = w->dev;
	for (gk_op *o = op + 1; o < d->ops + d->num_ops; o++)
		if (o->kind == GK_ATTENTION && o->plan == plan)
			set_chunks(o, plan->count);
}

// gk_scratch returns the bytes of a worker's own memory that an operation needs.
size_t gk_scratch(const gk_dev *d, const gk_op *op) {
	int64_t floats = 0;
	switch (op->kind) {
	case GK_LINEAR:
		floats = (int64_t)op->rows_per_chunk * op->cols_per_chunk * GK_LANES;
		break;
	case GK_LINEAR_EACH:
		floats = (int64_t)d->isa->max_rows * (op->ws[0]->k + op->cols_per_chunk * GK_LANES);
		break;
	case GK_ATTENTION: {
		int64_t padded = gk_ceil(op->shape.head_dim, GK_LANES) * GK_LANES, most = d->isa->max_rows;
		int64_t rows = (int64_t)op->tile_queries * (op->shape.heads / op->shape.kv_heads);
		floats = rows * (2 * padded + 2) + most * (GK_PART + padded);
		break;
	}
	case GK_SAMPLE:
	case GK_PROCESS:
	case GK_LOGPROBS: // 20 bytes a token, and less than one for the rest
		floats = ((int64_t)op->x.cols + 1024) * 6;
		break;
	}
	return (size_t)(floats * sizeof(float) + 4095) & ~(size_t)4095;
}

const gk_run_fn gk_shared[GK_KINDS] = {
	[GK_COPY] = copy,
	[GK_COPY_ROWS] = copy_rows,
	[GK_EMBED] = embed,
	[GK_GATHER] = gather,
	[GK_COPY_BLOCKS] = copy_blocks,
	[GK_PLAN] = make_plan,
};
