// The shared vocabulary of the C side: buffers, operations, workers, and the
// table of functions that an instruction-set level fills.
//
// Everything here lives in memory of its own (mem.c), never on the Go heap, so
// a step's operations may point at each other freely.
#ifndef GK_H
#define GK_H

#include <stddef.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))

// Number types, as kernels.DType numbers them.
enum { GK_F32 = 1, GK_BF16 = 2, GK_F16 = 3 };

static inline size_t gk_size(int dt) { return dt == GK_F32 ? 4 : 2; }

// A panel is 16 columns of a matrix, its K values of each side by side:
// [K][16]. Weights are panels [N/16][K][16], N padded with zeros. The order of
// the 16 values within a bfloat16 line is the level's own (gk_isa.lane).
#define GK_LANES 16

// A partition is the piece of context whose softmax is taken by itself. Its
// bounds are absolute positions, so they never depend on chunks or threads.
#define GK_PART 64

typedef struct {
	void *data;
	int32_t n, k, dtype;
} gk_weight;

typedef struct {
	float *data;
	int64_t stride; // floats from row to row
	int32_t rows, cols;
} gk_act;

typedef struct {
	int32_t *data;
	int64_t len;
} gk_ints;

// The cache is [layers][numBlocks][kvHeads][blockSize/16] units of 16 tokens.
// A unit is K as a panel [headDim][16 tokens], then V as panels
// [headDim/16][16 tokens][16]; headDim of V is padded to 16.
typedef struct {
	char *data;
	int32_t layers, blocks, block_size, kv_heads, head_dim, dtype;
	int64_t k_bytes, unit_bytes, block_bytes, layer_bytes;
} gk_kv;

typedef struct {
	int32_t heads, kv_heads, head_dim, window;
	float scale, softcap;
} gk_shape;

// One piece of attention work: queries [q0, q0+nq) of a sequence for one KV
// head, over partitions [part0, part1).
typedef struct {
	int32_t seq, kv_head, q0, nq;
	int32_t part0, part1;
	int32_t tile;    // index of the split tile it belongs to, or -1
	int32_t cost;    // in rows × partitions
	int64_t partial; // floats from the start of the plan's partials
} gk_item;

// A tile that several items share; the last one to finish combines.
typedef struct {
	uint32_t left; // items not yet finished, atomic
	int32_t items; // to set left anew for the next layer
	int32_t part0, part1;
	int64_t partial; // of part0
} gk_tile;

// The attention work of a step, made once from its batch by GK_PLAN.
typedef struct {
	int32_t count, num_tiles;
	int32_t cap_items, cap_tiles;
	int64_t cap_partial; // floats
	gk_item *items;
	gk_tile *tiles;
	float *partial;
} gk_plan;

// kernels.TokenBias and kernels.TokenCount.
typedef struct {
	int32_t id;
	float bias;
} gk_bias;

typedef struct {
	int32_t id, output;
} gk_count;

// What a row asks of the sampler: kernels.SamplingRow.
typedef struct {
	float temperature, top_p, min_p;
	int32_t top_k;
	uint64_t seed, position;
	int32_t changes; // whether anything below does
	int32_t num_allowed, num_banned, num_bias, num_seen;
	const int32_t *allowed; // NULL: all
	const int32_t *banned;
	const gk_bias *bias;
	const gk_count *seen;
	float repetition, frequency, presence;
} gk_sampling;

// What is asked about a row of logits, kernels.LogprobRow, and the answer: the
// logits of the IDs, NaN for an ID beyond the row. The value of a logit x is
// x − top − log(mass·2⁻⁴⁰); mass is 0 where there is no distribution.
typedef struct {
	int32_t row, n, k; // n logits in all; k of them the most likely, or 0
	int32_t rank;
	int32_t *ids;  // [n]; in: the chosen token's is set here, others unless k
	float *logits; // [n]
	float top;
	uint64_t mass;
} gk_logprobs;

enum {
	GK_COPY,   // bytes of src to dst: uploads, downloads
	GK_COPY_ROWS,
	GK_EMBED,
	GK_RMSNORM,
	GK_ADD_RMSNORM,
	GK_LINEAR,
	GK_GATE,
	GK_SOFTCAP,
	GK_ROUTE,
	GK_LINEAR_EACH,
	GK_ADD_WEIGHTED,
	GK_ROPE_WRITE,
	GK_PLAN,
	GK_ATTENTION,
	GK_GATHER,
	GK_SAMPLE,
	GK_PROCESS,
	GK_LOGPROBS,
	GK_COPY_BLOCKS,
	GK_KINDS
};

// One recorded operation. Which fields mean what is said where the kind is run.
typedef struct __attribute__((aligned(64))) gk_op {
	uint64_t next;    // step number << 32 | next chunk to claim, atomic
	uint32_t done;    // chunks finished, atomic, a futex
	uint32_t waiters; // threads asleep on done, atomic
	char pad[48];

	int32_t kind, T;
	int32_t chunks; // atomic; of GK_ATTENTION: set by its plan
	int32_t flag;
	int32_t rows_per_chunk, cols_per_chunk;
	int32_t tile_queries; // most queries of one attention item
	gk_act out, x;
	const gk_weight *w;
	const gk_weight *const *ws; // [num_ws]
	int32_t num_ws, each;
	const float *bias, *bias2;
	const float *cos, *sin;
	int32_t rotary, positions, style, layer;
	gk_ints idx, idx2, idx3;
	gk_kv *kv;
	gk_shape shape;
	int32_t num_seqs, max_blocks;
	gk_plan *plan;
	const gk_sampling *sampling;
	gk_logprobs *logprobs;
	void *dst;
	const void *src;
	int64_t bytes;
	float f0;
} gk_op;

