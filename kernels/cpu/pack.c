//go:build cgo

// Packing weights: rows of a file become columns of a panel, and are converted
// on the way. It runs on the caller's thread, several at a time, for rows that
// no other call writes; the pool has no part in it.
#include "gk.h"
#include <string.h>

#define PIECE 128 // columns whose rows lie in the first-level cache while they are turned

// convert writes n values of src to dst. Loops over one pair of types each have
// no branches, so that the compiler makes vectors of them.
static void convert(int dst_type, void *dst, int src_type, const void *src, int n) {
	if (dst_type == src_type) {
		memcpy(dst, src, n * gk_size(dst_type));
	} else if (dst_type == GK_F32) {
		if (src_type == GK_BF16)
			for (int i = 0; i < n; i++)
				((float *)dst)[i] = gk_from_bf16(((const uint16_t *)src)[i]);
		else
			for (int i = 0; i < n; i++)
				((float *)dst)[i] = gk_from_f16(((const uint16_t *)src)[i]);
	} else if (src_type != GK_F32) { // between the two short ones
		float f[PIECE];
		convert(GK_F32, f, src_type, src, n);
		convert(dst_type, dst, GK_F32, f, n);
	} else if (dst_type == GK_BF16) {
		for (int i = 0; i < n; i++)
			((uint16_t *)dst)[i] = gk_to_bf16(((const float *)src)[i]);
	} else {
		for (int i = 0; i < n; i++)
			((uint16_t *)dst)[i] = gk_to_f16(((const float *)src)[i]);
	}
}

// TURN writes n columns of a piece into lines of a panel: all lanes, or some.
// Lane l of the piece lies at from + l·PIECE, so that all distances are known.
#define TURN(type)                                                             \
	static void turn_##type(type *lines, const type *from, int rows, const int *lane, int n) { \
		if (rows == GK_LANES)                                                  \
			for (int k = 0; k < n; k++, lines += GK_LANES)                     \
				for (int l = 0; l < GK_LANES; l++)                             \
					lines[l] = from[l * PIECE + k];                            \
		else                                                                   \
			for (int i = 0; i < rows; i++)                                     \
				for (int k = 0; k < n; k++)                                    \
					lines[k * GK_LANES + lane[i]] = from[lane[i] * PIECE + k]; \
	}
TURN(uint16_t)
TURN(uint32_t)

// pack_panel writes rows of a panel that lie in src one after the other; lane
// says where each stands in a line.
static void pack_panel(gk_weight *w, char *panel, const int *lane, int rows, int src_type, const char *src) {
	size_t size = gk_size(w->dtype), src_size = gk_size(src_type);
	_Alignas(64) uint32_t buffer[GK_LANES * PIECE];
	for (int k = 0; k < w->k; k += PIECE) {
		int n = w->k - k < PIECE ? w->k - k : PIECE;
		for (int i = 0; i < rows; i++)
			convert(w->dtype, (char *)buffer + lane[i] * PIECE * size, src_type, src + ((size_t)i * w->k + k) * src_size, n);
		char *lines = panel + (size_t)k * GK_LANES * size;
		if (size == 2)
			turn_uint16_t((uint16_t *)lines, (uint16_t *)buffer, rows, lane, n);
		else
			turn_uint32_t((uint32_t *)lines, buffer, rows, lane, n);
	}
}

// gk_pack writes rows [row, row+n) of a weight from a row-major matrix.
void gk_pack(const gk_isa *isa, gk_weight *w, int row, int n, int src_type, const void *src) {
	size_t row_bytes = (size_t)w->k * gk_size(src_type), panel_bytes = (size_t)w->k * GK_LANES * gk_size(w->dtype);
	for (const char *from = src; n > 0;) {
		int first = row % GK_LANES, rows = GK_LANES - first < n ? GK_LANES - first : n, lane[GK_LANES];
		for (int i = 0; i < rows; i++)
			lane[i] = isa->lane(w->dtype, first + i);
		pack_panel(w, (char *)w->data + row / GK_LANES * panel_bytes, lane, rows, src_type, from);
		from += rows * row_bytes;
		row += rows;
		n -= rows;
	}
}