struct gk_isa;

// What one thread has to itself.
typedef struct __attribute__((aligned(64))) gk_worker {
	struct gk_dev *dev;
	char *scratch;
	size_t scratch_bytes;
	int index;
} gk_worker;

// An index that pointed outside; the first one of a step is kept.
typedef struct {
	uint32_t set; // atomic
	int32_t kind, what, entry;
	int64_t value, limit;
} gk_error;

enum { GK_TOKEN = 1, GK_ROW, GK_POSITION, GK_SLOT, GK_BLOCK, GK_LENGTH, GK_QUERIES, GK_MATRIX };

typedef void (*gk_run_fn)(gk_op *, int chunk, gk_worker *);

typedef struct gk_isa {
	const char *name;
	int max_rows; // rows of the widest register tile
	gk_run_fn run[GK_KINDS]; // NULL: the shared one of ops.c
	// lane says where column i of 16 lies within a line of a panel.
	int (*lane)(int dtype, int i);
} gk_isa;

extern const gk_isa gk_generic;
#if defined(__x86_64__)
extern const gk_isa gk_avx2;
#endif

typedef struct gk_dev {
	const gk_isa *isa;
	int threads;
	gk_worker *workers;
	uint64_t *tids;
	// The step being run.
	gk_op *ops;
	int32_t num_ops;
	uint32_t step;     // atomic, a futex: workers sleep on it between steps
	uint32_t sleepers; // atomic
	uint32_t quit;     // atomic
	size_t scratch_bytes;
	gk_error error;
	struct gk_map *maps;
	char *slab;
	size_t slab_left;
} gk_dev;

// dispatch.c
const gk_isa *gk_find_isa(const char *name);
const char *gk_isa_names(void);

// mem.c
void *gk_alloc(gk_dev *, size_t bytes, int huge);
void gk_free_all(gk_dev *);

// pool.c
gk_dev *gk_open(const gk_isa *, int threads);
void gk_close(gk_dev *);
int gk_run(gk_dev *, gk_op *ops, int n);

// pack.c
void gk_pack(const gk_isa *, gk_weight *, int row, int n, int src_type, const void *src);

// ops.c
void gk_prepare(gk_dev *, gk_op *);
size_t gk_scratch(const gk_dev *, const gk_op *);
extern const gk_run_fn gk_shared[GK_KINDS];
void gk_fail(gk_worker *, const gk_op *, int what, int entry, int64_t value, int64_t limit);

static inline gk_run_fn gk_kernel(const gk_isa *isa, int kind) {
	return isa->run[kind] ? isa->run[kind] : gk_shared[kind];
}

static inline int gk_ceil(int a, int b) { return (a + b - 1) / b; }

// Rounds to the nearest, ties to even; NaN stays NaN.
static inline uint16_t gk_to_bf16(float f) {
	uint32_t u;
	__builtin_memcpy(&u, &f, 4);
	uint32_t nan = (u & 0x7fffffff) > 0x7f800000;
	return nan ? (uint16_t)(u >> 16 | 0x40) : (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static inline float gk_from_bf16(uint16_t h) {
	uint32_t u = (uint32_t)h << 16;
	float f;
	__builtin_memcpy(&f, &u, 4);
	return f;
}

static inline float gk_from_f16(uint16_t h) {
	// As float32 bits the half is 2¹¹² too small, subnormals too.
	uint32_t u = (uint32_t)(h & 0x7fff) << 13, inf = (h & 0x7c00) == 0x7c00 ? 0x7f800000 : 0;
	float f;
	__builtin_memcpy(&f, &u, 4);
	f *= 0x1p112f;
	__builtin_memcpy(&u, &f, 4);
	u |= inf | (uint32_t)(h & 0x8000) << 16;
	__builtin_memcpy(&f, &u, 4);
	return f;
}

// gk_to_f16 makes every case and picks: a loop over it has no branches.
static inline uint16_t gk_to_f16(float f) {
	uint32_t u, low;
	__builtin_memcpy(&u, &f, 4);
	uint32_t sign = u >> 16 & 0x8000;
	u &= 0x7fffffff;
	__builtin_memcpy(&f, &u, 4);
	f += 0.5f; // below 2⁻¹⁴ the float adder rounds at 2⁻²⁴
	__builtin_memcpy(&low, &f, 4);
	uint32_t h = (u + 0xfff + (u >> 13 & 1) - (112u << 23)) >> 13;
	h = u < 0x38800000 ? low & 0x7ff : h;
	h = u >= 0x477ff000 ? 0x7c00 : h;
	h = u > 0x7f800000 ? 0x7e00 | (u >> 13 & 0x3ff) : h;
	return (uint16_t)(sign | h);
}

static inline float gk_get(int dt, const void *p, size_t i) {
	if (dt == GK_F32)
		return ((const float *)p)[i];
	uint16_t h = ((const uint16_t *)p)[i];
	return dt == GK_BF16 ? gk_from_bf16(h) : gk_from_f16(h);
}

static inline void gk_put(int dt, void *p, size_t i, float f) {
	if (dt == GK_F32)
		((float *)p)[i] = f;
	else
		((uint16_t *)p)[i] = dt == GK_BF16 ? gk_to_bf16(f) : gk_to_f16(f);
}

#endif
